package handover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tandem/internal/jobs"
)

// layered is a state as engines write it: some layers, each with the rows of a prefix and then those of its own. Rows with the same seed
// are equal.
func layered(shared, own uint64, layers, sharedBytes, ownBytes int) (content []byte, rows []jobs.Span) {
	fill := func(seed uint64, n int) {
		r := rand.New(rand.NewPCG(seed, uint64(len(rows))))
		for range n {
			content = append(content, byte(r.Uint32()))
		}
	}
	fill(own, 1000+int(own)%7) // tokens
	for range layers {
		fill(0, 12)
		rows = append(rows, jobs.Span{Offset: int64(len(content)), Bytes: int64(sharedBytes)})
		fill(shared, sharedBytes)
		fill(own, ownBytes)
	}
	return content, rows
}

const (
	testLayers, testShared, testOwn = 6, 40_000, 10_000
	testRows                        = testLayers * testShared
)

// offerLayered offers a state of so many bytes of rows that others have too, and some of its own.
func offerLayered(t *testing.T, s *Server, job string, shared, own uint64) (*jobs.State, []byte) {
	t.Helper()
	content, rows := layered(shared, own, testLayers, testShared, testOwn)
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	state, err := s.Offer(job, path, rows...)
	if err != nil {
		t.Fatal(err)
	}
	state.Prefix = 256
	return &state, content
}

// halves is a pair of machines of which one has fetched a state whose rows others have too.
type halves struct {
	server *Server
	client *Client
	dir    string
	book   logbook
}

func newHalves(t *testing.T) *halves {
	t.Helper()
	h := &halves{server: newServer(t, ServerConfig{}), dir: t.TempDir()}
	h.client = newClient(t, ClientConfig{Bases: 1 << 30, Log: h.book.log()})
	return h
}

// fetch fetches a state, which must be right, and waits until its rows are kept.
func (h *halves) fetch(t *testing.T, state *jobs.State, content []byte) Fetched {
	t.Helper()
	got, err := h.client.Fetch(t.Context(), state, h.dir, "x-", nil)
	wantFetched(t, got, err, content)
	h.client.bases.work.Wait()
	if err := os.Remove(got.Path); err != nil {
		t.Fatal(err)
	}
	wantEmpty(t, h.dir)
	return got
}

// wantMoved checks what went over the network.
func wantMoved(t *testing.T, got Fetched, rebuilt, odd bool) {
	t.Helper()
	least, most := got.Bytes, got.Bytes
	switch {
	case rebuilt:
		least, most = got.Bytes-testRows, got.Bytes-testRows
	case odd: // both the rest and the whole may have travelled
		most = 2*got.Bytes - testRows + 1
	}
	if got.Moved < least || got.Moved > most || got.Rebuilt != rebuilt || got.Odd != odd {
		t.Errorf("%d bytes of %d moved, rebuilt %t, odd %t; want %d to %d, %t and %t", got.Moved, got.Bytes, got.Rebuilt, got.Odd, least, most, rebuilt, odd)
	}
}

func TestOnlyWhatIsNewTravels(t *testing.T) {
	h := newHalves(t)
	for i := range 4 {
		state, content := offerLayered(t, h.server, fmt.Sprint(i), 1, uint64(10+i))
		wantMoved(t, h.fetch(t, state, content), i > 0, false)
	}
	// Rows that differ are others, and both are kept.
	for i := range 4 {
		state, content := offerLayered(t, h.server, fmt.Sprint(i), 1+uint64(i)%2, uint64(20+i))
		wantMoved(t, h.fetch(t, state, content), i != 1, false)
	}
	// A worker that does not know of prefixes, on either side.
	state, content := offerLayered(t, h.server, "whole", 1, 30)
	state.Prefix = 0
	if got := h.fetch(t, state, content); got.Moved != got.Bytes || got.Rebuilt {
		t.Errorf("%+v; want only the state", got)
	}
	state.Prefix = 256
	got, err := newClient(t, ClientConfig{}).Fetch(t.Context(), state, h.dir, "x-", nil)
	wantFetched(t, got, err, content)
	if got.Moved != got.Bytes {
		t.Errorf("%+v; want only the state", got)
	}
	if log := h.book.String(); strings.Contains(log, "WARN") {
		t.Errorf("nothing was wrong: %s", log)
	}
}

