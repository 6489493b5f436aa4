package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// A worker may fetch jobs ahead: before a slot is free for them, so that what can be done without one is done while others run. Such
// a job is looked at, kept and prepared like one that runs, listens for its cancel and has its deadline; then it waits in line.
//
// A job that waits here must not wait for longer than it would in its stream. So it goes back, uncounted, when another worker has a
// slot free for it or this one cannot work; and an interactive job, which any free slot serves before batch jobs, waits here only
// as long as there is no other worker of the role.

// shareEvery is how often a worker looks whether jobs that wait here could begin elsewhere, if nothing tells it before.
const shareEvery = 250 * time.Millisecond

// errElsewhere ends the waiting of a job that goes back to its stream.
var errElsewhere = errors.New("the job may begin sooner at another worker")

// idlePeer reports whether another live worker of the role has a free slot.
func (w *Worker) idlePeer() bool {
	view, _ := w.members.snapshot()
	return view.idleSlots > 0
}

// takes reports whether a job of the source may be fetched now, to begin at once or to wait here.
func (w *Worker) takes(s source) bool {
	same, before := w.waiting.counts(s)
	free, _ := w.cfg.Slots.Idle()
	return free > before || w.mayWait(s, same)
}

// mayWait reports whether another job of the source may wait here for a slot, beside so many of its class.
func (w *Worker) mayWait(s source, same int) bool {
	if s.class() == jobs.Interactive && same == 0 && w.belongs(s) && w.yieldingHere() {
		return true // a job gives way to it
	}
	return same < w.places(s) && w.belongs(s) && !w.idlePeer()
}

// places is how many jobs of a source's class may wait here.
func (w *Worker) places(s source) int {
	n := w.cfg.Ahead * w.cfg.Slots.Size()
	if n > 0 && w.fetchesFirst(s) {
		free, _ := w.cfg.Slots.Idle()
		n += free
	}
	return n
}

// fetchesFirst reports whether a job of the source waits here, even if a slot is free, until its KV state is there: the slot may do a whole request meanwhile.
func (w *Worker) fetchesFirst(s source) bool {
	return w.cfg.Next != nil && s.stream == StreamRelay && s.class() == jobs.Batch
}

// belongs reports whether jobs of the source may wait here at all: interactive ones while there is nobody else for them or a job here would give way to them, and those of
// the intake, in a decode worker, while no prefill worker lives.
func (w *Worker) belongs(s source) bool {
	view, _ := w.members.snapshot()
	if w.cfg.Role == protocol.RoleDecode && s.stream == StreamIntake && !view.noPrefill {
		return false
	}
	return s.class() != jobs.Interactive || view.peers == 0 || w.yieldingHere()
}

