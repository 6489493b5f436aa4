package engine

import (
	"context"
	"sync"
)

// Slots bounds how many requests run on one engine at once, whoever sends them. It is safe for
// concurrent use.
type Slots struct {
	size    int
	mu      sync.Mutex
	busy    int
	changed chan struct{} // closed and replaced whenever a slot is released
}

// NewSlots returns n free slots.
func NewSlots(n int) *Slots {
	return &Slots{size: n, changed: make(chan struct{})}
}

// Idle is how many slots are free, and a channel that is closed when one more is.
func (s *Slots) Idle() (free int, released <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size - s.busy, s.changed
}

// Acquire waits for a slot and takes it. Release gives it back; calling it again does nothing.
func (s *Slots) Acquire(ctx context.Context) (release func(), err error) {
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy--
		close(s.changed)
		s.changed = make(chan struct{})
	}), nil
}

// take takes a slot as soon as one is free.
func (s *Slots) take(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.busy < s.size {
			s.busy++
			s.mu.Unlock()
			return nil
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Size is the number of slots.
func (s *Slots) Size() int { return s.size }

// Busy is the number of slots taken now.
func (s *Slots) Busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}