// Rows of which one byte is not as it was: the whole travels, what is used is right, and the rows are not tried again.
func TestWrongBase(t *testing.T) {
	h := newHalves(t)
	state, content := offerLayered(t, h.server, "one", 1, 10)
	wantMoved(t, h.fetch(t, state, content), false, false)
	for at := range int64(3) {
		base := h.client.bases.held[0].file
		one := make([]byte, 1)
		if _, err := base.ReadAt(one, at*testRows/3); err != nil {
			t.Fatal(err)
		}
		if _, err := base.WriteAt([]byte{one[0] ^ 1}, at*testRows/3); err != nil {
			t.Fatal(err)
		}
		state, content = offerLayered(t, h.server, "two", 1, 20)
		wantMoved(t, h.fetch(t, state, content), false, true)
		if n := strings.Count(h.book.String(), "WARN"); n != int(at)+1 {
			t.Errorf("%d warnings after %d wrong bases", n, at+1)
		}
		if len(h.client.bases.held) != 0 {
			t.Error("the wrong rows are still held")
		}
		state, content = offerLayered(t, h.server, "three", 1, 30)
		wantMoved(t, h.fetch(t, state, content), false, false)
		state, content = offerLayered(t, h.server, "four", 1, 40)
		wantMoved(t, h.fetch(t, state, content), true, false)
	}
	// A base that cannot be read at all.
	if err := h.client.bases.held[0].file.Truncate(testRows / 2); err != nil {
		t.Fatal(err)
	}
	state, content = offerLayered(t, h.server, "five", 1, 50)
	wantMoved(t, h.fetch(t, state, content), false, true)
}

// A transfer of the new rows that breaks goes on where it broke.
func TestRebuildIsResumed(t *testing.T) {
	h := newHalves(t)
	state, content := offerLayered(t, h.server, "one", 1, 10)
	wantMoved(t, h.fetch(t, state, content), false, false)
	for _, cuts := range [][]int64{{5_000}, {20_000}, {10_300, 15_000, 20_000}, {40_000, 1}} {
		h.client.Close()
		l, url := newLine(t, h.server, false, cuts...)
		h.client.transport.CloseIdleConnections()
		h.client = newClient(t, ClientConfig{Bases: 1 << 30})
		state, content := offerLayered(t, h.server, "base", 1, 11)
		h.fetch(t, state, content)
		state, content = offerLayered(t, h.server, "two", 1, 20)
		got := h.fetch(t, at(state, h.server.URL(), url), content)
		wantMoved(t, got, true, false)
		if got.Resumed == 0 || l.connections() < 2 {
			t.Errorf("cut at %v: resumed %d times on %d connections", cuts, got.Resumed, l.connections())
		}
	}
}

