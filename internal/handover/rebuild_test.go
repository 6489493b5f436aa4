package handover

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// layered is a state as engines write it: some layers, each with the rows of a prefix and then those of its own. Rows with the same seed
// are equal.
func layered(shared, own uint64, layers, sharedBytes, ownBytes int) (content []byte, rows []protocol.Span) {
	fill := func(seed uint64, n int) {
		r := rand.New(rand.NewPCG(seed, uint64(len(rows))))
		for range n {
			content = append(content, byte(r.Uint32()))
		}
	}
	fill(own, 1000+int(own)%7) // tokens
	for range layers {
		fill(0, 12)
		rows = append(rows, protocol.Span{Offset: int64(len(content)), Bytes: int64(sharedBytes)})
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
func wantMoved(t *testing.T, got Fetched, rebuilt, failed bool) {
	t.Helper()
	least, most := got.Bytes, got.Bytes
	switch {
	case rebuilt:
		least, most = got.Bytes-testRows, got.Bytes-testRows
	case failed: // both the rest and the whole may have travelled
		most = 2*got.Bytes - testRows + 1
	}
	if got.Moved < least || got.Moved > most || got.Rebuilt != rebuilt || got.Failed != failed {
		t.Errorf("%d bytes of %d moved, rebuilt %t, failed %t; want %d to %d, %t and %t", got.Moved, got.Bytes, got.Rebuilt, got.Failed, least, most, rebuilt, failed)
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
	small := newClient(t, ClientConfig{Bases: testRows - 1})
	for range 2 {
		got, err := small.Fetch(t.Context(), state, t.TempDir(), "x-", nil)
		wantFetched(t, got, err, content)
		wantMoved(t, got, false, false)
		small.bases.work.Wait()
	}
	if n := len(small.bases.held); n != 0 {
		t.Errorf("%d bases that are more than may be kept", n)
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
