package queue

import (
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// A batch job that a machine does whole under plan auto takes its slot for longer than a prompt or an answer alone would. So that an interactive job waits
// for no batch job longer than it would without that, such a job yields: it is cancelled, and handed back uncounted.

// yields has the delivery's job give way to interactive ones from now on.
func (d *delivery) yields() {
	d.yielding.Store(true)
	d.w.waiting.notify() // an interactive job may be fetched now
	d.w.preempt()
}

// yieldingHere reports whether a job is here that would give way, or just does: its slot is for who waits.
func (w *Worker) yieldingHere() bool {
	found := false
	for _, v := range w.running.Range {
		if d := v.(*delivery); d.yielding.Load() || d.preempted.Load() {
			found = true
			break
		}
	}
	return found
}

// preempt ends as many jobs that yield as there are interactive ones in line without a slot to come.
func (w *Worker) preempt() {
	w.preempting.Lock()
	defer w.preempting.Unlock()
	waiting, _ := w.waiting.counts(source{consumer: protocol.ConsumerName(w.cfg.Role, w.cfg.Model, jobs.Interactive)})
	coming, _ := w.cfg.Slots.Idle()
	var yielding []*delivery
	for _, v := range w.running.Range {
		switch d := v.(*delivery); {
		case d.preempted.Load():
			coming++
		case d.yielding.Load():
			yielding = append(yielding, d)
		}
	}
	for _, d := range yielding {
		if coming >= waiting {
			return
		}
		coming++
		d.preempted.Store(true)
		d.log.Info("batch job gives way to an interactive one", "ran", time.Since(d.at).Seconds())
		d.cancel(jobs.ErrPreempted)
	}
}
