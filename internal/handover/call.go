package handover

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"syscall"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

var (
	errSilent = errors.New("no byte came")
	errBrief  = errors.New("no connection came")
)

// request is one request for a state.
type request struct {
	method  string
	url     *url.URL
	token   string
	from    int64         // first byte wanted
	limit   time.Duration // of silence, once there is a connection
	patient bool          // for the connection, even to an address that was away a moment ago
}

// answer is the beginning of an answer, within its limit. It must be closed.
type answer struct {
	*http.Response
	host   string
	limit  time.Duration
	ctx    context.Context // its cause is errSilent if the limit was passed
	cancel context.CancelCauseFunc
	watch  *time.Timer
	read   int64 // bytes of the body
	waited time.Duration
}

// stopped is a timer that does not run yet. It would take an hour, so that a machine which stands still for a moment does not let it end before it is stopped.
func stopped(end func()) *time.Timer {
	t := time.AfterFunc(time.Hour, end)
	t.Stop()
	return t
}

// call sends a request. An error is a *protocol.HandoverError.
func (c *Client) call(parent context.Context, r request) (*answer, error) {
	ctx, cancel := context.WithCancelCause(parent)
	watch := stopped(func() { cancel(errSilent) }) // until there is a connection, which has its own limits
	attempt := c.absences.begin(r.url.Host, r.patient)
	connecting := stopped(func() { cancel(errBrief) })
	if attempt.brief() {
		connecting.Reset(briefLimit)
	}
	a := &answer{host: r.url.Host, limit: r.limit, ctx: ctx, cancel: cancel, watch: watch}
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		connecting.Stop()
		watch.Reset(r.limit)
	}}
	req := (&http.Request{Method: r.method, URL: r.url, Host: r.url.Host, Header: http.Header{
		"Authorization": {"Bearer " + r.token}, "User-Agent": {"tandem"},
	}}).WithContext(httptrace.WithClientTrace(ctx, trace))
	if r.from > 0 {
		req.Header.Set("Range", rangeFrom(r.from))
	}
	resp, err := c.transport.RoundTrip(req)
	connecting.Stop()
	if err != nil {
		defer a.close()
		failed := a.noAnswer(err, attempt.away)
		if h, ok := errors.AsType[*protocol.HandoverError](failed); ok && h.Failure == jobs.FailUnreachable && parent.Err() == nil {
			attempt.failed()
		} else {
			attempt.unknown()
		}
		return nil, failed
	}
	attempt.reached()
	a.Response = resp
	if a.failure() != nil { // which does not say what answered: results are read by strangers
		c.log.Info("a KV state was not given", "from", a.host, "method", r.method, "status", resp.StatusCode)
	}
	return a, nil
}

func (a *answer) close() {
	a.watch.Stop()
	if a.Response != nil {
		_ = a.Body.Close()
	}
	a.cancel(nil)
}

// Read reads from the body, for as long as bytes come.
func (a *answer) Read(p []byte) (int, error) {
	a.watch.Reset(a.limit)
	began := time.Now()
	n, err := a.Body.Read(p)
	a.waited += time.Since(began)
	a.read += int64(n)
	a.watch.Stop() // what happens between two reads is not the sender's fault
	return n, err
}

// silent reports whether the limit was passed.
func (a *answer) silent() bool { return context.Cause(a.ctx) == errSilent }

func (a *answer) tooSlow() error {
	return protocol.HandoverErrorf(jobs.FailTooSlow, "%s sent nothing for %s; look at the network between the machines, and at the prefill machine's load", a.host, a.limit)
}

// noAnswer says why a request was not answered. Away is what was known of the address, if it had only a moment for that.
func (a *answer) noAnswer(err error, away string) error {
	switch context.Cause(a.ctx) {
	case errSilent:
		return a.tooSlow()
	case errBrief:
		return protocol.HandoverErrorf(jobs.FailUnreachable, "the prefill worker at %s cannot be reached, and was not waited for: %s; see that it runs and that its port is open", a.host, away)
	}
	if err := refused(err, a.host); err != nil {
		return err
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return protocol.HandoverErrorf(jobs.FailUnreachable, "the prefill worker at %s has no certificate that is trusted here; give --handover-ca: %w", a.host, err)
	}
	return protocol.HandoverErrorf(jobs.FailUnreachable, "the prefill worker at %s cannot be reached; see that it runs and that its port is open: %w", a.host, cause(err))
}

// failure says what an answer's status means, or nil if it is a success.
func (a *answer) failure() error {
	switch code := a.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return protocol.HandoverErrorf(jobs.FailRefusedURL, "%s refused to give the KV state; point --handover-url at the prefill worker itself", a.host)
	case code == http.StatusNotFound || code == http.StatusGone:
		return protocol.HandoverErrorf(jobs.FailNotFound, "%s does not know the KV state: its lease ended, or the worker was restarted", a.host)
	case code == http.StatusRequestedRangeNotSatisfiable:
		return protocol.HandoverErrorf(jobs.FailTruncated, "%s has fewer bytes of the KV state than were promised", a.host)
	default:
		return protocol.HandoverErrorf(jobs.FailUnreachable, "%s failed to give the KV state; see the prefill worker's log", a.host)
	}
}

// cause is the part of a network error that may be shown: net/http puts what it does not understand into
// its messages, which may be anything that the other side sent.
func cause(err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	return errBroken
}

var errBroken = errors.New("the connection broke, or the answer is not HTTP")
