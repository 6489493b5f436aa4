package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/internal/tracing"
	"tandem/jobs"
)

const (
	lookLimit     = 5 * time.Minute // for NATS to say what is known about a job, before the job is left to its next delivery
	shutdownLimit = 2 * time.Second // to requeue a job when the worker has ended
)

// delivery is one message on its way through a worker.
type delivery struct {
	arrival
	w   *Worker
	log *slog.Logger

	address   protocol.Address
	job       *jobs.Job
	handover  *jobs.Handover // nil for a job of the intake in a prefill worker
	stage     jobs.Stage     // as which it runs here
	stored    time.Time      // in this stream; the server's clock, as the next one
	accepted  time.Time      // in the intake
	delivered int            // the server's count
	sequence  uint64         // of its consumer's deliveries
	attempt   int
	past      history
	timeline  timeline
	trace     *tracing.Delivery // nil before it was looked at

	reconnects uint64       // of the connection, at its arrival
	confirmed  atomic.Int64 // when the server last confirmed a sign of life; Unix time in ns

	watchdog  atomic.Pointer[stallWatchdog] // while its task is prepared or runs
	waiter    *slotWaiter                   // of a job that was fetched ahead; nil of one that had a slot at once
	ends      *nats.Subscription            // to the job's result, while it waits ahead
	uncounted bool                          // not counted as an attempt while it waits ahead
	discard   func()                        // removes what was prepared; nil if nothing was

	cancel    context.CancelCauseFunc // ends its task
	yielding  atomic.Bool             // to interactive jobs
	preempted atomic.Bool             // by one
	counted   func(handed time.Time)  // has the job counted as done with here, and as handed over unless that is zero
	slotGrant                         // its slot
}

// handle brings one delivery to an end. What goes wrong with NATS is logged and left to the next delivery, uncounted.
func (w *Worker) handle(publishing, tasks context.Context, d *delivery) {
	defer d.counted(time.Time{})
	if d.waiter != nil {
		defer d.waiter.cancel()
		defer d.waiter.remove()
	}
	if err := d.read(); err != nil {
		if err := d.deadLetterMalformed(publishing, err); err != nil {
			d.log.Error("dead-letter message that cannot be read", "error", err)
		}
		return
	}
	d.log = w.log.With("job", d.job.ID, "stage", d.stage)
	if d.misdirected() {
		d.handBack(publishing)
		return
	}
	if err := w.hold(publishing, tasks, d); errors.Is(err, errElsewhere) {
		d.log.Debug("job that waited for a slot is handed back")
		d.handBack(publishing) // last of all: it may come back here at once
	}
}

// hold sees to a delivery while it is kept.
func (w *Worker) hold(publishing, tasks context.Context, d *delivery) error {
	ctx, cancel := context.WithCancelCause(tasks)
	defer cancel(nil)
	d.cancel = cancel
	if _, twice := w.running.LoadOrStore(d.msg.Subject, d); twice {
		// The server did not hear of the first delivery for too long. That one goes on, and its
		// acknowledgement will do for both.
		d.log.Warn("job was delivered again while it is at work here")
		return nil
	}
	defer w.running.Delete(d.msg.Subject)

	stop, err := d.heartbeat(publishing, cancel)
	if err != nil {
		d.log.Warn("keep delivery", "error", err)
		return nil
	}
	defer stop()
	if d.waiter != nil {
		if err := d.watchResult(); err != nil {
			d.log.Warn("keep delivery", "error", err)
			return nil
		}
		defer d.unwatchResult()
	}
	err = d.process(publishing, ctx)
	if err != nil && !errors.Is(err, errElsewhere) {
		d.log.Warn("job is left to its next delivery", "error", err)
		d.requeueUncounted(publishing, err)
	}
	return err
}

