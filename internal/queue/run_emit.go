package queue

import (
	"sync"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// emitter publishes the text of one attempt piece by piece, for whoever watches. Pieces may be lost
// without harm: the result has the whole text.
type emitter struct {
	d      *delivery
	mu     sync.Mutex
	next   int
	tokens int       // pieces, of a token each
	told   time.Time // when an event told of them
}

// progressEvery is how often events tell how far a text is.
const progressEvery = time.Second

func (d *delivery) emitter() *emitter { return &emitter{d: d} }

func (e *emitter) emit(piece jobs.Chunk) {
	if piece.Text != "" || piece.Thinking != "" || len(piece.ToolCalls) > 0 {
		e.count()
		e.publish(piece)
	}
}

// count tells of the first piece, and now and then how many there are.
func (e *emitter) count() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tokens++
	now := time.Now()
	switch {
	case e.tokens == 1:
		e.d.event(jobs.Event{Type: jobs.EventFirstToken})
	case now.Sub(e.told) >= progressEvery:
		e.d.event(jobs.Event{Type: jobs.EventProgress, Tokens: e.tokens})
	default:
		return
	}
	e.told = now
}

// done says that nothing more comes of this attempt.
func (e *emitter) done() {
	e.mu.Lock()
	begun := e.next > 0
	e.mu.Unlock()
	if begun || e.d.stage != jobs.StagePrefill { // which seldom generates anything
		e.publish(jobs.Chunk{Done: true})
	}
}

// attempt is that of the text: it goes on counting where attempts of the prefill stage, which may have begun with it, were
// given up.
func (e *emitter) attempt() int {
	h := e.d.handover
	switch {
	case h == nil || h.Attempts == 0:
		return e.d.attempt
	case h.Stage == jobs.StageFallback:
		return h.Attempts + e.d.attempt
	}
	return h.Attempts - 1 + e.d.attempt // the last one passed the job on
}

func (e *emitter) publish(c jobs.Chunk) {
	j := e.d.job
	if !j.Stream {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.V, c.JobID, c.Attempt, c.Seq = jobs.Version, j.ID, e.attempt(), e.next
	e.next++
	data, err := jobs.Encode(&c)
	if err == nil {
		err = e.d.w.c.nc.Publish(protocol.TokensSubject(j.User, j.Batch, j.ID), data)
	}
	if err != nil {
		e.d.log.Debug("publish piece of text", "error", err)
	}
}
