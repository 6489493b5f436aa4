package queue

import (
	"context"
	"sync"
	"time"

	"tandem/jobs"
)

// place has a job handled if a slot is still free for it, or if it may wait for one, and else gives it to others at once: somebody
// may have taken the slot since it was asked for, or two consumers may have delivered at the same time.
func (w *Worker) place(ctx, publishing, tasks context.Context, a arrival) {
	d := &delivery{
		arrival: a, w: w, log: w.log.With("subject", a.msg.Subject), reconnects: w.c.nc.Stats().Reconnects,
		slotGrant: slotGrant{release: func() {}, tried: func() {}},
	}
	if !w.admit(ctx, d) {
		w.deliveries.Go(func() { d.handBack(publishing) })
		return
	}
	w.intake.lanes.serve(a.from)
	end, once := w.intake.begin(), new(sync.Once)
	d.counted = func(handed time.Time) { once.Do(func() { end(handed) }) }
	w.deliveries.Go(func() {
		defer func() {
			d.release()
			d.tried()
		}()
		w.handle(publishing, tasks, d)
	})
}

// admit gives a delivery a slot, or, if none is free, a place in the queue for one; or it is not for this worker.
func (w *Worker) admit(ctx context.Context, d *delivery) bool {
	same, before := w.waiting.counts(d.from)
	if d.why != "" { // chosen for a slot that nobody could use yet
		before = w.waiting.claims(d.from)
	}
	free, _ := w.cfg.Slots.Idle()
	if free <= before && w.mayWait(d.from, same) || w.fetchesFirst(d.from) && same < w.places(d.from) {
		if w.able(ctx) != nil {
			return false
		}
		d.waiter = w.waiting.join(ctx, d.from)
		if d.from.class() == jobs.Interactive {
			w.preempt()
		}
		return true
	}
	if free <= before && before > 0 {
		return false // others wait for the next slot
	}
	var err error
	d.slotGrant, err = w.acquireSlot(ctx)
	return err == nil
}

// grace is for what is there in a moment: a slot, or the word that the engine can work.
const grace = 5 * time.Millisecond

// able returns an error if no job can begin now: the worker pauses or is being stopped, or the engine cannot work.
func (w *Worker) able(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if _, err := w.breaker.wait(soon); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return w.cfg.Ready(soon)
}

// acquireSlot takes a slot for a job that begins now. Only dispatch's goroutine does, so that after a pause one job is tried.
func (w *Worker) acquireSlot(ctx context.Context) (slotGrant, error) {
	none := slotGrant{release: func() {}, tried: func() {}}
	if err := w.able(ctx); err != nil {
		return none, err
	}
	soon, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	release, err := w.cfg.Slots.Acquire(soon)
	if err != nil {
		return none, err
	}
	w.load.changed()
	return slotGrant{
		release: sync.OnceFunc(func() {
			release()
			w.load.changed()
		}),
		tried: w.breaker.begin(),
	}, nil
}