// room waits until a job may be fetched, or one that waits here may begin.
func (w *Worker) room(ctx context.Context) error {
	for {
		moved := w.waiting.changes()
		sources, changed := w.sources(jobs.Classes[:])
		free, released := w.cfg.Slots.Idle()
		if w.waiting.next(free) != nil {
			return nil
		}
		if slices.ContainsFunc(sources, w.takes) {
			return nil
		}
		select {
		case <-moved:
		case <-changed:
		case <-released:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watchSlots tells when a slot becomes free, whoever had it, until ctx ends.
func (w *Worker) watchSlots(ctx context.Context) {
	for {
		_, released := w.cfg.Slots.Idle()
		w.waiting.notify() // after that, whoever gives slots sees each that was released before the channel was made
		select {
		case <-released:
		case <-ctx.Done():
			return
		}
	}
}

// giveSlots gives free slots to those that wait for one and are ready. Before a batch job begins, interactive ones are looked for that no
// pull waits for.
func (w *Worker) giveSlots(ctx context.Context, p *puller, place func(...arrival)) {
	for {
		free, _ := w.cfg.Slots.Idle()
		t := w.waiting.next(free)
		if t == nil {
			return
		}
		if t.from.class() != jobs.Interactive {
			place(p.look(w.interactive())...)
			if left, _ := w.cfg.Slots.Idle(); left < free {
				continue
			}
		}
		s, err := w.acquireSlot(ctx)
		if err != nil {
			return // share sees to those for whom this is no place any more
		}
		if !t.grant(s) {
			s.release()
			s.tried()
		}
	}
}

// interactive are the sources of interactive jobs of which one could be taken now.
func (w *Worker) interactive() []source {
	sources, _ := w.sources(jobs.Classes[:])
	return slices.DeleteFunc(sources, func(s source) bool { return s.class() != jobs.Interactive || !w.takes(s) })
}

// share has jobs handed back for which this is not the best place to wait any more, until ctx ends.
func (w *Worker) share(ctx context.Context) {
	tick := time.NewTicker(shareEvery)
	defer tick.Stop()
	var gave time.Time // when the last one was given to an idle worker, which says so with its next beat at the latest
	for {
		_, changed := w.members.snapshot()
		free, _ := w.cfg.Slots.Idle()
		w.waiting.handBack(func(t *slotWaiter) bool {
			return !w.belongs(t.from) && (free == 0 || t.from.class() != jobs.Interactive) // whose slot may have come in this moment
		})
		if t := w.waiting.first(); t != nil {
			switch {
			case w.able(ctx) != nil:
				w.waiting.handBack(func(*slotWaiter) bool { return true })
			case free == 0 && w.idlePeer() && time.Since(gave) >= w.c.timing.Beat && !w.othersWait(ctx, t.from.rank()):
				t.cancel()
				gave = time.Now()
			case free > 0:
				w.waiting.notify() // it could not begin a moment ago
			}
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// othersWait reports whether jobs of the rank, or of one before it, wait in their stream for whoever is idle. It is so if nobody can
// be asked.
func (w *Worker) othersWait(ctx context.Context, rank int) bool {
	for _, class := range jobs.Classes[:rank+1] {
		if depth, err := w.c.depth(ctx, w.cfg.Role, w.cfg.Model, class); err != nil || depth.Waiting > 0 {
			return true
		}
	}
	return false
}

// watchResult listens for a result of the job that somebody else publishes, until unwatchResult is called. A result is on its way to its listeners when it is
// stored, so who heard nothing does not ask whether there is one before the job begins: that would take no less time than one on its way. Before anything is
// published, it is asked all the same, and who cancels a job also tells its worker.
func (d *delivery) watchResult() (err error) {
	d.ends, err = d.w.c.nc.SubscribeSync(protocol.ResultSubject(d.job.User, d.job.Batch, d.job.ID))
	if err != nil {
		return fmt.Errorf("listen for result: %w", err)
	}
	return nil
}

func (d *delivery) unwatchResult() { _ = d.ends.Unsubscribe() } // fails only on a closed connection

// noResultSeen reports whether the job cannot have ended meanwhile: nobody has published a result, and nothing went unheard.
func (d *delivery) noResultSeen(now time.Time) bool {
	heard, _, err := d.ends.Pending()
	return err == nil && heard == 0 && d.owned(now)
}

// ahead prepares the task and waits until the delivery has a slot. Then it looks again whether the job is over. An error is of NATS, or
// errElsewhere; or ctx has ended.
func (d *delivery) ahead(publishing, ctx context.Context, t *protocol.Task) (over bool, err error) {
	if d.delivered > 1 {
		// Its worker may have died because of the job beside which it waited. That must not cost it more than one attempt.
		if err := d.recordUncountedRedelivery(publishing); err != nil {
			return false, err
		}
		d.uncounted = true
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.waiter.waits, func() { cancel(errElsewhere) })()
	d.watchdog.Store(newStallWatchdog(d.w.cfg.StallLimit, time.Now()))
	d.discard = d.prepare(waiting, t)
	d.trace.Prepared()
	d.watchdog.Store(nil)
	s, err := d.waiter.wait(waiting)
	if err != nil {
		return false, err
	}
	d.slotGrant = s
	looking, stop := context.WithTimeout(publishing, d.w.lookLimit)
	defer stop()
	if d.uncounted {
		if err := d.change(looking, func(h *history) { h.HandBacks-- }); err != nil {
			return false, err
		}
		d.uncounted = false
	}
	now := time.Now()
	t.Waited = d.w.clock.since(d.stored, now)
	heardNothing := d.noResultSeen(now)
	d.unwatchResult() // its own result is no news
	if heardNothing {
		return false, nil
	}
	return d.over(looking, protocol.Outcome{}, nil)
}

// prepare calls Prepare. What panics there will do so again in Run, where it is the job's failure.
func (d *delivery) prepare(ctx context.Context, t *protocol.Task) (discard func()) {
	defer func() {
		if v := recover(); v != nil {
			_ = d.panicked(v)
			discard = func() {}
		}
	}()
	return d.w.cfg.Prepare(ctx, t)
}
