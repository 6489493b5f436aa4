package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tandem/internal/protocol"
	"tandem/internal/units"
	"tandem/jobs"
)

const (
	// maxBroken is how often in a row a transfer may break without moving worthwhile bytes. Between two
	// attempts firstPause is waited, doubled each time.
	maxBroken  = 4
	worthwhile = 1 << 20
	firstPause = 100 * time.Millisecond
	// slowestHash, in bytes a second, bounds the waiting for a digest: half a minute, and what the
	// slowest processor takes for the file.
	slowestHash = 50 << 20
	digestPause = 100 * time.Millisecond
)

// transfer is one state on its way.
type transfer struct {
	client   *Client
	state    *jobs.State
	url      *url.URL
	target   *target
	progress func()

	// Where only what is new is fetched: where the rows are that are not, where they are here, and the rest of the file.
	rows []protocol.Span
	base *base
	rest *rest

	resumed int
	name    string        // of the rows
	moved   int64         // bytes that were sent
	waited  time.Duration // for them
	failed  bool          // not only what is new could be fetched
}

// brokenError is a transfer that may go on where it broke.
type brokenError struct{ error }

// pull moves the bytes and compares their digest.
func (t *transfer) pull(ctx context.Context) error {
	hash := newHasher()
	defer hash.close()
	err := t.retry(ctx, func() error { return t.move(ctx, hash) })
	if err != nil {
		return err
	}
	sum := hash.sum()
	var want string
	err = t.retry(ctx, func() (err error) {
		want, err = t.askDigest(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if sum != want {
		return protocol.HandoverErrorf(jobs.FailDigest, "the KV state of %s from %s is not the one that was written: its SHA-256 differs; test the memory and network of both machines if this goes on", units.Bytes(t.state.Bytes), t.url.Host)
	}
	return nil
}

// retry repeats what broke, as long as it gets on, and not at all before the first byte: a worker that
// was restarted does not know the state any more.
func (t *transfer) retry(ctx context.Context, f func() error) error {
	for broken := 1; ; broken++ {
		before := t.target.size
		err := f()
		b, ok := errors.AsType[brokenError](err)
		if !ok {
			return err
		}
		if t.target.size-before >= worthwhile {
			broken = 1
		}
		if t.target.size == 0 || broken > maxBroken {
			return b.error
		}
		t.client.log.Debug("the transfer of a KV state broke and is taken up again", "at", t.target.size, "of", t.state.Bytes, "error", b.error)
		if err := pause(ctx, firstPause<<(broken-1)); err != nil {
			return err
		}
	}
}

// move fetches what is missing.
func (t *transfer) move(ctx context.Context, hash *hasher) error {
	from := t.target.size
	address, begin, end := t.url, from, t.state.Bytes
	if t.base != nil {
		address, begin, end = t.url.JoinPath(wantRest), t.rest.before(from), t.rest.size()
	}
	a, err := t.client.call(ctx, request{
		method: http.MethodGet, url: address, token: t.state.Token, from: begin, limit: t.client.stall, patient: from > 0,
	})
	if err != nil {
		return orBroken(err)
	}
	defer a.close()
	if err := t.checkHead(a, begin, end); err != nil {
		if t.base != nil {
			return refusedPart(err)
		}
		return orBroken(err)
	}
	if from > 0 {
		t.resumed++
	}
	var source io.Reader = a
	if t.base != nil {
		source = newWeave(t.rows, t.base.file, a, from)
	}
	defer func() {
		t.moved += a.read
		t.waited += a.waited
	}()
	for missing := t.state.Bytes - from; missing > 0; {
		buf := hash.buffer()
		n, err := t.fill(source, buf[:min(missing, int64(len(buf)))])
		hash.add(buf[:n])
		if werr := t.target.write(buf[:n]); werr != nil {
			return werr
		}
		if missing -= int64(n); err != nil && missing > 0 {
			if err == errBase {
				return err
			}
			if a.silent() {
				return a.tooSlow()
			}
			return brokenError{protocol.HandoverErrorf(jobs.FailTruncated, "the KV state broke off after %s of %s; see that the prefill worker at %s still runs", units.Bytes(t.target.size), units.Bytes(t.state.Bytes), t.url.Host)}
		}
	}
	var more [1]byte // reading to the end also keeps the connection
	if n, _ := io.ReadFull(a, more[:]); n > 0 {
		return t.tooMuch()
	}
	return nil
}

// fill reads until the piece is full, or an error.
func (t *transfer) fill(r io.Reader, piece []byte) (n int, err error) {
	for n < len(piece) && err == nil {
		var got int
		if got, err = r.Read(piece[n:]); got > 0 {
			t.progress()
		}
		n += got
	}
	return n, err
}

// checkHead compares what an answer promises with what is missing, of the bytes up to the end.
func (t *transfer) checkHead(a *answer, from, end int64) error {
	if err := a.failure(); err != nil {
		return err
	}
	missing := end - from
	if a.ContentLength > missing {
		return t.tooMuch()
	}
	switch {
	case a.ContentLength >= 0 && a.ContentLength < missing:
		return protocol.HandoverErrorf(jobs.FailTruncated, "%s has %s of the KV state, and %s were promised", t.url.Host, units.Bytes(from+a.ContentLength), units.Bytes(end))
	case from == 0 && a.StatusCode == http.StatusOK:
		return nil
	case from == 0 || a.StatusCode != http.StatusPartialContent:
		return protocol.HandoverErrorf(jobs.FailTruncated, "the KV state broke off after %s of %s, and %s does not go on from there (HTTP status %d)", units.Bytes(from), units.Bytes(end), t.url.Host, a.StatusCode)
	}
	if first, last, total, ok := parseContentRange(a.Header.Get("Content-Range")); !ok || first != from || last != end-1 || total != end {
		return protocol.HandoverErrorf(jobs.FailTruncated, "the KV state broke off after %s of %s, and %s goes on elsewhere", units.Bytes(from), units.Bytes(end), t.url.Host)
	}
	return nil
}

func (t *transfer) tooMuch() error {
	return protocol.HandoverErrorf(jobs.FailTruncated, "%s sends more than the %s that were promised; it is not the KV state", t.url.Host, units.Bytes(t.state.Bytes))
}

// askDigest asks for the digest until it is there.
func (t *transfer) askDigest(ctx context.Context) (string, error) {
	until := time.Now().Add(30*time.Second + time.Duration(t.state.Bytes/slowestHash)*time.Second)
	for {
		sum, err := t.digest(ctx)
		if err != nil {
			return "", err
		}
		t.progress()
		if sum != "" {
			return sum, nil
		}
		if time.Now().After(until) {
			return "", protocol.HandoverErrorf(jobs.FailTooSlow, "%s has not computed the digest of %s yet; look at the load of the prefill machine", t.url.Host, units.Bytes(t.state.Bytes))
		}
		if err := pause(ctx, digestPause); err != nil {
			return "", err
		}
	}
}

// digest asks once; an empty one is not computed yet.
func (t *transfer) digest(ctx context.Context) (string, error) {
	text, err := t.ask(ctx, wantDigest, digestWait, 1024)
	if err != nil || text == nil {
		return "", err
	}
	sum, ok := parseDigest(text)
	if !ok {
		return "", protocol.HandoverErrorf(jobs.FailDigest, "%s answers with %d bytes that are no SHA-256; run the same version on both machines", t.url.Host, len(text))
	}
	return sum, nil
}

// ask asks for something about the state, of no more than so many bytes, which the sender may take a while to know; nil is not known yet.
func (t *transfer) ask(ctx context.Context, what string, while time.Duration, most int64) ([]byte, error) {
	first := what == wantPrefix
	a, err := t.client.call(ctx, request{
		method: http.MethodGet, url: t.url.JoinPath(what), token: t.state.Token, limit: while + t.client.stall, patient: !first,
	})
	if err != nil {
		return nil, orBroken(err)
	}
	defer a.close()
	if err := a.failure(); err != nil {
		if first {
			return nil, refusedPart(err)
		}
		return nil, orBroken(err)
	}
	text, err := io.ReadAll(io.LimitReader(a, most))
	switch {
	case a.silent():
		return nil, a.tooSlow()
	case err != nil:
		return nil, brokenError{protocol.HandoverErrorf(jobs.FailUnreachable, "the connection with %s broke before the %s came", t.url.Host, what)}
	case a.StatusCode == http.StatusAccepted:
		return nil, nil
	}
	return text, nil
}

// orBroken marks failures that another attempt may not have.
func orBroken(err error) error {
	if h, ok := errors.AsType[*protocol.HandoverError](err); ok && h.Failure == jobs.FailUnreachable {
		return brokenError{err}
	}
	return err
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func rangeFrom(from int64) string { return fmt.Sprintf("bytes=%d-", from) }

// parseContentRange reads "bytes first-last/total".
func parseContentRange(header string) (first, last, total int64, ok bool) {
	rest, ok := strings.CutPrefix(header, "bytes ")
	part, whole, ok2 := strings.Cut(rest, "/")
	from, to, ok3 := strings.Cut(part, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, 0, false
	}
	var numbers [3]int64
	for i, s := range []string{from, to, whole} {
		n, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			return 0, 0, 0, false
		}
		numbers[i] = int64(n)
	}
	first, last, total = numbers[0], numbers[1], numbers[2]
	return first, last, total, first <= last && last < total
}
