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

	"tandem/internal/protocol"
	"tandem/jobs"
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

	subject  string
	sequence uint64 // in the stream
}

// LetterFilter selects dead letters; what is empty matches everything.
type LetterFilter struct {
	User  string     `json:"user,omitempty"`
	Batch string     `json:"batch,omitempty"`
	Model string     `json:"model,omitempty"`
	Stage jobs.Stage `json:"stage,omitempty"` // that gave up
}

func (f LetterFilter) subject() string {
	stage, model, user := "*", "*", "*"
	if f.Stage != "" {
		stage = string(f.Stage)
	}
	if f.Model != "" {
		model = jobs.EncodeToken(f.Model)
	}
	if f.User != "" {
		user = jobs.EncodeToken(f.User)
	}
	return "dlq." + stage + "." + model + "." + user + ".*"
}

func (f LetterFilter) matches(l *Letter) bool {
	return (f.User == "" || l.User == f.User) && (f.Batch == "" || l.Batch == f.Batch)
}

// letterPart is a part of the dead letters.
type letterPart struct {
	Letters []*Letter `json:"letters"` // without texts
	Last    uint64    `json:"last"`    // sequence of the last one
	More    bool      `json:"more,omitempty"`
}

// letterPage is how many bytes of messages a part has, about.
const letterPage = 1 << 20

// DeadLetters lists the dead letters that match, oldest first, without their jobs and other texts. An error ends the list. Of a grader's account they are the
// user's own. A letter that cannot be read is left out.
func (c *Client) DeadLetters(ctx context.Context, filter LetterFilter) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) {
		for list := (letterPart{More: true}); list.More; {
			var err error
			if list, err = control[letterPart](ctx, c.Conn, verbLetters, c.whose(), request{Letters: filter, After: list.Last}); err != nil {
				yield(nil, err)
				return
			}
			for _, l := range list.Letters {
				if !yield(l, nil) {
					return
				}
			}
		}
	}
}

// whose is whose dead letters the client looks after: everybody's, unless its account is a grader's.
func (c *Client) whose() string {
	if c.grader {
		return c.user
	}
	return ""
}

// letterPart lists the next dead letters that match.
func (c *Conn) nextLetters(ctx context.Context, filter LetterFilter, after uint64) (list letterPart, err error) {
	bytes := 0
	for l, err := range c.deadLetters(ctx, filter, after) {
		if err != nil {
			return list, err
		}
		if list.More = bytes > letterPage; list.More {
			break
		}
		l.Job, l.Handover, l.Raw = jobs.Job{}, nil, nil
		list.Letters, list.Last = append(list.Letters, l), l.sequence
		bytes += len(l.Message) + 1000
	}
	return list, nil
}

