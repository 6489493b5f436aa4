package queue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Which jobs of the intake a worker fetches. Those of plan auto go to whoever does the work soonest, which [WorkerConfig.Next] says by what
// waits and by what the others are at; of the others a prefill worker takes what its gate lets pass, and a decode worker none while
// prefill workers live.

// longestDecline is for how long a worker leaves the same job to others, beyond the time at which it thought that they would take it: they may know
// nothing of that.
const longestDecline = 10 * time.Second

// intake is what one worker knows of the intake. It belongs to one goroutine, but for the gates and the lanes.
type intake struct {
	w     *Worker
	gates map[jobs.Class]*gate // of a prefill worker: how much of decode's work counts for a class
	lanes lanes

	surveyed       time.Time // before the lanes were counted last, with these
	consumers      []jetstream.ConsumerInfo
	relay, pending int  // batch jobs that wait for decode, and in all lanes
	urgent         bool // an interactive job waits

	autos atomic.Int64 // batch jobs in the next of which plan auto is looked for; see saw

	declined [protocol.Lanes]decline
	again    *time.Timer   // a prefill worker's, whose gate is closed, or a decode worker's that waits for others to choose
	pause    time.Duration // before the gates are looked at again that were closed
	hushed   time.Time     // since when a decode worker has waited for others to choose; zero if it does not
}

// decline is the job of a lane that was left to others last.
type decline struct {
	job   string
	until time.Time
	again *time.Timer // when it is to be looked at again
}

// saw takes the plan of a batch job. What waits is worth a look before each job only if jobs of plan auto come, of one user at least: as many
// jobs as there are lanes without any say that none do.
func (i *intake) saw(plan jobs.Plan) {
	if plan == jobs.PlanAuto {
		i.autos.Store(protocol.Lanes)
	} else if i.autos.Load() > 0 {
		i.autos.Add(-1)
	}
}

// begin counts a job that was fetched, as the gates do.
func (i *intake) begin() (end func(handed time.Time)) {
	var ends []func(time.Time)
	for _, g := range i.gates {
		ends = append(ends, g.begin())
	}
	return func(handed time.Time) {
		for _, end := range ends {
			end(handed)
		}
	}
}

// open lists the classes of which a prefill worker may fetch a job now. While no slot is free for a batch job, but one that runs would give way to an
// interactive one, it asks for no choice: what is chosen counts in what others hear of this worker.
func (i *intake) open(ctx context.Context) (open []jobs.Class) {
	batch := i.w.takes(laneSource(i.w.cfg.Model, 0))
	began := time.Now()
	var counting sync.WaitGroup
	defer counting.Wait()
	if slots, _ := i.gates[jobs.Batch].slots(); batch && slots > 0 { // while the gates ask
		since := began.Add(-depthAge)
		if i.autos.Load() > 0 {
			since = began
		}
		counting.Go(func() { _ = i.survey(ctx, since) })
	}
	for _, class := range jobs.Classes {
		if class == jobs.Batch && !batch {
			continue
		}
		may := i.gates[class].open(ctx)
		slots, _ := i.gates[class].slots()
		if class == jobs.Batch && slots > 0 && i.w.cfg.Next != nil && (i.autos.Load() > 0 || !may) {
			counting.Wait()
			if i.survey(ctx, began) == nil {
				_, _, may = i.pick(ctx, may)
			}
		}
		if may {
			open = append(open, class)
		}
	}
	return open
}

// survey counts what waits for the workers of the model, unless that was done since then.
func (i *intake) survey(ctx context.Context, since time.Time) error {
	if !i.surveyed.Before(since) {
		return nil
	}
	now := time.Now()
	infos, waiting, err := i.count(ctx, sourceOf(protocol.RolePrefill, i.w.cfg.Model, jobs.Interactive))
	if err != nil {
		return err
	}
	i.surveyed, i.consumers, i.pending = now, infos[:protocol.Lanes], waiting
	i.relay, i.urgent = int(infos[protocol.Lanes].NumPending), infos[protocol.Lanes+1].NumPending > 0
	return nil
}

// count asks what waits for the workers of the model: in the lanes, for decode, and at further sources. Waiting is the sum of the lanes; if the server does
// not say, as it was counted last.
func (i *intake) count(ctx context.Context, more ...source) (infos []jetstream.ConsumerInfo, waiting int, err error) {
	list := append(laneSources(i.w.cfg.Model), sourceOf(protocol.RoleDecode, i.w.cfg.Model, jobs.Batch))
	if infos, err = i.w.c.infos(ctx, append(list, more...)...); err != nil {
		return nil, i.lanes.waiting(), err
	}
	return infos, i.lanes.counted(infos[:protocol.Lanes]), nil
}

