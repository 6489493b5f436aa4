package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// cancelJob ends a user's job, and its replay if it has one. If before is given, one that was stored later is left alone.
func (c *Conn) cancelJob(ctx context.Context, user, jobID string, before time.Time) (ended, error) {
	l, err := c.locate(ctx, user, jobID)
	if err != nil {
		return ended{}, err
	}
	if l.result != nil {
		replay, err := c.replayOf(ctx, l.result)
		if err != nil {
			return ended{}, err
		}
		if replay != "" {
			return c.cancelJob(ctx, user, replay, before)
		}
		r := l.result
		if r.Status != jobs.Cancelled && r.Status != jobs.Expired {
			return ended{Jobs: []jobs.Cancellation{{JobID: jobID, Was: jobs.PriorFinished, Status: r.Status}}}, nil
		}
		l.job = &jobs.Job{V: jobs.Version, ID: r.JobID, User: r.User, Batch: r.Batch, Model: r.Model} // who ended it may have died before all was done
	}
	if !l.pending() {
		return ended{}, c.noResult(user, jobID, l.place)
	}
	if l.later(before) {
		return ended{}, nil
	}
	list, err := c.end(ctx, []*location{l}, jobs.Cancelled, jobs.ErrCancelled)
	return ended{Jobs: list}, err
}

