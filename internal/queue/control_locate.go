package queue

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
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
	stored  time.Time    // when the job was accepted
	msg     *jetstream.RawStreamMsg
}

// later reports whether the job was accepted after t, if that is given.
func (l *location) later(t time.Time) bool { return !t.IsZero() && l.stored.After(t) }

// pending reports whether the job has still to end.
func (l *location) pending() bool { return l.job != nil }

// Found says where a job is.
type Found struct {
	JobID    string    `json:"job_id"`
	Place    Place     `json:"place"`
	Batch    string    `json:"batch,omitempty"`   // while the job waits or runs
	Model    string    `json:"model,omitempty"`   // likewise
	Deadline time.Time `json:"deadline,omitzero"` // likewise, if it has one
}

// pending reports whether the job has still to end.
func (f Found) pending() bool { return f.Model != "" }

// foundJobs is where several jobs are.
type foundJobs struct {
	Jobs []Found   `json:"jobs"`
	Now  time.Time `json:"now"` // by the server's clock
}

// find says where a user's jobs are. Brief is what can be told without reading the jobs, which may have megabytes: where each is, without telling waiting from
// running, and for which model.
func (c *Conn) find(ctx context.Context, user string, ids []string, brief bool) (list foundJobs, err error) {
	if len(ids) > awaitBatch {
		return list, jobs.Errorf(jobs.CodeInvalid, "jobs has %d ids; want at most %d", len(ids), awaitBatch)
	}
	look := c.findWhole
	if brief {
		look = c.findBrief
	}
	for _, id := range ids {
		f, err := look(ctx, user, id)
		if err != nil {
			return list, err
		}
		list.Jobs = append(list.Jobs, f)
	}
	list.Now, err = c.serverTime(ctx)
	return list, err
}

func (c *Conn) findWhole(ctx context.Context, user, jobID string) (Found, error) {
	l, err := c.locate(ctx, user, jobID)
	if err != nil {
		return Found{}, err
	}
	f := Found{JobID: jobID, Place: c.whereabouts(ctx, l)}
	if l.pending() {
		f.Batch, f.Model, f.Deadline = l.job.Batch, l.job.Model, l.job.Deadline
	}
	return f, nil
}

// findBrief looks at the places in the order of [Conn.locate].
func (c *Conn) findBrief(ctx context.Context, user, jobID string) (Found, error) {
	if err := checkToken(jobID); err != nil {
		return Found{}, err
	}
	for _, at := range []struct {
		stream, filter string
		place          Place
	}{
		{StreamIntake, protocol.AnyJobFilter("*", user, jobID), PlaceIntake},
		{StreamRelay, protocol.AnyJobFilter("*", user, jobID), PlaceRelay},
		{StreamResults, resultsOf(user, anyBatch, jobID), PlaceFinished},
		{StreamDLQ, protocol.AnyLetterFilter(user, jobID), PlaceDead},
	} {
		subjects, err := c.subjects(ctx, at.stream, at.filter)
		if err != nil {
			return Found{}, err
		}
		if len(subjects) > 0 {
			address, _ := protocol.ParseJobSubject(subjects[0]) // of a job that has still to end
			return Found{JobID: jobID, Place: at.place, Model: address.Model}, nil
		}
	}
	return Found{JobID: jobID, Place: PlaceUnknown}, nil
}

// find says where jobs of the client's user are, brief or with what stands in them.
func (c *Client) find(ctx context.Context, brief bool, ids ...string) ([]Found, error) {
	before := time.Now()
	list, err := control[foundJobs](ctx, c.Conn, verbFind, c.user, request{Jobs: ids, Brief: brief})
	if err == nil && len(list.Jobs) != len(ids) {
		err = jobs.Errorf(jobs.CodeNATS, "a worker says of %d jobs where they are; %d were asked for", len(list.Jobs), len(ids))
	}
	if err == nil {
		c.clock.observe(before, time.Now(), list.Now)
	}
	return list.Jobs, err
}

// locate finds a user's job, or anybody's if user is empty, whatever its batch. A job moves from the intake to the relay to the results, and is
// put at the next place before it leaves the last; so looking in that order never misses one.
func (c *Conn) locate(ctx context.Context, user, jobID string) (*location, error) {
	if err := checkToken(jobID); err != nil {
		return nil, err
	}
	for _, stream := range []string{StreamIntake, StreamRelay} {
		msg, err := c.lastMsg(ctx, stream, protocol.AnyJobFilter("*", user, jobID))
		if err != nil {
			return nil, err
		}
		if msg == nil {
			continue
		}
		return pendingAt(stream, msg)
	}
	r, err := c.result(ctx, resultsOf(user, anyBatch, jobID))
	if err != nil {
		return nil, err
	}
	if r != nil {
		return &location{place: PlaceFinished, result: r}, nil
	}
	letter, err := c.lastMsg(ctx, StreamDLQ, protocol.AnyLetterFilter(user, jobID))
	if err != nil {
		return nil, err
	}
	if letter != nil {
		return &location{place: PlaceDead, msg: letter}, nil
	}
	return &location{place: PlaceUnknown}, nil
}

