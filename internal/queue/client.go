package queue

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/jobs"
)

const (
	absentPause = time.Second      // at most, between two tries of a call that NATS cannot do
	lookUpLimit = 2 * time.Second  // for one question to whoever leads the cluster or a consumer: without a leader it is never answered, and is better asked again soon
	submitLimit = 30 * time.Second // for a submit to reach NATS
	absentLimit = 20 * time.Second // for a call while the server that is reached has no JetStream, or a stream no leader: an election takes up to 10 s
	batchAbsent = 5 * time.Minute  // the same for a batch: a server may take minutes to shut down
)

const (
	inboxPrefix = nats.InboxPrefix // begins every subject that a copy of a result may be sent to
	maxInbox    = 1024             // bytes of such a subject: the server ends a connection on which a line of the protocol is too long
)

// isInbox reports whether a copy of a result may be sent to a subject.
func isInbox(subject string) bool {
	return strings.HasPrefix(subject, inboxPrefix) && len(subject) <= maxInbox && !strings.ContainsAny(subject, "*> \t\r\n")
}

// Client submits jobs and awaits their results for one user. It may be used by several goroutines.
type Client struct {
	*Conn
	// OnFull, if set before the client is used, is told of each job of a batch that has to wait because the intake is
	// full: the error is as of [Client.Submit]. Jobs that wait longer are told of again and again.
	OnFull func(err error)
	// Order, if set, is the order in which [Client.SubmitBatch] publishes the jobs of a batch.
	Order func([]*jobs.Job) []*jobs.Job

	user  string
	known sync.Map // models and classes that have a consumer; they never lose it
	clock serverClock
}

// NewClient returns a client for the results of user.
func NewClient(c *Conn, user string) *Client { return &Client{Conn: c, user: user} }

// SubmitOptions are what a job itself does not say.
type SubmitOptions struct {
	ReplyTo string // inbox (_INBOX.…) that gets a copy of the result
}

// Submit puts a job into the intake and returns when the server has stored it. Submitting a job
// again that is queued, running or finished changes nothing and is no error. The errors are
// [jobs.ErrQueueFull], which says when to try again, code unknown_model, which lists the known ones,
// invalid_request and nats_unavailable.
func (c *Client) Submit(ctx context.Context, j *jobs.Job, opts SubmitOptions) error {
	if j.User != c.user {
		return jobs.Errorf(jobs.CodeInvalid, "user is %q in the job and %q in the client; results are found by user, so they must be the same", j.User, c.user)
	}
	return whileAbsent(ctx, absentLimit, func() error {
		if err := c.checkModel(ctx, j); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, submitLimit)
		defer cancel()
		_, err := c.submit(ctx, j, opts.ReplyTo)
		return err
	})
}

// whileAbsent repeats what fails because NATS cannot do it now, for so long: a server that shuts down keeps its connections longer
// than its streams, and a cluster that lost a leader elects another.
func whileAbsent(ctx context.Context, limit time.Duration, try func() error) error {
	end := time.Now().Add(limit)
	for pause := fullWait; ; pause = min(2*pause, absentPause) {
		err := try()
		if !absent(err) || time.Now().Add(pause).After(end) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// checkModel refuses a job that nobody would ever take.
func (c *Client) checkModel(ctx context.Context, j *jobs.Job) error {
	name := jobs.ConsumerName(jobs.RolePrefill, j.Model, j.Token())
	if _, ok := c.known.Load(name); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpLimit)
	defer cancel()
	for _, at := range []source{{StreamIntake, name}, sourceOf(jobs.RolePrefill, j.Model, j.Class), sourceOf(jobs.RoleDecode, j.Model, j.Class)} {
		_, err := c.js.Consumer(ctx, at.stream, at.consumer)
		switch {
		case err == nil && at.stream == StreamIntake && at.consumer != name:
			return jobs.Errorf(jobs.CodeUnknownModel, "all workers of model %s are older than this program and would not find its batch jobs; upgrade the workers first", j.Model)
		case err == nil:
			c.known.Store(name, true)
			return nil
		case !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound):
			return c.failed(ctx, err, "look up model %s", j.Model)
		}
	}
	models, err := c.Models(ctx)
	if err != nil {
		return err
	}
	if len(models) == 0 {
		return jobs.Errorf(jobs.CodeUnknownModel, "model %s is unknown, and so is every other: no worker was ever started on this NATS server; start one with --model %[1]s", j.Model)
	}
	return jobs.Errorf(jobs.CodeUnknownModel, "model %s is unknown; known are %s (a model becomes known when a worker for it is started)",
		j.Model, strings.Join(models, ", "))
}

