package queue

import (
	"slices"
	"sync"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// maxMoments bounds a timeline: the first ones stay, and the last ones.
const maxMoments = 48

// timeline is what happened to a delivery's job so far. Engines tell of it on goroutines of their own.
type timeline struct {
	mu      sync.Mutex
	moments []jobs.Moment
}

func (t *timeline) add(m ...jobs.Moment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moments = append(t.moments, m...)
	if extra := len(t.moments) - maxMoments; extra > 0 {
		t.moments = slices.Delete(t.moments, maxMoments/4, maxMoments/4+extra)
	}
}

func (t *timeline) all() []jobs.Moment {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.moments)
}

// beginTimeline notes what happened before this delivery.
func (d *delivery) beginTimeline() {
	switch {
	case len(d.past.Timeline) > 0:
		d.timeline.add(d.past.Timeline...)
	case d.handover != nil && len(d.handover.Timeline) > 0:
		d.timeline.add(d.handover.Timeline...)
	default:
		d.timeline.add(jobs.Moment{Type: jobs.EventAccepted, At: d.accepted.UTC()})
	}
	if d.stage == jobs.StageFallback && d.address.Stage == jobs.StagePrefill {
		d.event(jobs.Event{Type: jobs.EventFellBack, Why: d.handover.Reason})
	}
}

// stamp completes an event of the delivery's job, which stands in the timeline from now on.
func (d *delivery) stamp(e jobs.Event) *jobs.Event {
	j := d.job
	e.V, e.At, e.JobID, e.User, e.Batch, e.Model = jobs.Version, d.w.clock.at(time.Now()).UTC(), j.ID, j.User, j.Batch, j.Model
	e.Stage, e.Attempt, e.Worker = d.stage, d.attempt, d.w.server()
	if e.Type != jobs.EventProgress {
		d.timeline.add(e.Moment())
	}
	d.trace.Event(&e)
	return &e
}

// event tells that something happened to the delivery's job.
func (d *delivery) event(e jobs.Event) { d.w.publishEvent(d.stamp(e)) }

// publishEvent tells the worker's observer of an event, and whoever listens.
func (w *Worker) publishEvent(e *jobs.Event) {
	if w.cfg.Observe != nil {
		w.cfg.Observe.Event(e)
	}
	w.c.publishEvent(e)
}

// workerEvent tells that something happened to the worker.
func (w *Worker) workerEvent(e jobs.Event) {
	e.V, e.At, e.Model, e.Stage, e.Worker = jobs.Version, w.clock.at(time.Now()).UTC(), w.cfg.Model, w.cfg.Role, w.server()
	w.publishEvent(&e)
}

// publishEvent publishes an event to whoever listens. One that is lost is no harm.
func (c *Conn) publishEvent(e *jobs.Event) {
	subject := protocol.WorkerEventsSubject(e.Worker)
	if e.JobID != "" {
		subject = protocol.EventsSubject(e.User, e.Batch, e.JobID)
	}
	data, err := jobs.Encode(e)
	if err == nil {
		err = c.nc.Publish(subject, data)
	}
	if err != nil {
		c.log.Debug("publish event", "type", e.Type, "error", err)
	}
}

// endTimeline gives a result the timeline, which ends with it.
func (d *delivery) endTimeline(r *jobs.Result) {
	e := jobs.Event{Type: jobs.EventEnded}
	if r.Error != nil {
		e.Why = r.Error.Message
	}
	d.stamp(e)
	r.Timeline = d.timeline.all()
}

// endedEvent is that of a result that was just stored.
func endedEvent(r *jobs.Result) *jobs.Event {
	e := &jobs.Event{
		V: jobs.Version, Type: jobs.EventEnded, At: r.FinishedAt.UTC(), JobID: r.JobID, User: r.User, Batch: r.Batch, Model: r.Model, Worker: r.Servers.Decode,
		Status: r.Status, Tokens: r.Usage.GeneratedTokens, Seconds: r.Timings.TotalSeconds, Method: r.Method, Usage: &r.Usage, Timings: &r.Timings,
	}
	if n := len(r.Timeline); n > 0 {
		e.At = r.Timeline[n-1].At
	}
	if r.Error != nil {
		e.Code, e.Stage, e.Why = r.Error.Code, r.Error.Stage, r.Error.Message
	}
	return e
}
