package pipeline

import (
	"math"
	"sync"
	"time"

	"tandem/internal/jobs"
)

// running knows what this worker is at, and when that will probably end. It is safe for concurrent use.
type running struct {
	changed func() // called, without the lock, when others should hear of it

	mu    sync.Mutex
	tasks map[*jobs.Task]*course
}

// course is how one task goes on, as far as it was foreseen.
type course struct {
	began     time.Time
	before    float64 // seconds until its first token, or until its end if it hands over
	tokens    float64 // of its answer
	perSecond float64
	hands     bool
	relayed   bool
	waits     bool // for a slot

	first time.Time // token; zero before
	made  float64   // tokens so far
	said  time.Time // when it will end, as others have heard
}

// begin notes a task that begins now.
func (r *running) begin(t *jobs.Task, c course) {
	c.began = time.Now()
	c.said = c.ends(c.began)
	r.mu.Lock()
	r.tasks[t] = &c
	r.mu.Unlock()
	r.changed()
}

// wait notes a task that waits for a slot, and that its KV state will be here in so many seconds.
func (r *running) wait(t *jobs.Task, arrives float64) {
	r.begin(t, course{before: arrives, hands: true, relayed: true, waits: true})
}

// end forgets a task.
func (r *running) end(t *jobs.Task) {
	r.mu.Lock()
	_, known := r.tasks[t]
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
func (r *running) emitted(t *jobs.Task, tokens float64) {
	now := time.Now()
	r.mu.Lock()
	c := r.tasks[t]
	news := false
	if c != nil {
		first := c.first.IsZero()
		if first {
			c.first = now
		}
		c.made += tokens
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

// enough is after how many tokens the speed that is seen counts, and no longer the one that was expected.
const enough = 16

// ends is when the course will probably end.
func (c *course) ends(now time.Time) time.Time {
	if c.first.IsZero() {
		at := c.began.Add(seconds(c.before))
		if at.Before(now) && !c.waits { // it takes longer than expected: who knows how long
			at = now.Add(now.Sub(c.began) / 10)
		}
		if c.hands || c.perSecond <= 0 {
			return at
		}
		return at.Add(seconds(c.tokens / c.perSecond))
	}
	perSecond := c.perSecond
	if took := now.Sub(c.first).Seconds(); c.made > enough && took > 0 {
		perSecond = c.made / took
	}
	if perSecond <= 0 {
		return now
	}
	left := max(c.tokens-c.made, 0.1*c.made) // an answer that is longer than expected goes on for a while
	return now.Add(seconds(left / perSecond))
}

// list is what the worker is at.
func (r *running) list() []jobs.Running {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []jobs.Running
	for _, c := range r.tasks {
		list = append(list, jobs.Running{EndsSeconds: math.Round(1000*max(0, c.ends(now).Sub(now).Seconds())) / 1000, HandsOver: c.hands && !c.waits, Relayed: c.relayed, Ahead: c.waits})
	}
	return list
}