// cancelBatch ends the jobs of a batch, or as many as it can in a while. If before is given, those that were stored later are left alone.
func (c *Conn) cancelBatch(ctx context.Context, user, batch string, before time.Time) (e ended, err error) {
	pending, err := c.pendingJobs(ctx, user, batch)
	if err != nil {
		return e, err
	}
	pending = slices.DeleteFunc(pending, func(l *location) bool { return l.later(before) })
	began := time.Now()
	for some := range slices.Chunk(pending, endAtOnce) {
		if e.More = time.Since(began) > controlBudget; e.More {
			return e, nil
		}
		list, err := c.end(ctx, some, jobs.Cancelled, jobs.ErrCancelled)
		e.Jobs = append(e.Jobs, list...)
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

// endAtOnce is how many jobs of a batch are ended together: the workers that run some of them are waited for at once.
const endAtOnce = 200

// expire ends those of a user's jobs whose deadlines have passed, by the server's clock. Those that have ended meanwhile are left alone.
func (c *Conn) expire(ctx context.Context, user string, ids []string) (e ended, err error) {
	now, err := c.serverTime(ctx)
	if err != nil {
		return e, err
	}
	var late []*location
	for _, id := range ids {
		l, err := c.locate(ctx, user, id)
		if err != nil {
			return e, err
		}
		if l.pending() && !l.job.Deadline.IsZero() && l.job.Deadline.Before(now.Add(-c.timing.DeadlineGrace)) {
			late = append(late, l)
		}
	}
	e.Jobs, err = c.end(ctx, late, jobs.Expired, jobs.ErrDeadline)
	return e, err
}

// end gives jobs their terminal record, takes them out of the queue, and tells the workers. The
// record comes first: whoever gets hold of such a job looks for it before starting or publishing anything.
// What was being published at that moment, the server refuses: a result because there is one, a hop because it is barred.
func (c *Conn) end(ctx context.Context, list []*location, status jobs.Status, cause *jobs.Error) ([]jobs.Cancellation, error) {
	ended := make([]jobs.Cancellation, len(list))
	for i, l := range list {
		r := jobs.NewResult(l.job, status)
		r.Provenance.PromptSHA256 = l.prompt
		r.Error = &jobs.ErrorInfo{Code: cause.Code, Message: cause.Message}
		first, err := c.publishResult(ctx, l.job, r, l.replyTo)
		if err != nil {
			return nil, fmt.Errorf("end job %s: %w", l.job.ID, err)
		}
		ended[i] = jobs.Cancellation{JobID: l.job.ID, Was: jobs.PriorQueued, Status: status}
		if !first {
			ended[i].Was = jobs.PriorFinished
			if there, err := c.result(ctx, protocol.ResultSubject(r.User, r.Batch, r.JobID)); err == nil && there != nil {
				ended[i].Status = there.Status
			}
		}
	}
	// A job that has just failed otherwise is left to who takes its message off the stream, and sees to its dead letter.
	left := func(i int) bool { return ended[i].Status == jobs.Failed && ended[i].Was == jobs.PriorFinished }
	for i, l := range list {
		if left(i) {
			continue
		}
		if ended[i].Status != jobs.Succeeded {
			if err := c.blockHops(ctx, l.job); err != nil {
				return nil, err
			}
		}
		if err := errors.Join(c.unqueue(ctx, StreamIntake, l.job), c.unqueue(ctx, StreamRelay, l.job)); err != nil {
			return nil, err
		}
	}
	if err := c.purge(ctx, StreamRelay, blockedHops); err != nil {
		return nil, err
	}
	running, err := c.stopRunning(ctx, list)
	if err != nil {
		return nil, err
	}
	for i, l := range list {
		if left(i) {
			continue
		}
		if err := c.unqueue(ctx, StreamRelay, l.job); err != nil { // a server that was started again has forgotten the bar
			return nil, err
		}
		if running[i] && ended[i].Was == jobs.PriorQueued {
			ended[i].Was = jobs.PriorRunning
		}
	}
	return ended, nil
}

// blockedHops are the subjects of what bars hops. No consumer reads them. Who dies before they are purged leaves them to whoever does so next.
const blockedHops = "jobs.*.ended.*.*"

// blockHops keeps hops of a job out of the relay that are on their way now and come later, over a wire that holds them up, from a worker
// that was frozen or cut off: the server takes each Nats-Msg-Id once, and this uses up theirs.
func (c *Conn) blockHops(ctx context.Context, j *jobs.Job) error {
	for _, stage := range []jobs.Stage{jobs.StageDecode, jobs.StageFallback} {
		msg := &nats.Msg{Subject: "jobs." + string(stage) + ".ended." + jobs.EncodeToken(j.User) + "." + j.ID}
		err := c.retry(ctx, "bar hand-over", func(ctx context.Context) error {
			_, err := c.js.PublishMsg(ctx, msg, jetstream.WithMsgID(messageID(j, stage)), jetstream.WithExpectStream(StreamRelay))
			if err == nil || !refused(err) {
				return err
			}
			if there, readErr := c.lastMsg(ctx, StreamRelay, msg.Subject); readErr == nil && there != nil {
				return nil // by another cancel
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("end job %s: %w", j.ID, err)
		}
	}
	return nil
}

// unqueue takes a job out of a stream, whatever its lane. The wildcards matter: at a purge within a consumer's filter nats-server (2.15) forgets what that
// consumer was about to deliver again, and other jobs stay in the stream for ever. So the consumer counts the job as waiting until it has passed it.
func (c *Conn) unqueue(ctx context.Context, stream string, j *jobs.Job) error {
	return c.purge(ctx, stream, protocol.AnyJobFilter("*", j.User, j.ID))
}

// stopRunning has the workers that are at the jobs stop, and waits until they have, for a while. It returns
// those that were running, by their places in the list: ids may be the same.
func (c *Conn) stopRunning(ctx context.Context, list []*location) (map[int]bool, error) {
	running := map[int]bool{}
	if len(list) == 0 {
		return running, nil
	}
	inbox := c.nc.NewInbox()
	replies := make(chan *nats.Msg, 2*len(list))
	sub, err := c.nc.ChanSubscribe(inbox+".*", replies)
	if err != nil {
		return nil, c.failed(ctx, err, "tell workers")
	}
	defer func() { _ = sub.Unsubscribe() }()
	silent := map[int]bool{}
	for i, l := range list {
		silent[i] = true
		if err := c.nc.PublishRequest(protocol.CancelSubject(l.job.User, l.job.ID), inbox+"."+strconv.Itoa(i), nil); err != nil {
			return nil, c.failed(ctx, err, "tell workers")
		}
	}
	limit := time.NewTimer(c.timing.CancelWait)
	defer limit.Stop()
	for len(silent) > 0 {
		select {
		case m := <-replies:
			i, err := strconv.Atoi(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
			if err != nil {
				continue // somebody else's
			}
			delete(silent, i)
			if m.Header.Get("Status") != "503" { // the server's word that nobody is at the job
				running[i] = true
			}
		case <-limit.C:
			maps.Copy(running, silent) // told, and still stopping
			return running, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return running, nil
}
