package handover

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"tandem/internal/protocol"
)

// What a sender says of a prefix is parts of the file, one behind the other, or it is refused; and little work either way.
func FuzzPrefix(f *testing.F) {
	name := strings.Repeat("a", 64)
	for _, s := range []string{
		`{"name":"` + name + `","rows":[{"offset":3,"bytes":4},{"offset":7,"bytes":1}]}`,
		`{"name":"` + name + `","rows":[{"offset":7,"bytes":1},{"offset":3,"bytes":4}]}`,
		`{"name":"` + name + `","rows":[{"offset":9223372036854775807,"bytes":9223372036854775807}]}`,
		`{"name":"` + name + `","rows":[{"offset":-1,"bytes":2}]}`, `{"name":"x","rows":[{}]}`, `{"rows":null}`, `[]`, ``, `{"rows":[{"offset":1e300}]}`,
	} {
		f.Add([]byte(s), int64(100))
	}
	f.Fuzz(func(t *testing.T, answer []byte, size int64) {
		p, err := parsePrefix(answer, size)
		if err != nil {
			if len(err.Error()) > 100 {
				t.Errorf("the error tells what was sent: %v", err)
			}
			return
		}
		at := int64(0)
		for _, r := range p.Rows {
			if r.Offset < at || r.Bytes <= 0 || r.Offset+r.Bytes > size {
				t.Fatalf("accepted %v in %d bytes", p.Rows, size)
			}
			at = r.Offset + r.Bytes
		}
		if r := newRest(nil, p.Rows, size); r.size() <= 0 || r.size()+sum(p.Rows) != size || r.before(size) != r.size() || len(p.Name) != 64 {
			t.Errorf("rest of %d bytes and rows of %d in %d", r.size(), sum(p.Rows), size)
		}
	})
}

// rowsOf makes rows of some numbers: a gap, a length, a gap and so on, as long as they are within the file.
func rowsOf(cuts []byte, size int64) []protocol.Span {
	var rows []protocol.Span
	at := int64(0)
	for len(cuts) > 1 {
		r := protocol.Span{Offset: at + int64(cuts[0]), Bytes: int64(cuts[1]) + 1}
		if at = r.Offset + r.Bytes; at > size {
			break
		}
		rows, cuts = append(rows, r), cuts[2:]
	}
	return rows
}

// A file is what its rows and its rest are together, from wherever it goes on, and the rest can be read from anywhere.
func FuzzRest(f *testing.F) {
	f.Add([]byte("the state of a slot, whose rows are in the middle"), []byte{10, 3, 0, 4, 5, 6}, int64(7))
	f.Add([]byte("x"), []byte{}, int64(1))
	f.Fuzz(func(t *testing.T, content, cuts []byte, from int64) {
		rows := rowsOf(cuts, int64(len(content)))
		if checkRows(rows, int64(len(content))) != nil {
			return
		}
		r := newRest(bytes.NewReader(content), rows, int64(len(content)))
		var base, want []byte
		at := int64(0)
		for _, row := range rows {
			want, base = append(want, content[at:row.Offset]...), append(base, content[row.Offset:row.Offset+row.Bytes]...)
			at = row.Offset + row.Bytes
		}
		want = append(want, content[at:]...)
		if err := iotest.TestReader(io.NewSectionReader(r, 0, r.size()), want); err != nil {
			t.Fatal(err)
		}
		from = max(0, min(from, int64(len(content))))
		left := io.NewSectionReader(r, r.before(from), r.size()-r.before(from))
		whole := make([]byte, int64(len(content))-from)
		if _, err := io.ReadFull(newWeave(rows, bytes.NewReader(base), iotest.OneByteReader(left), from), whole); err != nil || !bytes.Equal(whole, content[from:]) {
			t.Errorf("from %d: %q, %v; want %q", from, whole, err, content[from:])
		}
	})
}

// Whatever range of the rest is asked for, the answer is as if the rest were a file.
func FuzzRangeOfRest(f *testing.F) {
	log := slog.New(slog.DiscardHandler)
	h := &handler{newLeases(1<<20, nil, defaultEvery, log), log}
	f.Cleanup(h.leases.close)
	content, rows := layered(1, 2, 3, 300, 40)
	path := filepath.Join(f.TempDir(), "state")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		f.Fatal(err)
	}
	s, token, err := h.leases.offer("job", path, rows...)
	if err != nil {
		f.Fatal(err)
	}
	var rest []byte
	at := int64(0)
	for _, r := range rows {
		rest = append(rest, content[at:r.Offset]...)
		at = r.Offset + r.Bytes
	}
	rest = append(rest, content[at:]...)
	for _, r := range []string{"", "bytes=0-", "bytes=500-", "bytes=1-1", "bytes=-7", "bytes=0-0,2-2", "bytes=99999-", "bytes=5-4", "bytes=" + strings.Repeat("0-,", 1000), "lines=1-2"} {
		f.Add("GET", r)
	}
	f.Fuzz(func(t *testing.T, method, asked string) {
		r := &http.Request{Method: method, URL: &url.URL{Path: statePath + s.id + "/" + wantRest}, Header: http.Header{"Authorization": {"Bearer " + token}, "Range": {asked}}}
		got, want := httptest.NewRecorder(), httptest.NewRecorder()
		h.ServeHTTP(got, r)
		if method != http.MethodGet && method != http.MethodHead {
			if got.Code != http.StatusMethodNotAllowed || got.Body.Len() > 0 {
				t.Errorf("%q: status %d and %d bytes", method, got.Code, got.Body.Len())
			}
			return
		}
		want.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(want, r, "", time.Time{}, bytes.NewReader(rest))
		several := strings.HasPrefix(want.Header().Get("Content-Type"), "multipart/") // which have a boundary made up anew
		if got.Code != want.Code || got.Body.Len() != want.Body.Len() || !several && !bytes.Equal(got.Body.Bytes(), want.Body.Bytes()) ||
			got.Header().Get("Content-Range") != want.Header().Get("Content-Range") {
			t.Errorf("%q: status %d and %d bytes, want %d and %d", asked, got.Code, got.Body.Len(), want.Code, want.Body.Len())
		}
	})
}