// read makes sense of the message.
func (d *delivery) read() error {
	meta, err := d.msg.Metadata()
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	d.stored, d.delivered, d.sequence = meta.Timestamp, int(meta.NumDelivered), meta.Sequence.Consumer
	if d.address, err = protocol.ParseJobSubject(d.msg.Subject); err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "%w", err)
	}
	if d.address.Stage == jobs.StagePrefill {
		if d.job, err = jobs.Decode[jobs.Job](d.msg.Data); err != nil {
			return err
		}
		d.stage, d.accepted = jobs.StagePrefill, meta.Timestamp
		if d.w.cfg.Role == protocol.RoleDecode {
			d.takeOver()
		}
	} else {
		if d.handover, err = jobs.Decode[jobs.Handover](d.msg.Data); err != nil {
			return err
		}
		d.job, d.stage, d.accepted = &d.handover.Job, d.handover.Stage, d.handover.AcceptedAt
		if d.accepted.IsZero() {
			d.accepted = meta.Timestamp
		}
	}
	if d.job.Class == jobs.Batch {
		d.w.intake.saw(d.job.EffectivePlan())
	}
	a := d.address
	if d.job.ID != a.JobID || d.job.Model != a.Model || d.job.Class != a.Class || d.handover != nil && d.stage != a.Stage && a.Stage != jobs.StagePrefill {
		return jobs.Errorf(jobs.CodeInvalid, "the record is of job %s, model %q, class %q; its subject says otherwise", d.job.ID, d.job.Model, d.job.Class)
	}
	if a.User != d.job.User || a.Lane != 0 && a.Lane != protocol.LaneOf(a.User) {
		return jobs.Errorf(jobs.CodeInvalid, "the record is of user %q; its subject is of user %q, lane %d", d.job.User, a.User, a.Lane)
	}
	return nil
}

// takeOver makes a job of the intake one for the decode machine alone, which is what was asked for, the fastest, or
// a fallback.
func (d *delivery) takeOver() {
	d.handover = &jobs.Handover{V: jobs.Version, Stage: jobs.StageDecode, Kind: jobs.KindNone, Job: *d.job, AcceptedAt: d.accepted}
	view, _ := d.w.members.snapshot()
	switch plan := d.job.EffectivePlan(); {
	case plan == jobs.PlanLocal:
		d.handover.Decision = "local, as asked: both phases on the decode machine"
	case plan == jobs.PlanAuto && !view.noPrefill:
		d.handover.Decision = cmp.Or(d.why, "whole on the decode machine, which was free")
	default:
		d.handover.Stage, d.handover.Kind, d.handover.Reason = jobs.StageFallback, "", "there is no live prefill worker"
	}
	d.stage = d.handover.Stage
}

// misdirected reports whether a decode worker got a job of the intake that is not for it: it was not the one that it had looked at.
func (d *delivery) misdirected() bool {
	if d.why == "" || d.from.stream != StreamIntake {
		return false
	}
	plan := d.job.EffectivePlan()
	return plan != jobs.PlanAuto && plan != jobs.PlanLocal
}

