package slots

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/tinymodel"
)

// board is a server that only says what its slots do, without a network.
type board struct {
	mu    sync.Mutex
	tasks []task
	gone  atomic.Bool
}

func (b *board) set(tasks ...task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks = tasks
}

func (b *board) RoundTrip(*http.Request) (*http.Response, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone.Load() {
		return nil, errors.New("gone")
	}
	data, err := json.Marshal(b.tasks)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(data)))}, err
}

func (b *board) server(t *testing.T, shared bool) *Server {
	s, err := New(Config{Client: NewClient(&http.Client{Transport: b}), Shared: shared}, Identity{Slots: 2})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// later calls f in a goroutine and returns how to ask whether it has returned.
func later(f func()) (returned func() bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return func() bool {
		synctest.Wait()
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}

// beginnings are the ways in which something begins on a server.
func beginnings(s *Server) map[string]func(context.Context) (func(), error) {
	return map[string]func(context.Context) (func(), error){"a request": s.Begin, "an import, or a request that names its slot": s.importGate.open}
}

// importing is a shared server into which a state is imported.
func importing(t *testing.T) (s *Server, imported func()) {
	s = (&board{}).server(t, true)
	imported, err := s.importGate.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s, imported
}

func TestNothingBeginsDuringAnImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, imported := importing(t)
		for name, begin := range beginnings(s) {
			enough := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			returned := later(func() {
				if _, err := begin(ctx); !errors.Is(err, enough) {
					t.Errorf("%s: %v, want the cause", name, err)
				}
			})
			if returned() {
				t.Errorf("%s began during an import", name)
			}
			cancel(enough)
			if !returned() {
				t.Errorf("%s waits on although it was cancelled", name)
			}
		}
		imported()
		imported()
		started, err := s.Begin(t.Context())
		if err != nil {
			t.Error(err)
		}
		started()
		started()
	})
}

// An import whose engine hangs ends with its job's stall limit. Others do not wait as long.
func TestAHungImportHoldsUpOthersForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, imported := importing(t)
		for name, begin := range beginnings(s) {
			began := time.Now()
			started, err := begin(t.Context())
			if took := time.Since(began); err != nil || took != longestHold {
				t.Errorf("%s began after %v: %v", name, took, err)
			}
			started()
		}
		if returned := later(imported); !returned() {
			t.Error("who did not have the window has closed it")
		}
	})
}

// On a server of ours each request names its slot, so that none waits for another, or for an import that hangs.
func TestRequestsOfOursDoNotWaitForEachOther(t *testing.T) {
	s := (&board{}).server(t, false)
	for range 3 { // none has started
		for name, begin := range beginnings(s) {
			if _, err := begin(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestNoImportBeforeAForeignRequestHasItsSlot(t *testing.T) {
	for name, tt := range map[string]struct {
		then  func(b *board, started func()) // after which an import may begin, or not
		ready bool
	}{
		"not yet seen":           {func(*board, func()) {}, false},
		"first byte":             {func(_ *board, started func()) { started() }, true},
		"seen in a free slot":    {func(b *board, _ func()) { b.set(task{0, 7, true}, task{1, 8, true}) }, true},
		"seen in the same slot":  {func(b *board, _ func()) { b.set(task{0, 9, true}, task{1, 3, false}) }, true},
		"the other went on":      {func(b *board, _ func()) { b.set(task{0, 7, true}, task{1, 3, false}) }, false},
		"the other ended":        {func(b *board, _ func()) { b.set(task{0, 7, false}, task{1, 3, false}) }, false},
		"the server is gone too": {func(b *board, _ func()) { b.gone.Store(true) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &board{}
				b.set(task{0, 7, true}, task{1, 3, false})
				s := b.server(t, true)
				started, err := s.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				opened, imported := make(chan struct{}), func() {}
				go func() {
					var err error
					if imported, err = s.importGate.open(t.Context()); err != nil {
						t.Error(err)
					}
					close(opened)
				}()
				synctest.Wait()
				tt.then(b, started)
				if err := sleep(t.Context(), 10*lastPause); err != nil { // synctest's clock
					t.Fatal(err)
				}
				synctest.Wait()
				select {
				case <-opened:
					if !tt.ready {
						t.Error("an import may begin")
					}
				default:
					if tt.ready {
						t.Error("no import may begin")
					}
				}
				started()
				<-opened
				imported()
			})
		})
	}
}

// A request that was given up may still come into a slot, as long as whoever sent it has not seen its end.
func TestNoImportBeforeACancelledRequestHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&board{}).server(t, true)
		ctx, cancel := context.WithCancel(t.Context())
		started, err := s.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		opened := later(func() {
			if _, err := s.importGate.open(t.Context()); err != nil {
				t.Error(err)
			}
		})
		if err := sleep(t.Context(), 10*lastPause); err != nil { // synctest's clock
			t.Fatal(err)
		}
		if opened() {
			t.Error("an import may begin")
		}
		started()
		if !opened() {
			t.Error("no import may begin after the request's end")
		}
	})
}

