package queue

import (
	"sync"
	"time"
)

// patience decides how long a running task may be silent. An engine that gives signs of life keeps
// its job; one that does not loses it, so that another worker can try.
type patience struct {
	limit time.Duration

	mu    sync.Mutex
	until time.Time // silence is accepted up to then
}

func newPatience(limit time.Duration, now time.Time) *patience {
	return &patience{limit: limit, until: now.Add(limit)}
}

// progress notes a sign of life.
func (p *patience) progress(now time.Time) { p.expect(p.limit, now) }

// expect accepts silence for d from now. It never shortens what was accepted before.
func (p *patience) expect(d time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := now.Add(d); until.After(p.until) {
		p.until = until
	}
}

// left is how much silence is still accepted; nothing or less means that the task has stalled.
func (p *patience) left(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until.Sub(now)
}
