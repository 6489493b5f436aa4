package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tandem/jobs"
)

const (
	tripAfter = 3                // failures in a row
	tripPause = time.Second      // before the next job; then twice as long each time
	tripLong  = 30 * time.Second // at most
)

// The retry budget, in tenths, so that ten successes are exactly one more retry.
const (
	retryCost  = 10             // of a failure that has the job done again
	retryEarns = 1              // of a success
	retryMost  = 10 * retryCost // to begin with, and to be saved up
)

// breaker keeps a worker that fails one job after the other from using up the attempts of all jobs there
// are: it pauses, so that others get them, and then tries one.
//
// An engine that fails every second job never fails three in a row, and yet costs each job half of its attempts and
// everybody the work that is done again. So there is a budget for that, too, as Finagle's RetryBudget and gRPC's retry
// throttling (gRFC A6) have it: each failure that has a job done again takes one from it, each success puts a tenth back.
// While less than one is left, each failure is followed by a pause. One failure in eleven jobs can be afforded for ever.
// What fails during a pause was at work when it began, costs nothing and makes the pause no longer: an engine that dies takes all of
// its jobs along at once.
type breaker struct {
	mu       sync.Mutex
	failures int       // attempts that failed since the last one that did not
	budget   int       // of retries, in tenths
	overdraw int       // failures since the budget was spent
	last     jobs.Code // of the last failure
	until    time.Time // the pause
	trying   bool      // one job is at work after a pause
	changed  chan struct{}
}

func newBreaker() *breaker { return &breaker{budget: retryMost, changed: make(chan struct{})} }

// failed counts an attempt that failed and whether the job is to be done again, and returns the pause that follows, if any.
func (b *breaker) failed(code jobs.Code, again bool) (pause time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = code
	if time.Now().Before(b.until) {
		return 0
	}
	b.failures++
	if again {
		b.budget = max(0, b.budget-retryCost)
	}
	if b.spent() {
		b.overdraw++
	}
	if times := max(b.failures-tripAfter+1, b.overdraw); times > 0 {
		pause = min(tripPause<<min(times-1, 5), tripLong)
		b.until = time.Now().Add(pause)
	}
	return pause
}

// spent reports whether the budget has no retry left. The lock must be held.
func (b *breaker) spent() bool { return b.budget < retryCost }

// tripped reports whether jobs are tried one at a time. The lock must be held.
func (b *breaker) tripped() bool { return b.failures >= tripAfter || b.overdraw > 0 }

// succeeded forgets the failures in a row, and earns a part of a retry.
func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.until = 0, time.Time{}
	if b.budget = min(b.budget+retryEarns, retryMost); !b.spent() {
		b.overdraw = 0
	}
	b.wake()
}

// begin counts a job that was fetched; end is called when it is done with here.
func (b *breaker) begin() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.tripped() {
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
		open, left, changed := !b.tripped(), time.Until(b.until), b.changed
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
	if b.failures < tripAfter {
		return fmt.Sprintf("too many of the last jobs failed, the last one: %s", b.last)
	}
	return fmt.Sprintf("%d failures in a row, the last: %s", b.failures, b.last)
}
