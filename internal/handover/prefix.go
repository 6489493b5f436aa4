package handover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sort"

	"tandem/internal/protocol"
)

// Limits of what a sender may say of a prefix.
const (
	mostRows   = 1 << 14 // spans: two for each layer is what there is
	mostPrefix = 1 << 20 // bytes of the answer
)

// prefix is the body of <url>/prefix: where in a state's file the rows are with which states of other jobs begin too, in the file's
// order, and what they are called.
type prefix struct {
	Name string          `json:"name"`
	Rows []protocol.Span `json:"rows"`
}

// parsePrefix reads an answer about a file of so many bytes.
func parsePrefix(answer []byte, bytes int64) (*prefix, error) {
	var p prefix
	if err := json.Unmarshal(answer, &p); err != nil {
		return nil, errors.New("it is not JSON of that form") // the decoder's words quote what it read
	}
	if _, ok := parseDigest([]byte(p.Name)); !ok {
		return nil, errors.New("the rows have no name")
	}
	return &p, checkRows(p.Rows, bytes)
}

// checkRows reports rows that are not parts of a file of so many bytes, one behind the other, or all of it.
func checkRows(rows []protocol.Span, bytes int64) error {
	if len(rows) == 0 || len(rows) > mostRows {
		return fmt.Errorf("%d spans of rows; want 1 to %d", len(rows), mostRows)
	}
	at, sum := int64(0), int64(0)
	for i, r := range rows {
		if r.Offset < at || r.Bytes <= 0 || r.Offset > bytes || r.Bytes > bytes-r.Offset {
			return fmt.Errorf("span %d of the rows is no part of the file's %d bytes behind the one before", i, bytes)
		}
		at, sum = r.Offset+r.Bytes, sum+r.Bytes
	}
	if sum == bytes {
		return errors.New("the rows are all of the file")
	}
	return nil
}

// copyRows copies the rows and names them: by a SHA-256 over the length and the checksum (CRC-32C) of each span, so that rows have the name
// of others only if they are equal. The name chooses what a state is put together from. It proves nothing, which is what the SHA-256 of the
// whole is for, so it may be quick: five times as quick as hashing the rows, before which no receiver could begin.
func copyRows(ctx context.Context, to io.Writer, from io.ReaderAt, rows []protocol.Span) (name string, err error) {
	all, buf := sha256.New(), make([]byte, pieceBytes)
	for _, r := range rows {
		sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
		n, err := io.CopyBuffer(io.MultiWriter(sum, to), io.NewSectionReader(from, r.Offset, r.Bytes), buf)
		switch {
		case err != nil:
			return "", err
		case n < r.Bytes:
			return "", io.ErrUnexpectedEOF
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		}
		fmt.Fprintf(all, "%d %08x\n", r.Bytes, sum.Sum32())
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

// rest is a file of so many bytes without its rows, in its order.
type rest struct {
	file  io.ReaderAt
	parts []protocol.Span
	ends  []int64 // of each part, in the rest
}

func newRest(file io.ReaderAt, rows []protocol.Span, bytes int64) *rest {
	r := &rest{file: file}
	at, end := int64(0), int64(0)
	for _, row := range append(rows[:len(rows):len(rows)], protocol.Span{Offset: bytes}) {
		if n := row.Offset - at; n > 0 {
			end += n
			r.parts, r.ends = append(r.parts, protocol.Span{Offset: at, Bytes: n}), append(r.ends, end)
		}
		at = row.Offset + row.Bytes
	}
	return r
}

func (r *rest) size() int64 { return r.ends[len(r.ends)-1] }

// before is how many bytes of the rest lie before a place in the file.
func (r *rest) before(at int64) (n int64) {
	for _, p := range r.parts {
		n += min(max(0, at-p.Offset), p.Bytes)
	}
	return n
}

// ReadAt reads from the rest as if it were a file.
func (r *rest) ReadAt(b []byte, at int64) (n int, err error) {
	for i := sort.Search(len(r.ends), func(i int) bool { return r.ends[i] > at }); n < len(b) && err == nil; i++ {
		if i == len(r.parts) {
			return n, io.EOF
		}
		left := r.ends[i] - at
		piece := b[n:min(len(b), n+int(min(left, int64(len(b)))))]
		var got int
		got, err = r.file.ReadAt(piece, r.parts[i].Offset+r.parts[i].Bytes-left)
		n, at = n+got, at+int64(got)
		if got == len(piece) {
			err = nil
		}
	}
	return n, err
}

// weave reads a file from a place on, the rows from where they are already and all else from the sender.
type weave struct {
	rows   []protocol.Span
	base   io.ReaderAt // the rows, one behind the other
	baseAt int64
	rest   io.Reader
	at     int64 // in the file
}

// errBase is a base that cannot be read.
var errBase = errors.New("the rows that are here cannot be read")

func newWeave(rows []protocol.Span, base io.ReaderAt, rest io.Reader, from int64) *weave {
	w := &weave{rows: rows, base: base, rest: rest, at: from}
	for _, r := range rows {
		w.baseAt += min(max(0, from-r.Offset), r.Bytes)
	}
	return w
}

func (w *weave) Read(b []byte) (n int, err error) {
	for len(w.rows) > 0 && w.at >= w.rows[0].Offset+w.rows[0].Bytes {
		w.rows = w.rows[1:]
	}
	switch {
	case len(w.rows) == 0:
		n, err = w.rest.Read(b)
	case w.at < w.rows[0].Offset:
		n, err = w.rest.Read(b[:min(int64(len(b)), w.rows[0].Offset-w.at)])
	default:
		n, err = w.base.ReadAt(b[:min(int64(len(b)), w.rows[0].Offset+w.rows[0].Bytes-w.at)], w.baseAt)
		w.baseAt += int64(n)
		if err != nil {
			err = errBase
		}
	}
	w.at += int64(n)
	return n, err
}
