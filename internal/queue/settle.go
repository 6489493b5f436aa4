package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// settle makes records of what became of a task, and only then acknowledges the message. It
// tells the stage what became of its outcome.
func (d *delivery) settle(ctx context.Context, o protocol.Outcome, err error) error {
	published := false
	defer func() {
		if o.Settled != nil {
			o.Settled(published)
		}
	}()
	if over, err := d.over(ctx, o, err); err != nil {
		return err
	} else if over {
		return d.finish(ctx)
	}
	if err == nil {
		first, handed := true, time.Time{}
		if o.Next != nil {
			handed = time.Now()
			err = d.hop(ctx, o.Next)
		} else {
			d.endTimeline(o.Result)
			first, err = d.w.c.publishResult(ctx, d.job, o.Result, d.replyTo())
		}
		if err == nil {
			published = first
			d.counted(handed) // before anybody counts again what is at decode
			d.crashPoint()
			if !first {
				return d.finish(ctx)
			}
			return d.acknowledge(ctx)
		}
		if _, ours := errors.AsType[*jobs.Error](err); !ours {
			return err // of NATS
		}
	}

	class := protocol.Classify(err)
	d.trace.Fail(err)
	d.log.Warn("task failed", "code", jobs.CodeOf(err), "error", err, "then", class.String())
	switch class {
	case protocol.Ended:
		return d.end(ctx, err)
	case protocol.Permanent:
		return d.fail(ctx, d.attempt, err)
	case protocol.HandBack:
		return d.requeue(ctx, jobs.EventRequeued, err, func(h *history) { h.HandBacks++ })
	}
	last := d.attempt >= protocol.MaxAttempts(d.address.Stage)
	d.w.failed(err, !last || protocol.Exhausted(d.address.Stage) != "")
	if last {
		return d.exhausted(ctx, d.attempt, err.Error())
	}
	return d.requeue(ctx, jobs.EventRetried, err, func(h *history) { h.Reason = err.Error() })
}

// requeue has the job delivered again, and says why.
func (d *delivery) requeue(ctx context.Context, what jobs.EventType, cause error, change func(*history)) error {
	e := d.stamp(jobs.Event{Type: what, Code: jobs.CodeOf(cause), Why: cause.Error()})
	if err := d.change(ctx, func(h *history) {
		change(h)
		h.Timeline = d.timeline.all()
	}); err != nil {
		return err
	}
	d.w.publishEvent(e)
	d.nakWithDelay(ctx, protocol.RetryDelay(protocol.Classify(cause), d.attempt))
	return nil
}

// requeueUncounted requeues a delivery that NATS has kept from its end, and counts it as no attempt. That waits for NATS as
// long as the worker lives, and has little time afterwards.
func (d *delivery) requeueUncounted(ctx context.Context, cause error) {
	d.release() // nothing runs any more
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), shutdownLimit)
		defer cancel()
	}
	lost := &jobs.Error{Code: jobs.CodeNATS, Message: cause.Error()} // which is of the class hand back
	if err := d.requeue(ctx, jobs.EventRequeued, lost, func(h *history) { h.HandBacks, h.Reason = h.HandBacks+1, cause.Error() }); err != nil {
		d.log.Error("record that this delivery is no attempt; it counts as one", "error", err)
	}
}

// over reports, after the task, whether the job has ended or was purged meanwhile, so that nothing more may
// be published for it. Who purges a job asks the worker first and waits for its answer, so for a task that
// was not cancelled the costly look for the message is needed only if that may have gone unheard; and a result is refused where there is one.
func (d *delivery) over(ctx context.Context, o protocol.Outcome, failed error) (over bool, err error) {
	heard := failed == nil && d.w.c.nc.Stats().Reconnects == d.reconnects
	if heard && o.Result != nil {
		return false, nil
	}
	err = d.w.c.retry(ctx, "look up job", func(ctx context.Context) (err error) {
		over, err = d.hasResult(ctx)
		if over || err != nil || heard {
			return err
		}
		over, err = d.isGone(ctx)
		return err
	})
	return over, err
}

