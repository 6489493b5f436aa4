package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tandem/internal/jobs"
)

const (
	tripAfter = 3                // failures in a row
	tripPause = time.Second      // before the next job; then twice as long each time
	tripLong  = 30 * time.Second // at most
)

// breaker keeps a worker that fails one job after the other from using up the attempts of all jobs there
// are: it pauses, so that others get them, and then tries one.
type breaker struct {
	mu       sync.Mutex
	failures int       // attempts that failed since the last one that did not
	last     jobs.Code // of the last failure
	until    time.Time // the pause
	trying   bool      // one job is at work after a pause
	changed  chan struct{}
}

func newBreaker() *breaker { return &breaker{changed: make(chan struct{})} }

// failed counts an attempt that failed, and returns the pause that follows, if any.
func (b *breaker) failed(code jobs.Code) (failures int, pause time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	b.last = code
	if b.failures >= tripAfter {
		pause = min(tripPause<<min(b.failures-tripAfter, 5), tripLong)
		b.until = time.Now().Add(pause)
	}
	return b.failures, pause
}

// succeeded forgets the failures.
func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.until = 0, time.Time{}
	b.wake()
}

// begin counts a job that was fetched; end is called when it is done with here.
func (b *breaker) begin() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < tripAfter {
		return func() {}
	}
	b.trying = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.trying = false
		b.wake()
	}
}

// wake has those that wait look again. The lock must be held.
func (b *breaker) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// wait returns when a job may be fetched, and reports whether that took time.
func (b *breaker) wait(ctx context.Context) (waited bool, err error) {
	for {
		b.mu.Lock()
		open, left, changed := b.failures < tripAfter, time.Until(b.until), b.changed
		open = open || left <= 0 && !b.trying
		b.mu.Unlock()
		if open {
			return waited, nil
		}
		waited = true
		var over <-chan time.Time
		if left > 0 {
			over = time.After(left)
		}
		select {
		case <-over:
		case <-changed:
		case <-ctx.Done():
			return true, context.Cause(ctx)
		}
	}
}

// problem says why the worker pauses; it is empty while it does not.
func (b *breaker) problem() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Until(b.until) <= 0 {
		return ""
	}
	return fmt.Sprintf("%d failures in a row, the last: %s", b.failures, b.last)
}