// process decides what is to be done with the job, and does it. An error is of NATS, and says that the job
// needs another delivery. What a task has made waits for NATS as long as the worker lives.
func (d *delivery) process(publishing, ctx context.Context) (err error) {
	looking, cancel := context.WithTimeout(publishing, d.w.lookLimit)
	defer cancel()
	var over bool
	if err := d.w.c.retry(looking, "look up job", func(ctx context.Context) (err error) {
		over, err = d.look(ctx)
		return err
	}); err != nil {
		return err
	}
	d.log = d.log.With("attempt", d.attempt)
	if over {
		return d.finish(publishing)
	}
	d.trace = tracing.Process(publishing, tracing.Message{
		Job: d.job, Header: d.msg.Header, Stream: d.from.stream, Consumer: d.from.consumer, Stage: d.stage, Attempt: d.attempt, Worker: d.w.server(), Arrived: d.at,
	})
	defer func() { d.endTrace(err) }()
	publishing, ctx = d.trace.In(publishing), d.trace.In(ctx)
	d.log = d.log.With(tracing.Log(ctx))
	d.beginTimeline()
	if d.attempt > protocol.MaxAttempts(d.address.Stage) {
		// Whatever it does to a worker, it shall not do it again.
		d.trace.Fail(&jobs.Error{Code: jobs.CodeAttempts})
		return d.exhausted(publishing, d.attempt-1, d.past.Reason)
	}
	if !d.job.Deadline.IsZero() {
		var cancel context.CancelFunc
		left := d.job.Deadline.Sub(d.w.clock.at(time.Now()))
		ctx, cancel = context.WithTimeoutCause(ctx, left, jobs.ErrDeadline)
		defer cancel()
	}
	t := d.task()
	if d.waiter != nil && ctx.Err() == nil {
		over, err := d.ahead(publishing, ctx, t)
		if d.discard != nil {
			defer d.discard()
		}
		switch {
		case ctx.Err() != nil: // the job has ended, or the worker has
		case over:
			return d.finish(publishing)
		case err != nil:
			return err
		}
	}
	var o protocol.Outcome
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if o, err = d.run(ctx, t); err == nil {
		d.w.breaker.succeeded()
	}
	if err == nil || protocol.Classify(err) == protocol.Ended {
		d.release() // the engine is done with the job; what is left to do is ours
	}
	return d.settle(publishing, o, err)
}

// endTrace ends what a trace shows of the delivery, which NATS may have kept from its end, or another worker gets.
func (d *delivery) endTrace(err error) {
	if errors.Is(err, errElsewhere) {
		d.trace.Event(&jobs.Event{Type: jobs.EventRequeued})
		err = nil
	} else if err != nil {
		err = &jobs.Error{Code: jobs.CodeNATS}
	}
	d.trace.End(err)
}

// look finds out whether the job has ended or moved on already, and which attempt this is. The result
// is looked for after the worker has begun to listen for a cancel, which publishes one first.
func (d *delivery) look(ctx context.Context) (over bool, err error) {
	d.attempt = 1
	if d.delivered == 1 { // it was in its stream a moment ago
		return d.hasResult(ctx)
	}
	if over, err = d.ended(ctx); over || err != nil {
		return over, err
	}
	if d.past, _, err = d.w.c.readHistory(ctx, d.historyKey()); err != nil {
		return false, err
	}
	if d.unseen() {
		if err := d.recordUncountedRedelivery(ctx); err != nil {
			return false, err
		}
		d.past.HandBacks++
	}
	d.attempt = d.past.attempt(d.delivered)
	if d.address.Stage != jobs.StagePrefill {
		return false, nil
	}
	for _, stage := range []jobs.Stage{jobs.StageDecode, jobs.StageFallback} {
		there, err := d.w.c.lastMsg(ctx, StreamRelay, protocol.SubjectOf(d.job, stage))
		if there != nil || err != nil {
			return there != nil, err
		}
	}
	return d.ended(ctx) // it may have passed through the relay between the two looks
}

// unseen reports whether the delivery before this one, the first, reached nobody, though the server counts it: the worker had
// withdrawn its pull at that moment. Who had it would have said why it comes again, or the server would have waited for that.
func (d *delivery) unseen() bool {
	return d.delivered == 2 && d.past.empty() && d.w.clock.since(d.stored, d.at) < d.w.c.timing.AckWait
}

// ended reports whether nothing is left to be done: the job has its result, or its message is gone from the
// stream. A purge takes both, so a job that lost its message must not come back to life.
func (d *delivery) ended(ctx context.Context) (bool, error) {
	if over, err := d.hasResult(ctx); over || err != nil {
		return over, err
	}
	return d.isGone(ctx)
}

// hasResult reports whether the job has its terminal record.
func (d *delivery) hasResult(ctx context.Context) (bool, error) {
	there, err := d.w.c.lastMsg(ctx, StreamResults, protocol.ResultSubject(d.job.User, d.job.Batch, d.job.ID))
	return there != nil, err
}

