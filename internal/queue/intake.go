package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/jobs"
)

// Which jobs of the intake a worker fetches. Those of plan auto go to whoever does the work soonest, which [WorkerConfig.Next] says by what
// waits and by what the others are at; of the others a prefill worker takes what its gate lets pass, and a decode worker none while
// prefill workers live.

// longestDecline is for how long a worker leaves the same job to others, beyond the time at which it thought that they would take it: they may know
// nothing of that.
const longestDecline = 10 * time.Second

// intake is what one worker knows of the intake. It belongs to one goroutine, but for the gates.
type intake struct {
	w     *Worker
	gates map[jobs.Class]*gate // of a prefill worker: how much of decode's work counts for a class

	auto atomic.Bool // the last batch job here was of plan auto: only then is what waits worth a look before each job

	declined string    // the job that was left to others last
	until    time.Time // when that ends
	again    *time.Timer
	pause    time.Duration // before the gates are looked at again that were closed
}

// begin counts a job that was fetched; end is called when it is done with here.
func (i *intake) begin() (end func(handed bool)) {
	var ends []func(bool)
	for _, g := range i.gates {
		ends = append(ends, g.begin())
	}
	return func(handed bool) {
		for _, end := range ends {
			end(handed)
		}
	}
}

// open lists the classes of which a prefill worker may fetch a job now.
func (i *intake) open(ctx context.Context) (open []jobs.Class) {
	for _, class := range jobs.Classes {
		may := i.gates[class].open(ctx)
		slots, _ := i.gates[class].slots()
		if class == jobs.Batch && slots > 0 && i.w.cfg.Next != nil && (i.auto.Load() || !may) {
			may = i.look(ctx, may)
		}
		if may {
			open = append(open, class)
		}
	}
	return open
}

// look is what open says if the next job is one of plan auto, and otherwise if it is another.
func (i *intake) look(ctx context.Context, otherwise bool) bool {
	b, err := i.w.backlog(ctx, jobs.Batch)
	if err != nil || b.Head == nil || b.Head.EffectivePlan() != jobs.PlanAuto {
		return otherwise
	}
	return i.choose(b).Take
}

// choose asks what to do about a backlog, and has it asked again in time.
func (i *intake) choose(b jobs.Backlog) jobs.Choice {
	choice := i.w.cfg.Next(b)
	now := time.Now()
	switch {
	case choice.Take:
		i.declined = ""
	case i.declined != b.Head.ID:
		i.declined, i.until = b.Head.ID, now.Add(choice.Leave+longestDecline)
	case now.After(i.until):
		choice.Take, choice.Why = true, "nobody else took it"
	}
	if i.again != nil {
		i.again.Stop()
	}
	if !choice.Take && choice.Again > 0 {
		i.again = time.AfterFunc(choice.Again, i.w.fleet.stir)
	}
	return choice
}

// recheck has closed gates looked at again, later each time.
func (i *intake) recheck() {
	i.pause = min(max(2*i.pause, firstRecheck), depthAge)
	if i.again != nil {
		i.again.Stop()
	}
	i.again = time.AfterFunc(i.pause, i.w.fleet.stir)
}

// stop ends what still waits to ask again.
func (i *intake) stop() {
	if i.again != nil {
		i.again.Stop()
	}
}

// wait returns the classes of which a prefill worker may fetch a job, as soon as there is one.
func (i *intake) wait(ctx context.Context) ([]jobs.Class, error) {
	for {
		stirred := i.w.fleet.stirs()
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

// whole reports whether a decode worker should take the next job of the intake, all of it, although prefill workers live.
func (i *intake) whole(ctx context.Context) (why string, take bool) {
	w := i.w
	free, _ := w.cfg.Slots.Idle()
	if w.cfg.Next == nil || w.cfg.Role != jobs.RoleDecode || !i.auto.Load() && free < w.cfg.Slots.Size() {
		return "", false
	}
	b, err := w.backlog(ctx, jobs.Batch)
	if err != nil || b.Relay > 0 || b.Head == nil || b.Head.EffectivePlan() != jobs.PlanAuto {
		return "", false
	}
	choice := i.choose(b)
	return choice.Why, choice.Take
}

// relayed counts the batch jobs that wait for a decode worker and that none has yet; none if the server does not say.
func (w *Worker) relayed(ctx context.Context) int {
	depth, err := w.c.depth(ctx, jobs.RoleDecode, w.cfg.Model, jobs.Batch)
	if err != nil {
		w.log.Debug("count what waits for decode", "error", err)
	}
	return depth.Waiting
}

// fresh is for how long a job's word counts that others follow it, which are on their way then.
const fresh = 5 * time.Second

// following is how many jobs wait behind one in the intake, or are about to: of those so many are there already.
func (w *Worker) following(j *jobs.Job, stored time.Time, there int) int {
	if w.clock.since(stored, time.Now()) < fresh {
		return max(there, j.Following.Jobs)
	}
	return there
}

// backlog reads what waits of a class for the workers of the model. Interactive jobs go first, so with one of them in the intake nothing waits of the other class.
func (w *Worker) backlog(ctx context.Context, class jobs.Class) (b jobs.Backlog, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit) // no leader, no answer
	defer cancel()
	var intake, relay, urgent jetstream.ConsumerInfo
	var errs [3]error
	var asked sync.WaitGroup
	for i, of := range []struct {
		role  jobs.Stage
		class jobs.Class
		into  *jetstream.ConsumerInfo
	}{{jobs.RolePrefill, class, &intake}, {jobs.RoleDecode, class, &relay}, {jobs.RolePrefill, jobs.Interactive, &urgent}} {
		asked.Go(func() {
			stream, cfg := consumer(w.c.timing, of.role, w.cfg.Model, of.class)
			found, err := w.c.js.Consumer(ctx, stream, cfg.Durable)
			if err == nil {
				*of.into = *found.CachedInfo() // asked for this instant
			} else if !errors.Is(err, jetstream.ErrConsumerNotFound) {
				errs[i] = w.c.failed(ctx, err, "look at consumer %s", cfg.Durable)
			}
		})
	}
	asked.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return b, err
	}
	b.Relay, b.Intake = int(relay.NumPending), int(intake.NumPending)
	if b.Intake == 0 || class != jobs.Interactive && urgent.NumPending > 0 {
		return b, nil
	}
	// What was delivered before, and waits for another try, is not looked at: it comes to whoever asks next.
	msg, err := w.c.ofLeader(ctx, StreamIntake, msgGet{Seq: intake.Delivered.Stream + 1, NextFor: jobs.JobFilter(jobs.StagePrefill, w.cfg.Model, class)})
	if err != nil || msg == nil {
		return b, err
	}
	if head, err := jobs.Decode[jobs.Job](msg.Data); err == nil { // one that cannot be read is dealt with by who fetches it
		b.Head, b.Intake = head, 1+w.following(head, msg.Time, b.Intake-1)
	}
	return b, nil
}
