package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// dispatch fetches one job after the other, as slots are free or jobs may wait for one, and has them handled, until ctx ends.
func (w *Worker) dispatch(ctx, publishing, tasks context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	place := func(arrivals ...arrival) {
		for _, a := range arrivals {
			w.place(ctx, publishing, tasks, a)
		}
	}
	p, err := newPuller(w.c.nc)
	if err != nil {
		return err
	}
	defer func() { place(p.close()...) }()
	defer w.intake.stop()
	var sharing sync.WaitGroup
	defer func() {
		stop()
		sharing.Wait()
	}()
	if w.cfg.Ahead > 0 || w.cfg.Next != nil {
		sharing.Go(func() { w.share(ctx) })
		sharing.Go(func() { w.watchSlots(ctx) })
	}
	for ctx.Err() == nil {
		stirred := w.members.news()
		classes, err := w.admission(ctx, p, place)
		if err != nil {
			break
		}
		moved := w.waiting.changes()
		w.giveSlots(ctx, p, place)
		sources, wake := w.sources(classes)
		sources = slices.DeleteFunc(sources, func(s source) bool { return !w.takes(s) })
		if len(sources) == 0 { // somebody has just taken the slot
			continue
		}
		place(p.withdraw(sources)...)
		if w.takeWhole(ctx, p, place) {
			continue
		}
		if len(classes) < len(jobs.Classes) || w.cfg.Next != nil && w.cfg.Role == protocol.RoleDecode {
			wake = stirred
		}
		a, err := p.next(ctx, sources, w.intake.lanes.quiet(sources), wake, moved)
		switch {
		case err == nil:
			w.outage = ""
			place(a)
		case errors.Is(err, nats.ErrConnectionClosed):
			return err
		case errors.Is(err, errWoken), ctx.Err() != nil:
		default:
			w.recoverConsumer(ctx, err)
		}
	}
	return nil
}

// takeWhole has a decode worker with a free slot take the next job of the intake, if that is the fastest, and reports whether anything came of it.
func (w *Worker) takeWhole(ctx context.Context, p *puller, place func(...arrival)) bool {
	if free, _ := w.cfg.Slots.Idle(); free <= w.waiting.claims(laneSource(w.cfg.Model, 0)) {
		return false
	}
	lane, why := w.intake.whole(ctx)
	if lane < 0 {
		return false
	}
	come, err := p.now(laneSource(w.cfg.Model, lane))
	for i := range come {
		come[i].why = why
	}
	place(come...)
	if err != nil {
		w.recoverConsumer(ctx, err)
	}
	return len(come) > 0
}

// sources are the consumers to fetch from, in this order, which ends with the lanes of the intake, and a channel that is closed when that may
// have changed.
func (w *Worker) sources(classes []jobs.Class) ([]source, <-chan struct{}) {
	view, changed := w.members.snapshot()
	var list []source
	for _, class := range classes {
		if w.cfg.Role == protocol.RoleDecode {
			list = append(list, sourceOf(protocol.RoleDecode, w.cfg.Model, class))
		}
		switch {
		case w.cfg.Role == protocol.RoleDecode && !view.noPrefill:
		case class == jobs.Batch:
			for _, lane := range w.intake.lanes.order() {
				list = append(list, laneSource(w.cfg.Model, lane))
			}
		default:
			list = append(list, sourceOf(protocol.RolePrefill, w.cfg.Model, class))
		}
	}
	return list, changed
}

// admission waits until a job may be fetched, and says of which classes. Pulls that wait at the server meanwhile are withdrawn
// if that takes long.
func (w *Worker) admission(ctx context.Context, p *puller, place func(...arrival)) (classes []jobs.Class, err error) {
	admitted := make(chan error, 1)
	var waiter sync.WaitGroup
	waiter.Go(func() {
		var err error
		classes, err = w.mayFetch(ctx)
		admitted <- err
	})
	defer waiter.Wait()
	withdraw := time.NewTimer(linger)
	defer withdraw.Stop()
	for {
		select {
		case err := <-admitted:
			return classes, err
		case m := <-p.msgs:
			place(p.arrived(m)...)
		case <-withdraw.C:
			place(p.withdraw(nil)...)
			if w.cfg.Peek != nil && w.cfg.Role == protocol.RolePrefill {
				w.deliveries.Go(func() { w.peek(ctx) })
			}
		}
	}
}

// mayFetch waits until a job may be fetched, and says of which classes.
func (w *Worker) mayFetch(ctx context.Context) (classes []jobs.Class, err error) {
	for {
		if err := w.cfg.Ready(ctx); err != nil {
			return nil, err
		}
		if err := w.room(ctx); err != nil {
			return nil, err
		}
		classes = jobs.Classes[:]
		if free, _ := w.cfg.Slots.Idle(); w.waiting.next(free) != nil {
			classes = nil // first who waits here
		} else if w.cfg.Role == protocol.RolePrefill {
			if classes, err = w.intake.wait(ctx); err != nil {
				return nil, err
			}
		} else if view, _ := w.members.snapshot(); view.noPrefill {
			soon, cancel := context.WithTimeout(ctx, countLimit)
			_ = w.intake.survey(soon, time.Now().Add(-depthAge)) // else the turns go by what was known before
			cancel()
		}
		paused, err := w.breaker.wait(ctx)
		if !paused || err != nil {
			return classes, err
		}
		w.Changed() // it is no longer down
	}
}

// failed notes an attempt that failed, after which the worker may need a pause. Again says that the job is to be done again.
func (w *Worker) failed(err error, again bool) {
	if pause := w.breaker.failed(jobs.CodeOf(err), again); pause > 0 {
		w.log.Error("too many jobs fail here; the worker pauses, and then tries one", "problem", w.breaker.problem(), "pause", pause)
		w.workerEvent(jobs.Event{Type: jobs.EventWorkerPaused, Seconds: pause.Seconds(), Why: w.breaker.problem()})
		w.Changed()
	}
}

// recoverConsumer does what it can about a failed pull: a consumer, or all, may have been deleted. What this user may not create is waited for.
func (w *Worker) recoverConsumer(ctx context.Context, err error) {
	const pause = 500 * time.Millisecond
	if gone, ok := errors.AsType[*goneError](err); ok {
		role := protocol.RoleDecode
		if gone.source.stream == StreamIntake {
			role = protocol.RolePrefill
		}
		missing := w.c.ensureStreams(ctx)
		if missing == nil {
			missing = w.c.ensureConsumers(ctx, role, w.cfg.Model)
		}
		if missing == nil {
			w.log.Warn("a consumer was gone, and is there again", "error", err)
			w.outage = ""
			return
		}
		err = missing
	}
	if problem := err.Error(); problem != w.outage {
		w.outage = problem
		w.log.Error("fetch job", "error", err)
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}