// Whatever the sender says of the rows, or sends in place of the rest, the whole state travels and is right.
func TestOddPrefixes(t *testing.T) {
	instead := func(of string, answer func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, "/"+of) {
				answer(w)
				return
			}
			next.ServeHTTP(w, r)
		}
	}
	says := func(text string) func(http.ResponseWriter, *http.Request, http.Handler) {
		return instead(wantPrefix, func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) })
	}
	changed := func(of string, change func([]byte) []byte) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			content := rec.Body.Bytes()
			if strings.HasSuffix(r.URL.Path, "/"+of) {
				content = change(content)
			}
			w.WriteHeader(rec.Code)
			_, _ = w.Write(content)
		}
	}
	parts := func(change func(*prefix)) func(http.ResponseWriter, *http.Request, http.Handler) {
		return changed(wantPrefix, func(b []byte) []byte {
			var p prefix
			if err := json.Unmarshal(b, &p); err != nil {
				t.Error(err)
			}
			change(&p)
			b, _ = json.Marshal(p)
			return b
		})
	}
	name := strings.Repeat("0", 64)
	for _, tt := range []struct {
		name  string
		odd   bool
		spoil func(w http.ResponseWriter, r *http.Request, next http.Handler)
	}{
		{"no prefix", true, instead(wantPrefix, func(w http.ResponseWriter) { w.WriteHeader(404) })},
		{"error", true, instead(wantPrefix, func(w http.ResponseWriter) { w.WriteHeader(500) })},
		{"redirect", true, instead(wantPrefix, func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(302)
		})},
		{"not known yet", false, instead(wantPrefix, func(w http.ResponseWriter) { w.WriteHeader(202) })},
		{"nothing", true, says("")},
		{"no JSON", true, says("rows")},
		{"endless", true, says(strings.Repeat("[", mostPrefix+1))},
		{"no rows", true, says(`{"name":"` + name + `"}`)},
		{"no name", true, parts(func(p *prefix) { p.Name = "" })},
		{"overlapping", true, parts(func(p *prefix) { p.Rows[1].Offset = p.Rows[0].Offset + p.Rows[0].Bytes - 1 })},
		{"backwards", true, parts(func(p *prefix) { p.Rows[0], p.Rows[1] = p.Rows[1], p.Rows[0] })},
		{"beyond the end", true, parts(func(p *prefix) { p.Rows[testLayers-1].Bytes += testOwn + 1 })},
		{"far beyond the end", true, parts(func(p *prefix) { p.Rows[testLayers-1].Bytes = 1<<63 - 1 })},
		{"before the beginning", true, parts(func(p *prefix) { p.Rows[0].Offset = -1 })},
		{"empty", true, parts(func(p *prefix) { p.Rows[0].Bytes = 0 })},
		{"all of it", true, parts(func(p *prefix) { p.Rows = []jobs.Span{{Bytes: testRows + testLayers*(testOwn+12) + 1006}} })},
		{"many", true, parts(func(p *prefix) { p.Rows = make([]jobs.Span, mostRows+1) })},
		{"one byte early", true, parts(func(p *prefix) { p.Rows[0].Offset-- })},
		{"one byte less", true, parts(func(p *prefix) { p.Rows[0].Bytes-- })},
		{"another name", false, parts(func(p *prefix) { p.Name = name })},
		{"no rest", true, instead(wantRest, func(w http.ResponseWriter) { w.WriteHeader(404) })},
		{"not the rest", true, instead(wantRest, func(w http.ResponseWriter) { w.WriteHeader(503) })},
		{"a range of the rest", true, instead(wantRest, func(w http.ResponseWriter) { w.WriteHeader(206) })},
		{"rest cut", true, changed(wantRest, func(b []byte) []byte { return b[:len(b)-1] })},
		{"rest with more", true, changed(wantRest, func(b []byte) []byte { return append(b, 0) })},
		{"rest with another byte", true, changed(wantRest, flip(5000))},
		{"rest of another file", true, changed(wantRest, func(b []byte) []byte { return make([]byte, len(b)) })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHalves(t)
			state, content := offerLayered(t, h.server, "one", 1, 10)
			wantMoved(t, h.fetch(t, state, content), false, false)
			state, content = offerLayered(t, h.server, "two", 1, 20)
			spoilt := behind(t, h.server, state, tt.spoil)
			wantMoved(t, h.fetch(t, spoilt, content), false, tt.odd)
			if log := h.book.String(); strings.Contains(log, "WARN") != (tt.odd || tt.name == "another name") {
				t.Errorf("want a warning: %t; log: %s", tt.odd, log)
			}
			wantSecret(t, h.book.String(), spoilt)
		})
	}
}

// When neither what is put together nor the whole is right, nothing is used.
func TestNothingIsRight(t *testing.T) {
	h := newHalves(t)
	state, content := offerLayered(t, h.server, "one", 1, 10)
	h.fetch(t, state, content)
	state, _ = offerLayered(t, h.server, "two", 1, 20)
	spoilt := behind(t, h.server, state, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		b := rec.Body.Bytes()
		if !strings.HasSuffix(r.URL.Path, "/"+wantPrefix) && !strings.HasSuffix(r.URL.Path, "/"+wantDigest) {
			b[len(b)-1] ^= 1
		}
		_, _ = w.Write(b)
	})
	_, err := h.client.Fetch(t.Context(), spoilt, h.dir, "x-", nil)
	wantFailure(t, err, jobs.FailDigest, spoilt, h.dir)
}

