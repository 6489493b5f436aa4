package engine

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Slots bounds how many requests run on one engine at once, whoever sends them. It is safe for
// concurrent use.
type Slots struct {
	size    int
	mu      sync.Mutex
	busy    int
	changed chan struct{} // closed and replaced whenever a slot is released
	spent   time.Duration // that slots were taken before the last change, of all together
	history []count       // the last changes of busy, in the order of time
}

// count is how many slots are taken from a moment on.
type count struct {
	at   time.Time
	busy int
}

// longestHistory is how many changes are remembered: more than there are in the time of one request.
const longestHistory = 1024

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
		s.add(-1)
		close(s.changed)
		s.changed = make(chan struct{})
	}), nil
}

// add changes how many slots are taken, under the lock.
func (s *Slots) add(n int) {
	now := time.Now()
	s.spent += s.since(now)
	s.busy += n
	if len(s.history) == longestHistory {
		s.history = slices.Delete(s.history, 0, longestHistory/2)
	}
	s.history = append(s.history, count{now, s.busy})
}

// take takes a slot as soon as one is free.
func (s *Slots) take(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.busy < s.size {
			s.add(1)
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

// BusySeconds is for how long slots were taken until now, of all of them together.
func (s *Slots) BusySeconds() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.spent + s.since(time.Now())).Seconds()
}

// since is likewise since the last change, under the lock.
func (s *Slots) since(last time.Time) time.Duration {
	if len(s.history) == 0 {
		return 0
	}
	return time.Duration(s.busy) * last.Sub(s.history[len(s.history)-1].at)
}

// MeanBusy is how many slots were taken during an interval of the past, on average over its time.
func (s *Slots) MeanBusy(from, to time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	whole, sum := to.Sub(from), 0.0
	for _, c := range slices.Backward(s.history) {
		if c.at.Before(to) {
			since := c.at
			if since.Before(from) {
				since = from
			}
			sum += float64(c.busy) * to.Sub(since).Seconds()
			to = since
		}
	}
	if whole <= 0 {
		return 0
	}
	return sum / whole.Seconds()
}