// pick finds the lane of which this worker takes the next job, by the last survey: in the order of their turns, the first whose next job is for it. One of
// plan auto is if that is chosen, any other if may says so; a lane whose next job is left to others loses its turn. With no job to look at, lane is -1, and
// take is may: what was delivered before, and waits for another try, comes to whoever asks next.
func (i *intake) pick(ctx context.Context, may bool) (lane int, why string, take bool) {
	if i.urgent { // interactive jobs go first
		return -1, "", may
	}
	left := false
	for _, lane := range i.lanes.order() {
		if i.consumers[lane].NumPending == 0 {
			continue
		}
		b, gone, err := i.backlog(ctx, lane)
		if gone {
			continue
		}
		choice := protocol.Choice{Take: may}
		if err == nil && b.Head != nil && b.Head.EffectivePlan() == jobs.PlanAuto {
			choice = i.choose(lane, b)
		}
		if choice.Take {
			return lane, choice.Why, true
		}
		i.lanes.serve(laneSource(i.w.cfg.Model, lane))
		left = true
	}
	return -1, "", may && !left
}

// choose asks what to do about a lane's next job, and has it asked again in time.
func (i *intake) choose(lane int, b protocol.Backlog) protocol.Choice {
	i.w.members.catchUp()
	choice, last := i.w.cfg.Next(b), &i.declined[lane]
	now := time.Now()
	switch {
	case choice.Take:
		last.job = ""
	case last.job != b.Head.ID:
		last.job, last.until = b.Head.ID, now.Add(choice.Leave+longestDecline)
	case now.After(last.until):
		choice.Take, choice.Why = true, "nobody else took it"
	}
	if last.again != nil {
		last.again.Stop()
	}
	if !choice.Take && choice.Again > 0 {
		last.again = time.AfterFunc(choice.Again, i.w.members.notify)
	}
	return choice
}

// recheck has closed gates looked at again, later each time.
func (i *intake) recheck() {
	i.pause = min(max(2*i.pause, firstRecheck), depthAge)
	i.lookAgain(i.pause)
}

// lookAgain has the worker look at the intake again after a while.
func (i *intake) lookAgain(after time.Duration) {
	if i.again != nil {
		i.again.Stop()
	}
	i.again = time.AfterFunc(after, i.w.members.notify)
}

// stop ends what still waits to ask again.
func (i *intake) stop() {
	timers := []*time.Timer{i.again}
	for _, d := range i.declined {
		timers = append(timers, d.again)
	}
	for _, t := range timers {
		if t != nil {
			t.Stop()
		}
	}
}

