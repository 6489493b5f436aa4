package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/jobs"
)

// Was says what a cancel found.
type Was string

// What a cancel may find.
const (
	WasQueued   Was = "queued"   // the job had not begun, or waited for another attempt
	WasRunning  Was = "running"  // a worker was at it, and has stopped
	WasFinished Was = "finished" // it had ended before; nothing was changed
)

// Cancelled says what became of a job that was to be cancelled.
type Cancelled struct {
	JobID  string      `json:"job_id"`
	Was    Was         `json:"was"`
	Status jobs.Status `json:"status"` // of its result: cancelled, unless it was finished
}

// Cancel ends a job, and its replay if it has one: its result says cancelled, it is taken out of the
// queue, and a worker that is at it stops its engine. When Cancel returns, no engine call for it
// begins any more. Cancelling a job that has ended changes nothing and is no error; one that is
// unknown is of code invalid_request.
func (c *Client) Cancel(ctx context.Context, jobID string) (Cancelled, error) {
	l, err := c.locate(ctx, c.user, jobID)
	if err != nil {
		return Cancelled{}, err
	}
	if l.result != nil {
		replay, err := c.replayOf(ctx, l.result)
		if err != nil {
			return Cancelled{}, err
		}
		if replay != "" {
			return c.Cancel(ctx, replay)
		}
		return Cancelled{jobID, WasFinished, l.result.Status}, nil
	}
	if !l.pending() {
		return Cancelled{}, c.noResult(ctx, jobID, l)
	}
	ended, err := c.end(ctx, []*location{l}, jobs.Cancelled)
	if err != nil {
		return Cancelled{}, err
	}
	return ended[0], nil
}

// CancelBatch cancels all jobs of a batch that have not ended, and reports on these.
func (c *Client) CancelBatch(ctx context.Context, batch string) ([]Cancelled, error) {
	pending, err := c.pendingJobs(ctx, c.user, batch)
	if err != nil {
		return nil, err
	}
	return c.end(ctx, pending, jobs.Cancelled)
}

// expire ends a job whose deadline has passed. One that has ended meanwhile is left alone.
func (c *Client) expire(ctx context.Context, jobID string) error {
	l, err := c.locate(ctx, c.user, jobID)
	if err != nil || !l.pending() {
		return err
	}
	_, err = c.end(ctx, []*location{l}, jobs.Expired)
	return err
}

// end gives jobs their terminal record, takes them out of the queue, and tells the workers. The
// record comes first: whoever gets hold of such a job looks for it before starting or publishing anything.
// What was being published at that moment, the server refuses: a result because there is one, a hop because it is barred.
func (c *Client) end(ctx context.Context, list []*location, status jobs.Status) ([]Cancelled, error) {
	ended := make([]Cancelled, len(list))
	for i, l := range list {
		r := jobs.NewResult(l.job, status)
		r.Provenance.PromptSHA256 = l.prompt
		cause := jobs.ErrCancelled
		if status == jobs.Expired {
			cause = jobs.ErrDeadline
		}
		r.Error = &jobs.ErrorInfo{Code: cause.Code, Message: cause.Message}
		first, err := c.PublishResult(ctx, r, l.replyTo)
		if err != nil {
			return nil, fmt.Errorf("end job %s: %w", l.job.ID, err)
		}
		ended[i] = Cancelled{l.job.ID, WasQueued, status}
		if !first {
			ended[i].Was = WasFinished
			if there, err := c.result(ctx, jobs.ResultSubject(r.User, r.Batch, r.JobID)); err == nil && there != nil {
				ended[i].Status = there.Status
			}
		}
	}
	// A job that has just failed is left to who takes its message off the stream, and sees to its dead letter.
	left := func(i int) bool { return ended[i].Status == jobs.Failed }
	for i, l := range list {
		if left(i) {
			continue
		}
		if ended[i].Status != jobs.Succeeded {
			if err := c.bar(ctx, l.job.ID); err != nil {
				return nil, err
			}
		}
		if err := errors.Join(c.unqueue(ctx, StreamIntake, l.job), c.unqueue(ctx, StreamRelay, l.job)); err != nil {
			return nil, err
		}
	}
	if err := c.purge(ctx, StreamRelay, bars); err != nil {
		return nil, err
	}
	running, err := c.tell(ctx, list)
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
		if running[l.job.ID] && ended[i].Was == WasQueued {
			ended[i].Was = WasRunning
		}
	}
	return ended, nil
}

// bars are the subjects of what bars hops. No consumer reads them. Who dies before they are purged leaves them to whoever does so next.
const bars = "jobs.*.ended.*"

// bar keeps hops of a job out of the relay that are on their way now and come later, over a wire that holds them up, from a worker
// that was frozen or cut off: the server takes each Nats-Msg-Id once, and this uses up theirs.
func (c *Conn) bar(ctx context.Context, jobID string) error {
	for _, stage := range []jobs.Stage{jobs.StageDecode, jobs.StageFallback} {
		msg := &nats.Msg{Subject: "jobs." + string(stage) + ".ended." + jobID}
		err := c.persist(ctx, "bar hand-over", func(ctx context.Context) error {
			_, err := c.js.PublishMsg(ctx, msg, jetstream.WithMsgID(jobID+"."+string(stage)), jetstream.WithExpectStream(StreamRelay))
			if err == nil || !refused(err) {
				return err
			}
			if there, readErr := c.lastMsg(ctx, StreamRelay, msg.Subject); readErr == nil && there != nil {
				return nil // by another cancel
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("end job %s: %w", jobID, err)
		}
	}
	return nil
}

// unqueue takes a job out of a stream, whatever its lane. The wildcards matter: at a purge within a consumer's filter nats-server (2.15) forgets what that
// consumer was about to deliver again, and other jobs stay in the stream for ever. So the consumer counts the job as waiting until it has passed it.
func (c *Conn) unqueue(ctx context.Context, stream string, j *jobs.Job) error {
	if stream == StreamIntake {
		return c.purge(ctx, stream, jobs.AnyJobFilter(jobs.StagePrefill, j.ID))
	}
	return c.purge(ctx, stream, jobs.JobSubject("*", j.Model, "*", j.ID))
}

// tell has the workers that are at the jobs stop, and waits until they have, for a while. It returns
// those that were running.
func (c *Conn) tell(ctx context.Context, list []*location) (map[string]bool, error) {
	running := map[string]bool{}
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
	silent := map[string]bool{}
	for _, l := range list {
		silent[l.job.ID] = true
		if err := c.nc.PublishRequest(jobs.CancelSubject(l.job.ID), inbox+"."+l.job.ID, nil); err != nil {
			return nil, c.failed(ctx, err, "tell workers")
		}
	}
	limit := time.NewTimer(c.timing.CancelWait)
	defer limit.Stop()
	for len(silent) > 0 {
		select {
		case m := <-replies:
			id := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
			delete(silent, id)
			if m.Header.Get("Status") != "503" { // the server's word that nobody is at the job
				running[id] = true
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