// submit stores a job in the intake. Again says that it was accepted before. It repeats what NATS did
// not answer until ctx ends.
func (c *Conn) submit(ctx context.Context, j *jobs.Job, replyTo string) (again bool, err error) {
	data, err := jobs.Encode(j)
	if err != nil {
		return false, err
	}
	msg := &nats.Msg{Subject: j.IntakeSubject(), Data: data, Header: nats.Header{}}
	if replyTo != "" {
		if !isInbox(replyTo) {
			return false, jobs.Errorf(jobs.CodeInvalid, "reply_to is %.60q; want an inbox, which begins with %s and has at most %d bytes", replyTo, inboxPrefix, maxInbox)
		}
		msg.Header.Set(jobs.HeaderReplyTo, replyTo)
	}
	var verdict error // what the server, having answered, makes of it
	err = c.persist(ctx, "submit job", func(ctx context.Context) error {
		ack, err := c.js.PublishMsg(ctx, msg, jetstream.WithMsgID(j.ID+"."+string(jobs.StagePrefill)), jetstream.WithExpectStream(StreamIntake))
		switch {
		case err == nil && !ack.Duplicate:
			return nil
		case err == nil:
			again = true
			verdict, err = c.checkAccepted(ctx, j)
			return err
		case refused(err):
			again, verdict, err = c.refusal(ctx, j, len(data), err)
			return err
		case errors.Is(err, jetstream.ErrNoStreamResponse):
			verdict = jobs.Errorf(jobs.CodeNATS, "submit job: no stream takes jobs; start a worker, which creates it: %w", err)
			return nil
		}
		return err
	})
	if err != nil {
		if e, ok := errors.AsType[*jobs.Error](err); ok {
			return false, e
		}
		return false, c.failed(ctx, err, "NATS did not take the job")
	}
	return again, verdict
}

// checkAccepted makes sure that a job which the server remembers is still somewhere.
func (c *Conn) checkAccepted(ctx context.Context, j *jobs.Job) (verdict, err error) {
	l, err := c.locate(ctx, j.User, j.ID)
	if err == nil && l.place == PlaceUnknown {
		verdict = jobs.Errorf(jobs.CodeInvalid, "job %s was submitted before and purged since; submit it with a new id", j.ID)
	}
	return verdict, err
}

// refusal finds out why the intake refused a job of so many bytes: because it is there, because the intake is full,
// or because the server cannot store it. The server gives all of them the same code.
func (c *Conn) refusal(ctx context.Context, j *jobs.Job, bytes int, refused error) (again bool, verdict, err error) {
	api, _ := errors.AsType[*jetstream.APIError](refused)
	if api.ErrorCode != storeFailed {
		return false, refusedBy(refused), nil
	}
	there, err := c.lastMsg(ctx, StreamIntake, jobs.AnyJobFilter(jobs.StagePrefill, j.ID))
	switch {
	case err != nil:
		return false, nil, err
	case there != nil:
		return true, nil, nil
	case strings.Contains(api.Description, "per subject"): // it was there a moment ago
		verdict, err = c.checkAccepted(ctx, j)
		return true, verdict, err
	}
	if verdict = c.full(ctx, bytes, api.Description); verdict == nil {
		verdict = refusedBy(refused) // its disk, for example, is full
	}
	return false, verdict, nil
}

func refusedBy(err error) error {
	return jobs.Errorf(jobs.CodeNATS, "submit job: the NATS server refuses it: %w", err)
}

// Result returns the result of a job, whatever its batch, or of its replay. A job without result is
// an error: of code timeout if it will have one, saying where it is, and invalid_request if it is unknown.
func (c *Client) Result(ctx context.Context, jobID string) (*jobs.Result, error) {
	l, err := c.locate(ctx, c.user, jobID)
	if err != nil {
		return nil, err
	}
	if l.result == nil {
		return nil, c.noResult(ctx, jobID, l)
	}
	replay, err := c.replayOf(ctx, l.result)
	if err != nil || replay == "" {
		return l.result, err
	}
	return c.Result(ctx, replay)
}

// noResult says where a job is that has no result.
func (c *Client) noResult(ctx context.Context, jobID string, l *location) error {
	switch l.place {
	case PlaceUnknown:
		return jobs.Errorf(jobs.CodeInvalid, "job %s is unknown to user %s: it was never submitted, was purged, or ended more than %d days ago",
			jobID, c.user, int(keepResults.Hours()/24))
	case PlaceDead:
		return jobs.Errorf(jobs.CodeInvalid, "job %s has no result and is %s; replay or drop it there", jobID, l.place)
	}
	return jobs.Errorf(jobs.CodeTimeout, "job %s has no result yet: it is %s", jobID, c.whereabouts(ctx, l))
}
