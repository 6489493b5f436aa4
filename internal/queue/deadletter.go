package queue

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/jobs"
)

// A letter that is about to be written is looked for after a pause, and twice as long a one each time, for so long.
const (
	letterPause = 10 * time.Millisecond
	letterWait  = 5 * time.Second
)

// Letter is a dead letter as it lies in the stream.
type Letter struct {
	JobID string `json:"job_id"` // of the job that could not be done
	Model string `json:"model"`
	DeadLetter
}

// LetterFilter selects dead letters; what is empty matches everything.
type LetterFilter struct {
	User  string
	Batch string
	Model string
	Stage jobs.Stage // that gave up
}

func (f LetterFilter) subject() string {
	stage, model := "*", "*"
	if f.Stage != "" {
		stage = string(f.Stage)
	}
	if f.Model != "" {
		model = jobs.EncodeToken(f.Model)
	}
	return "dlq." + stage + "." + model + ".*"
}

func (f LetterFilter) matches(l *Letter) bool {
	return (f.User == "" || l.User == f.User) && (f.Batch == "" || l.Batch == f.Batch)
}

// DeadLetters lists the dead letters that match, oldest first. An error ends the list. A letter that
// cannot be read is logged and left out.
func (c *Conn) DeadLetters(ctx context.Context, filter LetterFilter) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) {
		for msg, err := range c.scan(ctx, StreamDLQ, filter.subject()) {
			if err != nil {
				yield(nil, err)
				return
			}
			l, err := readLetter(msg)
			if err != nil {
				c.log.Warn("dead letter is left out", "error", err)
				continue
			}
			if filter.matches(l) && !yield(l, nil) {
				return
			}
		}
	}
}

// DeadLetter returns the dead letter of a job.
func (c *Conn) DeadLetter(ctx context.Context, jobID string) (*Letter, error) {
	if err := checkToken(jobID); err != nil {
		return nil, err
	}
	msg, err := c.comingLetter(ctx, jobID)
	if err != nil {
		return nil, err
	}
	if msg == nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "job %s has no dead letter: it never had one, it was dropped, or it was %d days old", jobID, int(keepLetters.Hours()/24))
	}
	return readLetter(msg)
}

// comingLetter reads the letter of a job, nil if there is none. The result of a job that fails is there a moment before its
// letter, and its message leaves the queue after both: in that moment the letter is waited for.
func (c *Conn) comingLetter(ctx context.Context, jobID string) (*jetstream.RawStreamMsg, error) {
	limit := time.NewTimer(letterWait)
	defer limit.Stop()
	for pause := letterPause; ; pause = min(2*pause, 50*letterPause) {
		ending, err := c.ending(ctx, jobID) // before the letter is looked for, which is there when this is over
		if err != nil {
			return nil, err
		}
		msg, err := c.lastMsg(ctx, StreamDLQ, anyLetter(jobID))
		if msg != nil || err != nil || !ending {
			return msg, err
		}
		select {
		case <-time.After(pause):
		case <-limit.C:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// ending reports whether a job has its result, and a worker has still to take its message off.
func (c *Conn) ending(ctx context.Context, jobID string) (bool, error) {
	end, err := c.lastMsg(ctx, StreamResults, "results.*.*."+jobID)
	if end == nil || err != nil {
		return false, err
	}
	for stream, filter := range map[string]string{
		StreamIntake: jobs.AnyJobFilter(jobs.StagePrefill, jobID), StreamRelay: jobs.AnyJobFilter("*", jobID),
	} {
		queued, err := c.subjects(ctx, stream, filter)
		if err != nil || len(queued) > 0 {
			return len(queued) > 0, err
		}
	}
	return false, nil
}

// readLetter reads a dead letter. It may hold a record that could not be read as a job, so it is not
// held to be a valid one.
func readLetter(msg *jetstream.RawStreamMsg) (*Letter, error) {
	tokens := strings.Split(msg.Subject, ".") // dlq.<stage>.<model>.<job>
	if len(tokens) != 4 {
		return nil, fmt.Errorf("read dead letter: subject %q is not of the form dlq.<stage>.<model>.<job>", msg.Subject)
	}
	model, err := jobs.DecodeToken(tokens[2])
	if err != nil {
		return nil, fmt.Errorf("read dead letter %s: %w", msg.Subject, err)
	}
	l := &Letter{JobID: tokens[3], Model: model}
	if err := jobs.CheckJSON(msg.Data); err != nil {
		return nil, fmt.Errorf("read dead letter %s: %w", msg.Subject, err)
	}
	if err := json.Unmarshal(msg.Data, &l.DeadLetter); err != nil {
		return nil, fmt.Errorf("read dead letter %s: %w", msg.Subject, err)
	}
	return l, nil
}

// Replay submits the job of a dead letter again, as a new job of the same batch and custom id that
// names the old one in replay_of and has no deadline. The dead letter stays. The new id is made from
// the old one, so that replaying twice is one replay: again says that it was there already.
func (c *Conn) Replay(ctx context.Context, jobID string) (newID string, again bool, err error) {
	l, err := c.DeadLetter(ctx, jobID)
	if err != nil {
		return "", false, err
	}
	j := l.Job
	if j.ID == "" {
		return "", false, jobs.Errorf(jobs.CodeInvalid, "the record of job %s could not be read, so it cannot be replayed; submit the job anew", jobID)
	}
	j.ID, j.ReplayOf, j.SubmittedAt, j.Deadline = replayID(jobID), jobID, time.Now().UTC(), time.Time{}

	there, err := c.locate(ctx, j.User, j.ID)
	if err != nil {
		return "", false, err
	}
	if there.place != PlaceUnknown {
		return j.ID, true, nil
	}
	again, err = c.submit(ctx, &j, "")
	return j.ID, again, err
}

// replayID is the id of the replay of a job: a UUID of version 8 (RFC 9562), made from the job's id.
func replayID(jobID string) string {
	id := sha256.Sum256([]byte("replay of " + jobID))
	id[6] = id[6]&0x0f | 0x80 // version 8
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// replayOf returns the id of the job that repeats one that failed, or "" if there is none.
func (c *Conn) replayOf(ctx context.Context, r *jobs.Result) (string, error) {
	if r.Status != jobs.Failed {
		return "", nil
	}
	id := replayID(r.JobID)
	l, err := c.locate(ctx, r.User, id)
	if err != nil || !l.pending() && l.result == nil {
		return "", err
	}
	return id, nil
}

// DropDeadLetter removes the dead letter of a job for good.
func (c *Conn) DropDeadLetter(ctx context.Context, jobID string) error {
	if _, err := c.DeadLetter(ctx, jobID); err != nil {
		return err
	}
	return c.purge(ctx, StreamDLQ, anyLetter(jobID))
}

// purge removes what a stream holds under a filter.
func (c *Conn) purge(ctx context.Context, stream, filter string, more ...jetstream.StreamPurgeOpt) error {
	s, err := c.stream(ctx, stream)
	if err != nil {
		return err
	}
	if err := s.Purge(ctx, append(more, jetstream.WithPurgeSubject(filter))...); err != nil {
		return c.failed(ctx, err, "purge %s from stream %s", filter, stream)
	}
	return nil
}

// checkToken keeps what a user typed as a job id from reaching beyond one job.
func checkToken(jobID string) error {
	if jobID == "" || jobs.EncodeToken(jobID) != jobID {
		return jobs.Errorf(jobs.CodeInvalid, "job id is %.60q; want a UUID", jobID)
	}
	return nil
}