// anyBatch is in the place of a batch's token.
const anyBatch = "*"

// resultsOf matches the results of a user, or of everybody if that is empty, by tokens of which each may be a wildcard.
func resultsOf(user, batch, job string) string {
	if user == "" {
		return "results.*." + batch + "." + job
	}
	return "results." + jobs.EncodeToken(user) + "." + batch + "." + job
}

// pendingAt reads the record of a job that waits or runs.
func pendingAt(stream string, msg *jetstream.RawStreamMsg) (*location, error) {
	l := &location{place: PlaceIntake, msg: msg, replyTo: msg.Header.Get(protocol.HeaderReplyTo), stored: msg.Time}
	var err error
	if stream == StreamIntake {
		l.job, err = jobs.Decode[jobs.Job](msg.Data)
	} else {
		var h *jobs.Handover
		if h, err = jobs.Decode[jobs.Handover](msg.Data); err == nil {
			l.place, l.job = PlaceRelay, &h.Job
			if !h.AcceptedAt.IsZero() {
				l.stored = h.AcceptedAt
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read record at %s: %w", msg.Subject, err)
	}
	if !strings.HasSuffix(msg.Subject, "."+jobs.EncodeToken(l.job.User)+"."+l.job.ID) {
		return nil, jobs.Errorf(jobs.CodeInvalid, "record at %s is of another job: %s of user %q", msg.Subject, l.job.ID, l.job.User)
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
	stream, role, running := StreamIntake, protocol.RolePrefill, PlacePrefill
	if l.place == PlaceRelay {
		stream, role, running = StreamRelay, protocol.RoleDecode, PlaceDecode
	}
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	at, err := protocol.ParseJobSubject(l.msg.Subject)
	if err != nil {
		return l.place
	}
	consumer, err := c.js.Consumer(ctx, stream, protocol.ConsumerName(role, at.Model, at.Token()))
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

// OwnResult reads the result of a job of the client's user, not of its replay; nil if there is none.
func (c *Client) OwnResult(ctx context.Context, jobID string) (*jobs.Result, error) {
	if err := checkToken(jobID); err != nil {
		return nil, err
	}
	return c.stored(ctx, anyBatch, jobID)
}

// scan reads the messages of a stream that match a filter, in order. A work queue can be read so,
// too, without disturbing its consumers.
func (c *Conn) scan(ctx context.Context, stream, filter string) iter.Seq2[*jetstream.RawStreamMsg, error] {
	return c.scanAfter(ctx, stream, filter, 0)
}

// scanAfter is scan for the messages after a sequence.
func (c *Conn) scanAfter(ctx context.Context, stream, filter string, after uint64) iter.Seq2[*jetstream.RawStreamMsg, error] {
	return func(yield func(*jetstream.RawStreamMsg, error) bool) {
		for seq := after + 1; ; {
			msg, err := c.ofLeader(ctx, stream, msgGet{Seq: seq, NextFor: filter})
			if msg == nil && err == nil || !yield(msg, err) || err != nil {
				return
			}
			seq = msg.Sequence + 1
		}
	}
}

// pendingJobs finds the jobs of a batch that have still to end. Records that cannot be read are
// left to the workers, which dead-letter them. The queue may hold gigabytes, so no text is kept.
func (c *Conn) pendingJobs(ctx context.Context, user, batch string) ([]*location, error) {
	var found []*location
	type owned struct{ user, id string }
	seen := map[owned]bool{}
	for _, stream := range []string{StreamIntake, StreamRelay} { // in the order in which jobs move
		for msg, err := range c.scan(ctx, stream, protocol.AnyJobFilter("*", user, "*")) {
			if err != nil {
				return nil, err
			}
			l, err := pendingAt(stream, msg)
			if err != nil || l.job.Batch != batch || seen[owned{l.job.User, l.job.ID}] {
				continue
			}
			j := l.job
			seen[owned{j.User, j.ID}] = true
			l.msg, l.job = nil, &jobs.Job{
				V: j.V, ID: j.ID, User: j.User, Batch: j.Batch, CustomID: j.CustomID, Class: j.Class, Model: j.Model,
				Labels: j.Labels, ReplayOf: j.ReplayOf,
			}
			found = append(found, l)
		}
	}
	return found, nil
}
