package handover

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"tandem/internal/protocol"
)

func TestOfferOfOddRows(t *testing.T) {
	s := newServer(t, ServerConfig{})
	path := filepath.Join(t.TempDir(), "state")
	writeNoise(t, path, 100)
	for _, rows := range [][]protocol.Span{{{Offset: 0, Bytes: 100}}, {{Offset: 50, Bytes: 51}}, {{Offset: 10, Bytes: 5}, {Offset: 14, Bytes: 1}}} {
		if _, err := s.Offer("job", path, rows...); err == nil {
			t.Errorf("%v was offered", rows)
		}
	}
	if n, _ := s.Held(); n != 0 {
		t.Errorf("%d states are held", n)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	state, err := s.Offer("job", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, below := range []string{wantPrefix, wantRest} { // of a state without such rows
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, state.URL+"/"+below, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+state.Token)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d", below, resp.StatusCode)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// Names of rows: of the bytes and how they are cut, wherever they lie.
func TestNamesOfRows(t *testing.T) {
	content, rows := layered(1, 2, 3, 1000, 50)
	name := func(content []byte, rows []protocol.Span) string {
		var copied bytes.Buffer
		n, err := copyRows(t.Context(), &copied, bytes.NewReader(content), rows)
		if err != nil || int64(copied.Len()) != sum(rows) {
			t.Fatal(copied.Len(), err)
		}
		return n
	}
	first := name(content, rows)
	if other, at := layered(1, 3, 3, 1000, 77); name(other, at) != first {
		t.Error("equal rows have two names")
	}
	for _, at := range []int64{rows[0].Offset, rows[1].Offset + 500, rows[2].Offset + 999} {
		other := bytes.Clone(content)
		other[at] ^= 1
		if name(other, rows) == first {
			t.Errorf("rows that differ at %d have one name", at)
		}
	}
	if name(content, rows[:2]) == first {
		t.Error("fewer rows have the same name")
	}
	if _, err := copyRows(t.Context(), io.Discard, bytes.NewReader(content[:2000]), rows); err == nil {
		t.Error("rows of a file that was cut have a name")
	}
}
