package queue

import (
	"sync"
	"time"
)

// stallWatchdog decides how long a running task may be silent. An engine that gives signs of life keeps
// its job; one that does not loses it, so that another worker can try.
type stallWatchdog struct {
	limit time.Duration

	mu    sync.Mutex
	until time.Time // silence is accepted up to then
}

func newStallWatchdog(limit time.Duration, now time.Time) *stallWatchdog {
	return &stallWatchdog{limit: limit, until: now.Add(limit)}
}

// progress notes a sign of life.
func (p *stallWatchdog) progress(now time.Time) { p.expect(p.limit, now) }

// expect accepts silence for d from now. It never shortens what was accepted before.
func (p *stallWatchdog) expect(d time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := now.Add(d); until.After(p.until) {
		p.until = until
	}
}

// left is how much silence is still accepted; nothing or less means that the task has stalled.
func (p *stallWatchdog) left(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until.Sub(now)
}
