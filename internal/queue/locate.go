package queue

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/jobs"
)

// Place says where a job is.
type Place string

// The places of a job.
const (
	PlaceIntake   Place = "waiting for prefill"
	PlacePrefill  Place = "at a prefill worker, or waiting for another attempt"
	PlaceRelay    Place = "waiting for decode"
	PlaceDecode   Place = "at a decode worker, or waiting for another attempt"
	PlaceFinished Place = "finished"
	PlaceDead     Place = "in the dead-letter stream"
	PlaceUnknown  Place = "unknown"
)

// location is a job as it was found.
type location struct {
	place   Place
	job     *jobs.Job    // while it waits or runs
	prompt  string       // the SHA-256 of its prompt
	result  *jobs.Result // when it is finished
	replyTo string       // inbox that gets a copy of the result
	msg     *jetstream.RawStreamMsg
}

// pending reports whether the job has still to end.
func (l *location) pending() bool { return l.job != nil }

// locate finds a user's job, whatever its batch. A job moves from the intake to the relay to the results, and is
// put at the next place before it leaves the last; so looking in that order never misses one.
func (c *Conn) locate(ctx context.Context, user, jobID string) (*location, error) {
	if err := checkToken(jobID); err != nil {
		return nil, err
	}
	for _, at := range []struct{ stream, subject string }{
		{StreamIntake, jobs.AnyJobFilter(jobs.StagePrefill, jobID)},
		{StreamRelay, jobs.AnyJobFilter("*", jobID)},
	} {
		msg, err := c.lastMsg(ctx, at.stream, at.subject)
		if err != nil {
			return nil, err
		}
		if msg == nil {
			continue
		}
		l, err := pendingAt(at.stream, msg)
		if err == nil && l.job.User != user {
			return &location{place: PlaceUnknown}, nil
		}
		return l, err
	}
	r, err := c.result(ctx, anyResult(user, jobID))
	if err != nil {
		return nil, err
	}
	if r != nil {
		return &location{place: PlaceFinished, result: r}, nil
	}
	letter, err := c.lastMsg(ctx, StreamDLQ, anyLetter(jobID))
	if err != nil {
		return nil, err
	}
	if letter != nil {
		return &location{place: PlaceDead, msg: letter}, nil
	}
	return &location{place: PlaceUnknown}, nil
}

// anyResult matches the result of a job, whatever its batch.
func anyResult(user, jobID string) string {
	return "results." + jobs.EncodeToken(user) + ".*." + jobID
}

// anyLetter matches the dead letter of a job, whatever its stage and model.
func anyLetter(jobID string) string { return "dlq.*.*." + jobID }

// pendingAt reads the record of a job that waits or runs.
func pendingAt(stream string, msg *jetstream.RawStreamMsg) (*location, error) {
	l := &location{place: PlaceIntake, msg: msg, replyTo: msg.Header.Get(jobs.HeaderReplyTo)}
	var err error
	if stream == StreamIntake {
		l.job, err = jobs.Decode[jobs.Job](msg.Data)
	} else {
		var h *jobs.Handover
		if h, err = jobs.Decode[jobs.Handover](msg.Data); err == nil {
			l.place, l.job = PlaceRelay, &h.Job
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read record at %s: %w", msg.Subject, err)
	}
	if !strings.HasSuffix(msg.Subject, "."+l.job.ID) {
		return nil, jobs.Errorf(jobs.CodeInvalid, "record at %s is of another job: %s", msg.Subject, l.job.ID)
	}
	l.prompt = l.job.PromptSHA256()
	return l, nil
}

// whereabouts is the place of a located job, telling waiting from running: a message below the mark
// of what its consumer has delivered is at a worker, or will be delivered again.
func (c *Conn) whereabouts(ctx context.Context, l *location) Place {
	if !l.pending() {
		return l.place
	}
	stream, role, running := StreamIntake, jobs.RolePrefill, PlacePrefill
	if l.place == PlaceRelay {
		stream, role, running = StreamRelay, jobs.RoleDecode, PlaceDecode
	}
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	at, err := jobs.ParseJobSubject(l.msg.Subject)
	if err != nil {
		return l.place
	}
	consumer, err := c.js.Consumer(ctx, stream, jobs.ConsumerName(role, at.Model, at.Token()))
	if err == nil && consumer.CachedInfo().Delivered.Stream >= l.msg.Sequence {
		return running
	}
	return l.place
}

// result reads the result at a subject, nil if there is none.
func (c *Conn) result(ctx context.Context, subject string) (*jobs.Result, error) {
	msg, err := c.lastMsg(ctx, StreamResults, subject)
	if err != nil || msg == nil {
		return nil, err
	}
	r, err := jobs.Decode[jobs.Result](msg.Data)
	if err != nil {
		return nil, fmt.Errorf("read result at %s: %w", msg.Subject, err)
	}
	return r, nil
}

// scan reads the messages of a stream that match a filter, in order. A work queue can be read so,
// too, without disturbing its consumers.
func (c *Conn) scan(ctx context.Context, stream, filter string) iter.Seq2[*jetstream.RawStreamMsg, error] {
	return func(yield func(*jetstream.RawStreamMsg, error) bool) {
		for seq := uint64(1); ; {
			msg, err := c.ofLeader(ctx, stream, msgGet{Seq: seq, NextFor: filter})
			if msg == nil && err == nil || !yield(msg, err) || err != nil {
				return
			}
			seq = msg.Sequence + 1
		}
	}
}

// pendingJobs finds the jobs of a batch that have still to end. Records that cannot be read are
// left to the workers, which bury them. The queue may hold gigabytes, so no text is kept.
func (c *Conn) pendingJobs(ctx context.Context, user, batch string) ([]*location, error) {
	var found []*location
	seen := map[string]bool{}
	for _, stream := range []string{StreamIntake, StreamRelay} { // in the order in which jobs move
		for msg, err := range c.scan(ctx, stream, "jobs.>") {
			if err != nil {
				return nil, err
			}
			l, err := pendingAt(stream, msg)
			if err != nil || l.job.User != user || l.job.Batch != batch || seen[l.job.ID] {
				continue
			}
			seen[l.job.ID] = true
			j := l.job
			l.msg, l.job = nil, &jobs.Job{
				V: j.V, ID: j.ID, User: j.User, Batch: j.Batch, CustomID: j.CustomID, Class: j.Class, Model: j.Model,
				Labels: j.Labels, ReplayOf: j.ReplayOf,
			}
			found = append(found, l)
		}
	}
	return found, nil
}