// Others' requests are in slots of which the pool knows nothing.
func TestAcquireOfASharedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{}
		b.set(task{0, 7, true}, task{1, 3, false})
		s := b.server(t, true)
		first, err := s.Acquire(t.Context(), nil)
		if err != nil || first.ID() != 1 {
			t.Fatalf("slot %v, %v; want the one that is not busy", first, err)
		}
		var second *Slot
		returned := later(func() {
			if second, err = s.Acquire(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
		if returned() {
			t.Error("a busy slot was acquired")
		}
		b.set(task{0, 7, false}, task{1, 3, false})
		if err := sleep(t.Context(), lastPause); err != nil {
			t.Fatal(err)
		}
		if !returned() || second.ID() != 0 {
			t.Fatal("the slot that became free was not acquired")
		}
		second.Release()
		second.Release()
		// Between Acquire and Import another request may have come into the slot.
		b.set(task{0, 7, false}, task{1, 9, true})
		if err := first.move(t.Context(), nil); err != nil || first.ID() != 0 {
			t.Errorf("slot %d, %v; want the one that is not busy", first.ID(), err)
		}
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		b.set(task{0, 7, true}, task{1, 9, true})
		cancel(enough)
		if err := first.move(ctx, nil); !errors.Is(err, enough) {
			t.Errorf("no slot is free: %v, want the cause", err)
		}
		first.Release()
		b.gone.Store(true)
		if _, err := s.Acquire(t.Context(), nil); !Lost(err) {
			t.Errorf("a server that is gone: %v", err)
		}
		b.gone.Store(false)
		b.set()
		for range 2 { // nothing was lost on the way
			if _, err := s.Acquire(t.Context(), nil); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestSharedServer imports states on a server that chooses the slots of all answers itself, while others
// send requests too.
func TestSharedServer(t *testing.T) {
	for _, shape := range []tinymodel.Shape{tinymodel.Llama, tinymodel.GPTOSS, tinymodel.GraniteHybrid} {
		t.Run(string(shape), func(t *testing.T) {
			s := setup{spec: tinymodel.TinyShape(shape, tinymodel.BPE), slots: 4}
			a := start(t, s)
			s.shared = true
			b := start(t, s)
			var all sync.WaitGroup
			places := make(chan struct{}, s.slots)
			for i := range 12 {
				p, q := a.prompt(t, uint64(i), 300+i), a.prompt(t, uint64(100+i), 200)
				f := b.receive(t, a.export(t, p))
				want := a.cold(t, p)
				all.Go(func() {
					places <- struct{}{}
					defer func() { <-places }()
					sl, err := b.Acquire(t.Context(), p.Tokens)
					if err != nil {
						t.Error(err)
						return
					}
					defer sl.Release()
					if _, err := sl.Import(t.Context(), p, f); err != nil {
						t.Errorf("import %d: %v", i, err)
						return
					}
					got, err := anywhere(t.Context(), b.Server, p, sl.Started)
					if err != nil || got.computed != 1 || got.text != want.text {
						t.Errorf("import %d beside other requests: %+v, %v; want %q", i, got, err, want.text)
					}
					sl.Held(p.Tokens)
				})
				all.Go(func() {
					places <- struct{}{}
					defer func() { <-places }()
					started, err := b.Begin(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					defer started()
					if _, err := anywhere(t.Context(), b.Server, q, started); err != nil {
						t.Errorf("request %d: %v", i, err)
					}
				})
			}
			all.Wait()
		})
	}
}

// anywhere is say for a request for which the server chooses the slot.
func anywhere(ctx context.Context, s *Server, p Prompt, started func()) (said, error) {
	body := map[string]any{
		"prompt": p.Tokens, "n_predict": 24, "temperature": 0, "cache_prompt": true, "stream": true, "response_fields": []string{"stop", "timings"},
	}
	var got said
	err := s.Stream(ctx, "/completion", body, started, func(e *Event) error {
		got.text += e.Content
		if e.Timings != nil {
			got.cached, got.computed = e.Timings.Cached, e.Timings.Computed
		}
		return nil
	})
	return got, err
}