// hop hands the job over to its next stage.
func (d *delivery) hop(ctx context.Context, h *jobs.Handover) error {
	h.AcceptedAt = d.accepted
	e := jobs.Event{Type: jobs.EventOffered}
	if h.Stage == jobs.StageFallback {
		e.Type, e.Why = jobs.EventFellBack, h.Reason
	}
	published := d.stamp(e)
	h.Timeline = d.timeline.all()
	err := d.w.c.publishHop(ctx, h, d.replyTo())
	if err == nil {
		d.w.publishEvent(published)
	}
	return err
}

// exhausted takes a job out of a stage that failed so often: from prefill to fallback, from there to
// the dead letters.
func (d *delivery) exhausted(ctx context.Context, attempts int, reason string) error {
	next := protocol.Exhausted(d.address.Stage)
	if next == "" {
		return d.fail(ctx, attempts, jobs.Errorf(jobs.CodeAttempts, "%d attempts failed, the last one because: %s",
			attempts, cmp.Or(reason, "the worker was lost while the job ran")))
	}
	why := "prefill failed twice"
	if d.stage != jobs.StagePrefill {
		why = fmt.Sprintf("there is no live prefill worker, and the job failed %d times", attempts)
	}
	if reason != "" {
		why += ", at last because: " + reason
	}
	d.log.Warn("job goes to fallback", "reason", why)
	err := d.hop(ctx, &jobs.Handover{V: jobs.Version, Stage: next, Job: *d.job, Reason: why, Attempts: attempts})
	if err != nil {
		return err
	}
	return d.acknowledge(ctx)
}

// fail gives the job up: a failed result for the caller, a dead letter for the operator. The result comes first, since the
// server takes one only: where it took another's, such as the success of a worker that was frozen meanwhile, there is nothing
// to dead-letter. Who dies in between leaves the message, and its next delivery does it.
func (d *delivery) fail(ctx context.Context, attempts int, cause error) error {
	d.log.Error("job fails for good", "attempts", attempts, "code", jobs.CodeOf(cause), "error", cause)
	return d.publishEnd(ctx, jobs.Failed, attempts, cause)
}

// finish acknowledges the message of a job that has ended already, here or elsewhere. Whoever takes off the message of one
// that failed sees to its dead letter, and of one that was cancelled or has expired to its hops that may still be under way from
// a worker that was frozen or cut off: who published the result may have died before.
func (d *delivery) finish(ctx context.Context) error {
	var end *jobs.Result
	if err := d.w.c.retry(ctx, "look up result", func(ctx context.Context) (err error) {
		end, err = d.w.c.terminal(ctx, d.job)
		return err
	}); err != nil {
		return err
	}
	switch {
	case end == nil, end.Status == jobs.Succeeded:
	case end.Status == jobs.Failed:
		if err := d.deadLetter(ctx, end); err != nil {
			return err
		}
	default:
		if err := d.w.c.blockHops(ctx, d.job); err != nil {
			return err
		}
		if err := d.w.c.purge(ctx, StreamRelay, blockedHops); err != nil {
			return err
		}
	}
	return d.acknowledge(ctx)
}

// deadLetter has the dead letter of a failed job written, unless it is there already. It is made of the result, whoever published
// that, so that all who do it agree.
func (d *delivery) deadLetter(ctx context.Context, end *jobs.Result) error {
	stage := end.Error.Stage
	letter := DeadLetter{
		Code: end.Error.Code, Message: end.Error.Message, Job: *d.job, Attempts: end.Attempts.Decode,
		Worker: cmp.Or(end.Servers.Decode, d.w.server()), FailedAt: d.w.clock.at(time.Now()),
	}
	switch stage {
	case jobs.StagePrefill:
		letter.Attempts = end.Attempts.Prefill
	case jobs.StageDecode, jobs.StageFallback:
	default: // a result that no worker of ours wrote
		stage = d.stage
	}
	if stage == d.stage {
		letter.Handover = d.handover
	}
	return d.w.c.PublishDeadLetter(ctx, stage, d.job.Model, d.job.ID, letter)
}

