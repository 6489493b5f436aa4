package queue

import (
	"context"
	"slices"
	"sync"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// slotQueue is where deliveries wait that were fetched before a slot was free for them: interactive ones first, then in order of arrival.
type slotQueue struct {
	mu      sync.Mutex
	waiters []*slotWaiter
	moved   chan struct{} // closed and replaced when something changes
}

// slotWaiter is the place of one delivery in the queue.
type slotWaiter struct {
	queue   *slotQueue
	from    source
	waits   context.Context    // ends when the delivery is to be handed back
	cancel  context.CancelFunc // has it handed back
	ready   bool               // its task is prepared; guarded by queue.mu
	granted chan slotGrant     // its slot, once
}

// slotGrant is a slot that was taken for one delivery.
type slotGrant struct {
	release func() // gives the slot back; calling it again does nothing
	tried   func() // tells the breaker that the job is done with
}

func newSlotQueue() *slotQueue { return &slotQueue{moved: make(chan struct{})} }

// class is that of the jobs of a source.
func (s source) class() jobs.Class {
	_, _, token, _ := protocol.ModelOfConsumer(s.consumer)
	class, _, _ := protocol.SplitToken(token)
	return class
}

// rank is the place of the source's class in the order in which workers take them.
func (s source) rank() int { return slices.Index(jobs.Classes[:], s.class()) }

// join adds a delivery of the source. It is handed back when ctx ends.
func (l *slotQueue) join(ctx context.Context, from source) *slotWaiter {
	t := &slotWaiter{queue: l, from: from, granted: make(chan slotGrant, 1)}
	t.waits, t.cancel = context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, before := l.count(from)
	l.waiters = slices.Insert(l.waiters, before, t)
	l.notifyLocked()
	return t
}

// counts is how many wait of the source's class, and how many would go before a newcomer of it.
func (l *slotQueue) counts(s source) (same, before int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count(s)
}

// count is counts with the lock held.
func (l *slotQueue) count(s source) (same, before int) {
	for _, t := range l.waiters {
		if t.from.rank() == s.rank() {
			same++
		}
		if t.from.rank() <= s.rank() {
			before++
		}
	}
	return same, before
}

// claims is how many slots are for those in the queue rather than for a job of the source that could begin at once: all that go before it but those of its
// class whose KV states are still on their way.
func (l *slotQueue) claims(s source) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.waiters {
		if t.from.rank() < s.rank() || t.from.rank() == s.rank() && (t.ready || t.from.stream != StreamRelay) {
			n++
		}
	}
	return n
}

// first is who waits at the head of the queue; nil if nobody does.
func (l *slotQueue) first() *slotWaiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiters) == 0 {
		return nil
	}
	return l.waiters[0]
}

// next is who begins when so many slots are free: the first who is ready, unless the slots are for jobs that go before its class and
// will be ready soon. It is nil if nobody begins.
func (l *slotQueue) next(free int) *slotWaiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.waiters {
		if !t.ready {
			continue
		}
		for _, other := range l.waiters {
			if !other.ready && other.from.rank() < t.from.rank() {
				free--
			}
		}
		if free > 0 {
			return t
		}
		return nil
	}
	return nil
}

// handBack has those handed back that it is right for.
func (l *slotQueue) handBack(right func(*slotWaiter) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.waiters {
		if right(t) {
			t.cancel()
		}
	}
}

// changes returns a channel that is closed when something may have changed by which slots are given or jobs fetched.
func (l *slotQueue) changes() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moved
}

// notify has those look again that wait for a change.
func (l *slotQueue) notify() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notifyLocked()
}

// notifyLocked is notify with the lock held.
func (l *slotQueue) notifyLocked() {
	close(l.moved)
	l.moved = make(chan struct{})
}

// wait says that the delivery's task is prepared, and returns its slot. If ctx ends before it has one, the error is ctx's cause.
func (t *slotWaiter) wait(ctx context.Context) (slotGrant, error) {
	t.queue.mu.Lock()
	t.ready = true
	t.queue.notifyLocked()
	t.queue.mu.Unlock()
	select {
	case s := <-t.granted:
		return s, nil
	case <-ctx.Done():
		if t.remove() {
			return slotGrant{}, context.Cause(ctx)
		}
		return <-t.granted, nil
	}
}

// grant gives the waiter a slot, unless it has gone meanwhile.
func (t *slotWaiter) grant(s slotGrant) bool {
	if !t.remove() {
		return false
	}
	t.granted <- s
	return true
}

// remove takes the waiter out of the queue, and reports whether it was there.
func (t *slotWaiter) remove() bool {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	i := slices.Index(t.queue.waiters, t)
	if i < 0 {
		return false
	}
	t.queue.waiters = slices.Delete(t.queue.waiters, i, i+1)
	t.queue.notifyLocked()
	return true
}
