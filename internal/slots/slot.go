package slots

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Slot is one slot, held by one request. Only its Release may be called by several goroutines.
type Slot struct {
	server *Server
	cache  *cache
	common int // tokens that the prompt last computed shares with others

	release sync.Once
	window  func() // closes the window of an import; nil if none is open
	turn    func() // ends the turn of the slot's prompt; nil if it has none
}

// Acquire waits for a free slot and takes the best one for the prompt.
func (s *Server) Acquire(ctx context.Context, prompt []int32) (*Slot, error) {
	if err := s.pool.wait(ctx); err != nil {
		return nil, err
	}
	c, err := s.idle(ctx, prompt)
	if err != nil {
		s.pool.cancel()
		return nil, err
	}
	return &Slot{server: s, cache: c}, nil
}

// idle takes a slot. Others' requests may be in any slot of a shared server, whatever the pool knows.
func (s *Server) idle(ctx context.Context, prompt []int32) (*cache, error) {
	if !s.config.Shared {
		return s.pool.take(prompt, nil), nil
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		tasks, err := s.tasks(ctx)
		if err != nil {
			return nil, err
		}
		if c := s.pool.take(prompt, maps.Collect(busy(tasks))); c != nil {
			return c, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// move makes sure, with the window open, that a shared server has not given the slot to another request
// since it was acquired, and takes another one if it has.
func (sl *Slot) move(ctx context.Context, prompt []int32) error {
	s := sl.server
	if !s.config.Shared {
		return nil
	}
	s.pool.put(sl.cache)
	c, err := s.idle(ctx, prompt)
	if err != nil {
		c = s.pool.take(nil, nil)
	}
	sl.cache = c
	return err
}

// Cached is how many tokens of the prompt the best slot is thought to hold, or to hold when it is free.
func (s *Server) Cached(prompt []int32) int { return s.pool.cached(prompt) }

// ID is the server's number of the slot.
func (sl *Slot) ID() int { return sl.cache.id }

// Release gives the slot back. Further calls do nothing.
func (sl *Slot) Release() {
	sl.release.Do(func() {
		sl.Started()
		sl.endTurn()
		sl.server.pool.release(sl.cache)
	})
}

// Started says that the first byte of the answer to an imported prompt has come.
func (sl *Slot) Started() {
	if sl.window != nil {
		sl.window()
		sl.window = nil
	}
}

// Held says what the slot's cache begins with after a request of ours that generated an answer in it.
func (sl *Slot) Held(prompt []int32) { sl.cache.hold(prompt, true) }

// Holds reports whether the slot is thought to hold all tokens of the prompt but the last.
func (sl *Slot) Holds(prompt []int32) bool {
	return sl.cache.use(prompt, sl.server.config.plain()) >= len(prompt)-1
}

// Placement is which slot computes a request, and that the answer is a stream of events. It is part of
// the body of a request.
type Placement struct {
	Slot           int  `json:"id_slot"`
	CachePrompt    bool `json:"cache_prompt"`
	Stream         bool `json:"stream"`
	ReturnProgress bool `json:"return_progress"`
}

// Placement has a request computed in this slot.
func (sl *Slot) Placement() Placement {
	return Placement{Slot: sl.cache.id, CachePrompt: !sl.cache.foreign, Stream: true, ReturnProgress: true}
}

// Stream is Server.Stream for a request with this slot's placement that generates an answer to the
// prompt. On a shared server it waits for imports into other slots; with its first event the import into this one is over.
func (sl *Slot) Stream(ctx context.Context, path string, body any, prompt []int32, progress func(), take func(*Event) error) error {
	begun := func() {
		sl.endTurn()
		progress()
	}
	if err := sl.stream(ctx, path, body, prompt, begun, take); err != nil {
		return err
	}
	sl.cache.more = true
	return nil
}

func (sl *Slot) stream(ctx context.Context, path string, body any, tokens []int32, progress func(), take func(*Event) error) error {
	started := sl.Started
	if sl.window == nil {
		var err error
		if started, err = sl.server.importGate.open(ctx); err != nil {
			return err
		}
		defer started()
	}
	sl.cache.expect(tokens)
	seen := func() {
		started()
		progress()
	}
	if err := sl.server.Stream(ctx, path, body, seen, take); err != nil {
		return err
	}
	sl.cache.hold(tokens, false)
	return nil
}

// sleep waits, or until the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
