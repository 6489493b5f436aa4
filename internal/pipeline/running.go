package pipeline

import (
	"iter"
	"slices"
	"sync"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// running knows what this worker is at, and when that will probably end. It is safe for concurrent use.
type running struct {
	changed func() // called, without the lock, when others should hear of it

	mu       sync.Mutex
	tasks    map[*protocol.Task]*course
	expected []expected // jobs that this worker is about to fetch, in order
	computed time.Time  // when a prompt last was
}

// expected is a job that this worker has chosen to fetch.
type expected struct {
	job string
	course
}

// begin notes a task that begins now.
func (r *running) begin(t *protocol.Task, c course) {
	c.began = time.Now()
	c.said = c.ends(c.began)
	r.mu.Lock()
	r.tasks[t] = &c
	r.mu.Unlock()
	r.changed()
}

// expectation is for how long a job counts that was to be fetched: another worker may have been faster.
const expectation = time.Second

// expect notes a job that this worker has chosen to fetch: when it chooses again, for its next slot, it shall not believe that this one is free.
func (r *running) expect(job string, at protocol.Place, c course) {
	now := time.Now()
	c.began, c.said, c.expected, c.place = now, c.ends(now), true, at
	r.mu.Lock()
	r.expected = append(r.expected, expected{job, c})
	r.mu.Unlock()
	r.changed()
	time.AfterFunc(expectation, func() { // if it has not come by then, others must not count on it
		if r.unexpect(func(e expected) bool { return time.Since(e.began) >= expectation }) {
			r.changed()
		}
	})
}

// unexpect forgets jobs that were expected, and reports whether there were any.
func (r *running) unexpect(those func(expected) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.expected)
	r.expected = slices.DeleteFunc(r.expected, those)
	return len(r.expected) < before
}

// arrived forgets that a job was expected, or, if it was not, the batch job in whose place it came: others were faster. It returns in how many seconds
// the engine turns to it: before those that were chosen after it.
func (r *running) arrived(j *jobs.Job) (turn float64) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.expected, func(e expected) bool { return e.job == j.ID })
	if i = max(i, 0); j.Class != jobs.Batch || i >= len(r.expected) {
		return r.queue(now)
	}
	e := r.expected[i]
	r.expected = slices.Delete(r.expected, i, i+1)
	return max(0, e.turn-now.Sub(e.began).Seconds())
}

// prompts is for how many seconds the engine is at the prompts that it has, which it computes one after the other.
func (r *running) prompts() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue(time.Now())
}

// queue is prompts with the lock held.
func (r *running) queue(now time.Time) (left float64) {
	for c := range r.courses() {
		if c.atPrompt() {
			left = max(left, c.computed(now).Sub(now).Seconds())
		}
	}
	return left
}

// courses are those of all that runs or is about to. The lock must be held.
func (r *running) courses() iter.Seq[*course] {
	return func(yield func(*course) bool) {
		for _, c := range r.tasks {
			if !yield(c) {
				return
			}
		}
		for i := range r.expected {
			if !yield(&r.expected[i].course) {
				return
			}
		}
	}
}

// wait notes a task that waits for a slot, and that its KV state will be here in so many seconds; 0 if it is.
func (r *running) wait(t *protocol.Task, arrives float64) {
	r.begin(t, course{before: arrives, hands: true, relayed: true, waits: true})
}

// hop notes that a task is done here and on its way to decode: until it is there nobody shall believe that there is nothing to do.
func (r *running) hop(t *protocol.Task) { r.begin(t, course{hops: true, hands: true}) }

// end forgets a task.
func (r *running) end(t *protocol.Task) {
	r.mu.Lock()
	c, known := r.tasks[t]
	if known && c.atPrompt() {
		r.computed = time.Now()
	}
	delete(r.tasks, t)
	r.mu.Unlock()
	if known {
		r.changed()
	}
}

// A course that turns out otherwise is told of, if it is so much longer or shorter, and not before that time has passed since.
const (
	newsShare = 0.1
	newsLeast = 500 * time.Millisecond
)

// emitted notes a piece of the answer, of about so many tokens.
func (r *running) emitted(t *protocol.Task, tokens float64) {
	now := time.Now()
	r.mu.Lock()
	c := r.tasks[t]
	news := false
	if c != nil {
		if c.first.IsZero() {
			c.first, r.computed = now, now
		} else {
			c.spend(now.Sub(c.last), tokens, r.prompted(c.last))
		}
		c.last = now
		ends := c.ends(now)
		off := ends.Sub(c.said).Abs()
		if news = off > newsLeast && off.Seconds() > newsShare*ends.Sub(now).Seconds(); news {
			c.said = ends
		}
	}
	r.mu.Unlock()
	if news {
		r.changed()
	}
}

// prompted reports whether the engine was at others' prompts since then. The lock must be held.
func (r *running) prompted(since time.Time) bool {
	if r.computed.After(since) {
		return true
	}
	for _, c := range r.tasks {
		if c.atPrompt() {
			return true
		}
	}
	return false
}

// share is which part of the time since its first token a task's answer had the engine for, beside other answers, and not waiting for others' prompts; 1 if
// nobody knows.
func (r *running) share(t *protocol.Task) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.tasks[t]
	if c == nil || c.spent <= 0 {
		return 1
	}
	return c.worked().Seconds() / c.spent.Seconds()
}

// busy is how many tasks have a slot.
func (r *running) busy() (n int) {
	for _, at := range r.list() {
		if !at.Ahead {
			n++
		}
	}
	return n
}

// with is how many slots are at jobs with a prefix, or will be in a moment.
func (r *running) with(key string) (n int) {
	for _, at := range r.list() {
		if !at.Ahead && at.Prefix == key {
			n++
		}
	}
	return n
}

// list is what the worker is at.
func (r *running) list() []protocol.Running {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []protocol.Running
	for c := range r.courses() {
		if c.hops {
			list = append(list, protocol.Running{HandsOver: true, Ahead: true})
			continue
		}
		list = append(list, protocol.Running{
			EndsSeconds: left(c.ends(now), now), FirstSeconds: left(c.answers(now), now), HandsOver: c.hands && !c.waits, Relayed: c.relayed, Ahead: c.waits, Prefix: c.prefix, Expected: c.expected, Place: c.place,
		})
	}
	return list
}
