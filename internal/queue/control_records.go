package queue

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Kept is what a stream holds of a job, without its texts.
type Kept struct {
	Sequence uint64    // in the stream
	Stored   time.Time // when it came into it; the NATS server's clock
	JobID    string
	User     string
	Batch    string
	Model    string
	Stage    jobs.Stage // that a job waits for or is at, or that gave up; empty if it has ended

	Accepted time.Time      // of one that waits or runs
	Status   jobs.Status    // of a result, as all that follows
	Method   jobs.Method    //
	Seconds  float64        // from accepted to finished
	Usage    jobs.Usage     //
	Workers  jobs.Servers   //
	Error    jobs.ErrorInfo // of a dead letter, too
	Attempts int            // of a dead letter
}

// A part of a stream is read at once.
const (
	keptMessages = 500
	keptBytes    = 4 << 20
)

// Kept lists what one of the streams of jobs holds after a sequence, in its order. Nothing is taken off it, and none of its consumers is asked. It is read
// by direct gets, so on a cluster the last ones may be missing for a moment. What cannot be read is left out.
func (c *Conn) Kept(ctx context.Context, stream string, after uint64) iter.Seq2[*Kept, error] {
	return func(yield func(*Kept, error) bool) {
		for {
			if c.grader {
				yield(nil, jobs.Errorf(jobs.CodeInvalid, "stream %s: a grader's key does not read streams; gateway.nk of submitter admin secure does", stream))
				return
			}
			var some []*Kept
			last := after
			err := c.ask(ctx, "$JS.API.DIRECT.GET."+stream, func(ctx context.Context) (err error) {
				some, last, err = c.keptPart(ctx, stream, after)
				return err
			})
			if errors.Is(err, errRefused) {
				yield(nil, jobs.Errorf(jobs.CodeNATS, "read stream %s: %w; %s", stream, err, renewRights))
				return
			}
			if err != nil {
				yield(nil, c.failed(ctx, err, "read stream %s", stream))
				return
			}
			for _, k := range some {
				if !yield(k, nil) {
					return
				}
			}
			if last == after {
				return
			}
			after = last
		}
	}
}

// keptPart reads what comes next after a sequence; last is that of the last message, or after if there was none.
func (c *Conn) keptPart(ctx context.Context, stream string, after uint64) (some []*Kept, last uint64, err error) {
	asking, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	msgs, err := jetstreamext.GetBatch(asking, c.js, stream, keptMessages, jetstreamext.GetBatchSeq(after+1), jetstreamext.GetBatchMaxBytes(keptBytes), jetstreamext.GetBatchSubject(">"))
	if err != nil {
		return nil, after, err
	}
	last = after
	for msg, err := range msgs {
		if errors.Is(err, jetstreamext.ErrNoMessages) {
			return some, last, nil
		}
		if errors.Is(err, jetstreamext.ErrInvalidResponse) { // headers that are none, which must not hide what comes after them: it is read by itself
			if msg, err = c.ofLeader(ctx, stream, msgGet{Seq: last + 1, NextFor: ">"}); msg == nil && err == nil {
				return some, last, nil
			}
		}
		if err != nil {
			return some, last, err
		}
		last = msg.Sequence
		if k := readKept(stream, msg); k != nil {
			some = append(some, k)
		}
	}
	if last == after { // the answer did not come
		return nil, after, context.DeadlineExceeded
	}
	return some, last, nil
}

// readKept reads a message; nil if it cannot be read.
func readKept(stream string, msg *jetstream.RawStreamMsg) *Kept {
	k := &Kept{Sequence: msg.Sequence, Stored: msg.Time}
	tokens := strings.Split(msg.Subject, ".")
	decode := func(into *string, token string) bool {
		var err error
		*into, err = jobs.DecodeToken(token)
		return err == nil
	}
	switch {
	case stream == StreamIntake, stream == StreamRelay:
		at, err := protocol.ParseJobSubject(msg.Subject)
		if err != nil {
			return nil
		}
		k.JobID, k.User, k.Model, k.Stage, k.Accepted = at.JobID, at.User, at.Model, at.Stage, msg.Time
		var r struct {
			Batch      string
			AcceptedAt time.Time `json:"accepted_at"`
			Job        struct{ Batch string }
		}
		if json.Unmarshal(msg.Data, &r) != nil {
			return k // a worker will say what is wrong with it
		}
		if k.Batch = r.Batch; stream == StreamRelay {
			k.Batch = r.Job.Batch
			if !r.AcceptedAt.IsZero() {
				k.Accepted = r.AcceptedAt
			}
		}
	case stream == StreamResults && len(tokens) == 4:
		var r struct {
			Model   string
			Status  jobs.Status
			Method  jobs.Method
			Error   *jobs.ErrorInfo
			Usage   jobs.Usage
			Timings struct {
				TotalSeconds float64 `json:"total_seconds"`
			}
			Servers    jobs.Servers
			FinishedAt time.Time `json:"finished_at"`
		}
		if !decode(&k.User, tokens[1]) || !decode(&k.Batch, tokens[2]) || json.Unmarshal(msg.Data, &r) != nil {
			return nil
		}
		k.JobID, k.Model, k.Status, k.Method, k.Seconds, k.Usage, k.Workers = tokens[3], r.Model, r.Status, r.Method, r.Timings.TotalSeconds, r.Usage, r.Servers
		k.Accepted = r.FinishedAt.Add(-time.Duration(r.Timings.TotalSeconds * float64(time.Second)))
		if r.Error != nil {
			k.Error = *r.Error
		}
	case stream == StreamDLQ && len(tokens) == 5:
		var l struct {
			Code           jobs.Code
			Message, Batch string
			Attempts       int
		}
		if !decode(&k.Model, tokens[2]) || tokens[3] != protocol.NoUser && !decode(&k.User, tokens[3]) || json.Unmarshal(msg.Data, &l) != nil {
			return nil
		}
		k.JobID, k.Stage, k.Batch, k.Error, k.Attempts = tokens[4], jobs.Stage(tokens[1]), l.Batch, jobs.ErrorInfo{Code: l.Code, Message: l.Message}, l.Attempts
	default:
		return nil
	}
	if jobs.CheckID("job id", k.JobID) != nil {
		return nil
	}
	return k
}

// KeptName names a job of which a stream holds something.
type KeptName struct{ User, JobID string }

// KeptNames lists the jobs of which one of their streams holds something; it reads no message.
func (c *Conn) KeptNames(ctx context.Context, stream string) ([]KeptName, error) {
	subjects, err := c.subjects(ctx, stream, ">")
	if err != nil {
		return nil, err
	}
	var names []KeptName
	for _, s := range subjects {
		tokens := strings.Split(s, ".")
		at := len(tokens) - 2 // of the user, but in the results
		if stream == StreamResults {
			at = 1
		}
		if at < 1 {
			continue
		}
		user, err := jobs.DecodeToken(tokens[at])
		if err != nil { // nobody's letter
			user = ""
		}
		names = append(names, KeptName{user, tokens[len(tokens)-1]})
	}
	return names, nil
}