// deadLetters lists the dead letters that match, oldest first, after a sequence. A letter that cannot be read is logged and left out.
func (c *Conn) deadLetters(ctx context.Context, filter LetterFilter, after uint64) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) {
		for msg, err := range c.scanAfter(ctx, StreamDLQ, filter.subject(), after) {
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

// OwnLetter returns the dead letter of a job of the client's user, whatever its account.
func (c *Client) OwnLetter(ctx context.Context, jobID string) (*Letter, error) {
	return control[*Letter](ctx, c.Conn, verbLetter, c.user, request{Jobs: []string{jobID}})
}

// DeadLetter returns the dead letter of a job, of the user's own if the account is a grader's.
func (c *Client) DeadLetter(ctx context.Context, jobID string) (*Letter, error) {
	return control[*Letter](ctx, c.Conn, verbLetter, c.whose(), request{Jobs: []string{jobID}})
}

// letter returns the dead letter of a user's job, of anybody's if user is empty.
func (c *Conn) letter(ctx context.Context, user, jobID string) (*Letter, error) {
	if err := checkToken(jobID); err != nil {
		return nil, err
	}
	msg, err := c.comingLetter(ctx, user, jobID)
	if err != nil {
		return nil, err
	}
	var l *Letter
	if msg != nil {
		if l, err = readLetter(msg); err != nil {
			return nil, err
		}
	}
	if l == nil || user != "" && l.User != user {
		return nil, jobs.Errorf(jobs.CodeInvalid, "job %s has no dead letter: it never had one, it was dropped, or it was %d days old", jobID, int(keepLetters.Hours()/24))
	}
	return l, nil
}

// comingLetter reads the letter of a job, nil if there is none. The result of a job that fails is there a moment before its
// letter, and its message leaves the queue after both: in that moment the letter is waited for.
func (c *Conn) comingLetter(ctx context.Context, user, jobID string) (*jetstream.RawStreamMsg, error) {
	limit := time.NewTimer(letterWait)
	defer limit.Stop()
	for pause := letterPause; ; pause = min(2*pause, 50*letterPause) {
		ending, err := c.ending(ctx, user, jobID) // before the letter is looked for, which is there when this is over
		if err != nil {
			return nil, err
		}
		msg, err := c.lastMsg(ctx, StreamDLQ, protocol.AnyLetterFilter(user, jobID))
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
func (c *Conn) ending(ctx context.Context, user, jobID string) (bool, error) {
	end, err := c.lastMsg(ctx, StreamResults, resultsOf(user, anyBatch, jobID))
	if end == nil || err != nil {
		return false, err
	}
	for _, stream := range []string{StreamIntake, StreamRelay} {
		queued, err := c.subjects(ctx, stream, protocol.AnyJobFilter("*", user, jobID))
		if err != nil || len(queued) > 0 {
			return len(queued) > 0, err
		}
	}
	return false, nil
}

// readLetter reads a dead letter. It may hold a record that could not be read as a job, so it is not
// held to be a valid one.
func readLetter(msg *jetstream.RawStreamMsg) (*Letter, error) {
	tokens := strings.Split(msg.Subject, ".")
	if len(tokens) != 5 {
		return nil, fmt.Errorf("read dead letter: subject %q is not of the form dlq.<stage>.<model>.<user>.<job>", msg.Subject)
	}
	model, err := jobs.DecodeToken(tokens[2])
	if err != nil {
		return nil, fmt.Errorf("read dead letter %s: %w", msg.Subject, err)
	}
	l := &Letter{JobID: tokens[4], Model: model, subject: msg.Subject, sequence: msg.Sequence}
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
func (c *Client) Replay(ctx context.Context, jobID string) (newID string, again bool, err error) {
	return c.replay(ctx, c.whose(), jobID)
}

// ReplayOwn is Replay of a job of the client's user, whatever its account: ids are made by clients, so that two users may have the same.
func (c *Client) ReplayOwn(ctx context.Context, jobID string) (newID string, again bool, err error) {
	return c.replay(ctx, c.user, jobID)
}

func (c *Client) replay(ctx context.Context, user, jobID string) (newID string, again bool, err error) {
	l, err := control[*Letter](ctx, c.Conn, verbLetter, user, request{Jobs: []string{jobID}})
	if err != nil {
		return "", false, err
	}
	j := l.Job
	if j.ID == "" {
		return "", false, jobs.Errorf(jobs.CodeInvalid, "the record of job %s could not be read, so it cannot be replayed; submit the job anew", jobID)
	}
	j.ID, j.ReplayOf, j.SubmittedAt, j.Deadline = replayID(jobID), jobID, time.Now().UTC(), time.Time{}

	there, err := NewClient(c.Conn, j.User).find(ctx, true, j.ID)
	if err != nil {
		return "", false, err
	}
	if there[0].Place != PlaceUnknown {
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

// DropDeadLetter has a worker remove the dead letter of a job for good.
func (c *Client) DropDeadLetter(ctx context.Context, jobID string) error {
	return c.drop(ctx, c.whose(), jobID)
}

// DropOwn is DropDeadLetter of a job of the client's user, whatever its account.
func (c *Client) DropOwn(ctx context.Context, jobID string) error { return c.drop(ctx, c.user, jobID) }

func (c *Client) drop(ctx context.Context, user, jobID string) error {
	_, err := control[struct{}](ctx, c.Conn, verbDrop, user, request{Jobs: []string{jobID}})
	return err
}

func (c *Conn) dropLetter(ctx context.Context, user, jobID string) error {
	if _, err := c.letter(ctx, user, jobID); err != nil {
		return err
	}
	return c.purge(ctx, StreamDLQ, protocol.AnyLetterFilter(user, jobID))
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