// isGone reports whether the job's message is not in its stream any more.
func (d *delivery) isGone(ctx context.Context) (bool, error) {
	stream, err := d.w.c.stream(ctx, d.from.stream)
	if err != nil {
		return false, err
	}
	// The record itself may be large and the link slow, so the server is only asked whether it is there.
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(d.msg.Subject))
	if err != nil || len(info.State.Subjects) > 0 {
		return false, err
	}
	d.log.Warn("job is dropped: it was purged, or another worker has moved it on")
	return true, nil
}

// task is what the stages get of the delivery.
func (d *delivery) task() *protocol.Task {
	waited, transfer := d.w.clock.since(d.stored, d.at), time.Duration(0)
	if d.delivered == 1 { // else it waited for another reason
		transfer = min(waited, d.at.Sub(d.asked))
	}
	patient := func(f func(*stallWatchdog)) {
		if p := d.watchdog.Load(); p != nil {
			f(p)
		}
	}
	return &protocol.Task{
		Stage: d.stage, Job: d.job, Handover: d.handover, Attempt: d.attempt,
		Waited: waited, Transfer: transfer, Intake: d.address.Stage == jobs.StagePrefill, Redelivered: d.delivered > 1,
		Progress:      func() { patient(func(p *stallWatchdog) { p.progress(time.Now()) }) },
		Expect:        func(silence time.Duration) { patient(func(p *stallWatchdog) { p.expect(silence, time.Now()) }) },
		Yields:        d.yields,
		Event:         d.event,
		Backlog:       func(ctx context.Context) protocol.Backlog { return d.w.intake.behind(ctx, d) },
		SinceAccepted: func() time.Duration { return d.w.clock.since(d.accepted, time.Now()) },
	}
}

// run has the task done.
func (d *delivery) run(ctx context.Context, t *protocol.Task) (o protocol.Outcome, err error) {
	d.watchdog.Store(newStallWatchdog(d.w.cfg.StallLimit, time.Now()))
	defer d.watchdog.Store(nil)
	text := d.emitter()
	defer text.done()
	t.Emit = text.emit
	defer d.yielding.Store(false) // there is nothing to give way with any more
	start := time.Now()
	d.trace.Runs()
	o, err = d.call(ctx, t)
	switch {
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil && (o.Next == nil) == (o.Result == nil):
		err = jobs.Errorf(jobs.CodePanic, "the stage returned neither a hop nor a result, or both")
	case o.Result != nil:
		times := &o.Result.Timings
		queued := &times.QueueDecodeSeconds
		if d.stage == jobs.StagePrefill { // which did the whole request
			queued = &times.QueuePrefillSeconds
		}
		*queued = cmp.Or(*queued, t.Waited.Seconds())
		times.TotalSeconds = cmp.Or(times.TotalSeconds, t.SinceAccepted().Seconds())
	}
	d.trace.Ran(o.Result, err)
	if d.w.cfg.Observe != nil {
		d.w.cfg.Observe.Task(t, time.Since(start), o, err)
	}
	return o, err
}

// call calls Run and makes a panic an error. The value of a panic may hold a student's text, so only
// its type is told, except for the runtime's own.
func (d *delivery) call(ctx context.Context, t *protocol.Task) (o protocol.Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			o, err = protocol.Outcome{}, d.panicked(v)
		}
	}()
	return d.w.cfg.Run(ctx, t)
}

// panicked logs a panic of a stage.
func (d *delivery) panicked(v any) error {
	what := fmt.Sprintf("%T", v)
	if e, ok := v.(runtime.Error); ok {
		what = e.Error()
	}
	d.log.Error("panic", "panic", what, "stack", string(debug.Stack()))
	return jobs.Errorf(jobs.CodePanic, "panic in stage %s: %s; the worker's log has the stack", d.stage, what)
}