// wait returns the classes of which a prefill worker may fetch a job, as soon as there is one.
func (i *intake) wait(ctx context.Context) ([]jobs.Class, error) {
	for {
		stirred := i.w.members.news()
		open := i.open(ctx)
		if len(open) == len(jobs.Classes) {
			i.pause = 0
			return open, nil
		}
		if slots, _ := i.gates[jobs.Batch].slots(); slots > 0 {
			i.recheck()
		}
		if len(open) > 0 {
			return open, nil
		}
		select {
		case <-stirred:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// whole is the lane of which a decode worker should take the next job, all of it, although prefill workers may live; -1 if of none.
func (i *intake) whole(ctx context.Context) (lane int, why string) {
	w := i.w
	free, _ := w.cfg.Slots.Idle()
	if w.cfg.Next == nil || w.cfg.Role != protocol.RoleDecode || i.autos.Load() <= 0 && free < w.cfg.Slots.Size() {
		return -1, ""
	}
	if free > 1 && i.hush() {
		return -1, ""
	}
	if wait := calmLook - time.Since(i.surveyed); i.autos.Load() <= 0 && wait > 0 {
		i.lookAgain(wait)
		return -1, ""
	}
	if err := i.survey(ctx, time.Now()); err != nil || i.relay > 0 && w.takes(sourceOf(protocol.RoleDecode, w.cfg.Model, jobs.Batch)) {
		return -1, "" // what has been computed comes first, as long as there is room for it
	}
	view, _ := w.members.snapshot()
	lane, why, _ = i.pick(ctx, view.noPrefill) // then other jobs are here to be taken as well, in their turn
	return lane, why
}

// A decode worker with several free slots waits before it takes whole requests until nothing was heard of others for a moment, though not for long: when a
// class arrives, or several jobs end at once, prefill workers choose first, and what they have chosen is known to it.
const (
	hush        = 30 * time.Millisecond
	longestHush = 200 * time.Millisecond
)

// calmLook is how often a decode worker looks for whole requests while no batch job of plan auto is known to come: else ten questions to NATS would go with each of
// the interactive ones.
const calmLook = 100 * time.Millisecond

// hush reports whether to wait, and has it asked again.
func (i *intake) hush() bool {
	now := time.Now()
	wait := hush - now.Sub(i.w.members.lastHeard())
	if wait <= 0 || !i.hushed.IsZero() && now.Sub(i.hushed) > longestHush {
		i.hushed = time.Time{}
		return false
	}
	if i.hushed.IsZero() {
		i.hushed = now
	}
	i.lookAgain(wait)
	return true
}

// behind counts what waits for the workers of the model behind a batch job that was fetched: now, since what others fetched meanwhile is told of them
// already.
func (i *intake) behind(ctx context.Context, d *delivery) protocol.Backlog {
	b, since := protocol.Backlog{Head: d.job}, 0
	infos, waiting, err := i.count(ctx)
	if err != nil {
		i.w.log.Debug("count what waits", "error", err)
	} else {
		b.Relay, b.Fetched = int(infos[protocol.Lanes].NumPending), fetched(infos)
		since = max(0, int(infos[d.address.Lane].Delivered.Consumer-d.sequence)) // a consumer that was made anew counts from 1
	}
	i.w.members.catchUp()
	b.Intake = 1 + i.w.following(d.job, d.stored, waiting, since)
	return b
}

// fetched is what was delivered last, as the consumers of the lanes say.
func fetched(lanes []jetstream.ConsumerInfo) (last [protocol.Lanes]uint64) {
	for n := range last {
		last[n] = lanes[n].Delivered.Stream
	}
	return last
}

// fresh is for how long a job's word counts that others follow it, which are on their way then.
const fresh = 5 * time.Second

// following is how many jobs wait behind one in the intake, or are about to: so many are there already, and so many that came after it were fetched.
func (w *Worker) following(j *jobs.Job, stored time.Time, there, fetched int) int {
	if w.clock.since(stored, time.Now()) < fresh {
		return max(there, j.Following.Jobs-fetched)
	}
	return there
}

// backlog reads what waits of batch jobs for the workers of the model, with the next one of a lane, as of the last survey. Gone says that there is none any more.
func (i *intake) backlog(ctx context.Context, lane int) (b protocol.Backlog, gone bool, err error) {
	b = protocol.Backlog{Intake: i.pending, Relay: i.relay, Fetched: fetched(i.consumers)}
	msg, err := i.w.next(ctx, lane, i.consumers[lane])
	if err != nil || msg == nil {
		return b, err == nil, err
	}
	if head, err := jobs.Decode[jobs.Job](msg.Data); err == nil { // one that cannot be read is dealt with by who fetches it
		b.Head, b.Place, b.Intake = head, protocol.Place{Lane: lane, Sequence: msg.Sequence}, 1+i.w.following(head, msg.Time, b.Intake-1, 0)
	}
	return b, false, nil
}

// next reads the job of a lane that will be delivered next, by what its consumer says; nil if there is none.
func (w *Worker) next(ctx context.Context, lane int, at jetstream.ConsumerInfo) (*jetstream.RawStreamMsg, error) {
	return w.c.ofLeader(ctx, StreamIntake, msgGet{Seq: at.Delivered.Stream + 1, NextFor: protocol.JobFilter(jobs.StagePrefill, w.cfg.Model, protocol.Lane(lane))})
}

// peek shows the job that will probably be next to who may prepare for it.
func (w *Worker) peek(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, peekLimit)
	defer cancel()
	infos, err := w.c.infos(ctx, laneSources(w.cfg.Model)...)
	if err != nil {
		return // what is wrong, the next pull will notice
	}
	for _, lane := range w.intake.lanes.order() {
		if infos[lane].NumPending == 0 {
			continue
		}
		if msg, err := w.next(ctx, lane, infos[lane]); err == nil && msg != nil {
			if j, err := jobs.Decode[jobs.Job](msg.Data); err == nil {
				w.cfg.Peek(ctx, j)
			}
		}
		return
	}
}