// crashPoint is where tests break things: a record is published, and what follows from it is still to be done.
func (d *delivery) crashPoint() {
	if d.w.published != nil {
		d.w.published(d.job.ID)
	}
}

// end publishes the terminal record that an expired job may not have yet. Who cancels a job publishes its
// record first, so that for a cancelled one there is nothing to do here, unless they forgot.
func (d *delivery) end(ctx context.Context, cause error) error {
	status := jobs.Expired
	if jobs.CodeOf(cause) == jobs.CodeCancelled {
		status = jobs.Cancelled
	}
	return d.publishEnd(ctx, status, d.attempt, cause)
}

// publishEnd publishes the result of a job that did not succeed, unless it has one, and brings the message to its end.
func (d *delivery) publishEnd(ctx context.Context, status jobs.Status, attempts int, cause error) error {
	r := jobs.NewResult(d.job, status)
	r.Error = &jobs.ErrorInfo{Code: jobs.CodeOf(cause), Stage: d.stage, Message: cause.Error()}
	r.Attempts.Decode = attempts
	r.Timings.TotalSeconds = d.w.clock.since(d.accepted, time.Now()).Seconds()
	if d.stage == jobs.StagePrefill {
		r.Attempts = jobs.Attempts{Prefill: attempts}
	} else if d.handover != nil {
		r.Attempts.Prefill, r.Decision = d.handover.Attempts, d.handover.Decision
		r.Servers.Decode = d.w.server()
		if p := d.handover.Prefill; p != nil {
			r.Servers.Prefill = p.Server
		}
	}
	d.endTimeline(r)
	if _, err := d.w.c.publishResult(ctx, d.job, r, d.replyTo()); err != nil {
		return fmt.Errorf("end job: %w", err)
	}
	d.crashPoint()
	return d.finish(ctx)
}

// nakWithDelay has the server deliver the message once more after delay. If that fails, it does so on its own when it
// misses our signs of life.
func (d *delivery) nakWithDelay(ctx context.Context, delay time.Duration) {
	d.release()
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	if err := d.sendAck(ctx, fmt.Sprintf(`-NAK {"delay":%d}`, delay)); err != nil {
		d.log.Warn("ask for another delivery", "error", err)
	}
}

// recordUncountedRedelivery records that this delivery is no attempt.
func (d *delivery) recordUncountedRedelivery(ctx context.Context) error {
	return d.change(ctx, func(h *history) { h.HandBacks++ })
}

func (d *delivery) change(ctx context.Context, change func(*history)) error {
	return d.w.c.retry(ctx, "record hand-back", func(ctx context.Context) error {
		return d.w.c.changeHistory(ctx, d.w.handbacks, d.historyKey(), change)
	})
}

func (d *delivery) historyKey() string {
	return historyKey(d.address.Stage, d.address.User, d.address.JobID)
}

func (d *delivery) replyTo() string { return d.msg.Header.Get(protocol.HeaderReplyTo) }

// handBack gives the message to whoever asks next, uncounted: there is no slot for it here.
func (d *delivery) handBack(ctx context.Context) {
	var err error
	if d.address, err = protocol.ParseJobSubject(d.msg.Subject); err == nil && !d.uncounted {
		err = d.recordUncountedRedelivery(ctx)
	}
	if err != nil {
		d.log.Warn("hand back job", "error", err)
		return
	}
	if d.job != nil { // else nobody has looked at it
		d.event(jobs.Event{Type: jobs.EventRequeued, Why: "it may begin sooner at another worker"})
	}
	d.nakWithDelay(ctx, 0)
}