// Of many at once that begin alike, one fetches all of its state, and the others what is new.
func TestRebuildsAtOnce(t *testing.T) {
	h := newHalves(t)
	var all sync.WaitGroup
	got := make([]Fetched, 6)
	for i := range got {
		state, content := offerLayered(t, h.server, fmt.Sprint(i), 1, uint64(10+i))
		all.Go(func() {
			var err error
			got[i], err = h.client.Fetch(t.Context(), state, h.dir, "x-", nil)
			wantFetched(t, got[i], err, content)
		})
	}
	all.Wait()
	whole := 0
	for _, g := range got {
		if wantMoved(t, g, g.Rebuilt, false); !g.Rebuilt {
			whole++
		}
	}
	if whole != 1 {
		t.Errorf("%d of %d states travelled whole", whole, len(got))
	}
}

// If the one whose rows others wait for does not come, they fetch whole states, all at once; and whoever waits may be ended.
func TestRowsThatDoNotCome(t *testing.T) {
	h := newHalves(t)
	reached, ended, release := make(chan struct{}, 1), errors.New("the job was cancelled"), make(chan struct{})
	first, _ := offerLayered(t, h.server, "first", 1, 10)
	slow := behind(t, h.server, first, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasSuffix(r.URL.Path, "/"+wantPrefix) {
			reached <- struct{}{}
			<-release
			w.WriteHeader(404)
			return
		}
		next.ServeHTTP(w, r)
	})
	var all sync.WaitGroup
	all.Go(func() {
		_, err := h.client.Fetch(t.Context(), slow, h.dir, "x-", nil)
		if h, ok := errors.AsType[*jobs.HandoverError](err); !ok || h.Failure != jobs.FailNotFound {
			t.Errorf("the first: %v", err)
		}
	})
	<-reached
	ctx, cancel := context.WithCancelCause(t.Context())
	waits := make(chan struct{}, 4)
	for i := range 4 {
		state, content := offerLayered(t, h.server, fmt.Sprint(i), 1, uint64(20+i))
		moved := behind(t, h.server, state, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(w, r)
			if strings.HasSuffix(r.URL.Path, "/"+wantPrefix) {
				waits <- struct{}{}
			}
		})
		all.Go(func() {
			if i == 0 {
				if _, err := h.client.Fetch(ctx, moved, h.dir, "x-", nil); err != ended {
					t.Errorf("error %v, want the cause", err)
				}
				return
			}
			got, err := h.client.Fetch(t.Context(), moved, h.dir, "x-", nil)
			wantFetched(t, got, err, content)
			wantMoved(t, got, false, false)
		})
	}
	for range 4 {
		<-waits
	}
	cancel(ended)
	close(release)
	all.Wait()
}

// An engine's process may not see the rows, nor another's sweep take them, and a full disk has them make room.
func TestBasesHaveNoNames(t *testing.T) {
	h := newHalves(t)
	state, content := offerLayered(t, h.server, "one", 1, 10)
	h.fetch(t, state, content) // looks that nothing is in the folder
	if n := len(h.client.bases.held); n != 1 {
		t.Fatalf("%d bases", n)
	}
	info, err := h.client.bases.held[0].file.Stat()
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != testRows {
		t.Errorf("%v, %v", info, err)
	}
	state, _ = offerLayered(t, h.server, "two", 1, 20)
	state.Bytes = 1 << 60
	_, err = h.client.Fetch(t.Context(), state, h.dir, "x-", nil)
	wantFailure(t, err, jobs.FailDisk, state, h.dir)
	if n := len(h.client.bases.held); n != 0 {
		t.Errorf("%d bases take up room that a state needs", n)
	}
}

func TestOfferOfOddRows(t *testing.T) {
	s := newServer(t, ServerConfig{})
	path := filepath.Join(t.TempDir(), "state")
	writeNoise(t, path, 100)
	for _, rows := range [][]jobs.Span{{{Offset: 0, Bytes: 100}}, {{Offset: 50, Bytes: 51}}, {{Offset: 10, Bytes: 5}, {Offset: 14, Bytes: 1}}} {
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
	name := func(content []byte, rows []jobs.Span) string {
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