// deadLetterMalformed gives up a message that cannot be read. Nobody can be told for sure, but if it says
// whose it was, he is, and first, as in fail.
func (d *delivery) deadLetterMalformed(ctx context.Context, cause error) error {
	role, model, _, _ := protocol.ModelOfConsumer(d.from.consumer)
	token := d.msg.Subject[strings.LastIndexByte(d.msg.Subject, '.')+1:]
	model, stage := cmp.Or(model, d.w.cfg.Model), cmp.Or(d.address.Stage, role, d.w.cfg.Role)
	d.w.log.Error("message cannot be read; it becomes a dead letter", "subject", d.msg.Subject, "error", cause)
	type owner struct{ User, Batch string }
	var record struct {
		owner
		Job owner
	}
	_ = json.Unmarshal(d.msg.Data, &record) // as far as it goes
	j := &jobs.Job{ID: d.address.JobID, User: cmp.Or(d.address.User, record.User, record.Job.User), Batch: cmp.Or(record.Batch, record.Job.Batch), Model: model}
	if max(len(j.User), len(j.Batch)) > jobs.MaxName { // nobody's names, and perhaps more than a message may hold
		j.User, j.Batch = "", ""
	}
	if j.ID != "" && j.User != "" && j.Batch != "" {
		r := jobs.NewResult(j, jobs.Failed)
		r.Error = &jobs.ErrorInfo{Code: jobs.CodeInvalid, Stage: stage, Message: cause.Error()}
		other, err := d.reportToOwner(ctx, j, r)
		if err != nil {
			d.w.log.Warn("tell the owner of a message that cannot be read", "subject", d.msg.Subject, "error", err)
		}
		if other != "" {
			d.w.log.Warn("no dead letter: the job has ended otherwise", "subject", d.msg.Subject, "status", other)
			return d.term(ctx)
		}
	}
	err := d.w.c.PublishDeadLetter(ctx, stage, model, token, DeadLetter{
		Code: jobs.CodeInvalid, Message: cause.Error(), User: j.User, Batch: j.Batch, Attempts: d.delivered,
		Worker: d.w.server(), FailedAt: d.w.clock.at(time.Now()), Raw: d.msg.Data,
	})
	if err != nil {
		return err
	}
	return d.term(ctx)
}

// reportToOwner publishes the failed result of a job whose message cannot be read. Otherwise is how the job has ended already, if it
// did not fail.
func (d *delivery) reportToOwner(ctx context.Context, j *jobs.Job, r *jobs.Result) (otherwise jobs.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.w.lookLimit)
	defer cancel()
	first, err := d.w.c.publishResult(ctx, j, r, d.msg.Header.Get(protocol.HeaderReplyTo))
	if first || err != nil {
		return "", err
	}
	err = d.w.c.retry(ctx, "look up result", func(ctx context.Context) error {
		end, err := d.w.c.terminal(ctx, j)
		if end != nil && end.Status != jobs.Failed {
			otherwise = end.Status
		}
		return err
	})
	return otherwise, err
}

// term takes a message off the stream that cannot be read.
func (d *delivery) term(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	return d.sendAck(ctx, "+TERM it cannot be read")
}

// acknowledge takes the message off the stream. An answer may never come, when the server has lost
// track of this delivery; then there is another one, which will find the work done.
func (d *delivery) acknowledge(ctx context.Context) error {
	d.release() // at the latest
	ctx, cancel := context.WithTimeout(ctx, 2*tryLimit)
	defer cancel()
	return d.w.c.retry(ctx, "acknowledge job", func(ctx context.Context) error { return d.sendAck(ctx, "+ACK") })
}

// sendAck sends an acknowledgement of any kind and waits until the server has it. A server without the
// consumer has nothing to acknowledge; on a cluster that has no leader for it at the moment there is another delivery, which finds the work done.
func (d *delivery) sendAck(ctx context.Context, what string) error {
	_, err := d.w.c.nc.RequestWithContext(ctx, d.msg.Reply, []byte(what))
	if errors.Is(err, nats.ErrNoResponders) {
		return nil
	}
	return err
}
