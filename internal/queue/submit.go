package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/internal/tracing"
	"tandem/internal/units"
	"tandem/jobs"
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

	allowed allowance
	watch   *resultWatch
}

// NewClient returns a client for the results of user.
func NewClient(c *Conn, user string) *Client {
	client := &Client{Conn: c, user: user}
	client.watch = newResultWatch(client)
	return client
}

// SubmitOptions are what a job itself does not say.
type SubmitOptions struct {
	ReplyTo string // inbox (_INBOX.…) that gets a copy of the result
}

// Submit puts a job into the intake and returns when the server has stored it. Submitting a job
// again that is queued, running or finished changes nothing and is no error. The errors are
// [jobs.ErrQueueFull], which says when to try again, code unknown_model, which lists the known ones,
// invalid_request and nats_unavailable.
func (c *Client) Submit(ctx context.Context, j *jobs.Job, opts SubmitOptions) (err error) {
	ctx, span := tracing.Publish(ctx, StreamIntake, j.ID)
	defer func() { span.End(err) }()
	if j.User != c.user {
		return jobs.Errorf(jobs.CodeInvalid, "user is %q in the job and %q in the client; results are found by user, so they must be the same", j.User, c.user)
	}
	return retryUnavailable(ctx, absentLimit, func() error {
		if err := c.checkModel(ctx, j); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, submitLimit)
		defer cancel()
		_, err := c.submit(ctx, j, opts.ReplyTo)
		return err
	})
}

// retryUnavailable repeats what fails because NATS cannot do it now, for so long: a server that shuts down keeps its connections longer
// than its streams, and a cluster that lost a leader elects another.
func retryUnavailable(ctx context.Context, limit time.Duration, try func() error) error {
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
	name := protocol.ConsumerName(protocol.RolePrefill, j.Model, protocol.TokenOf(j))
	if _, ok := c.known.Load(name); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpLimit)
	defer cancel()
	for _, token := range []jobs.Class{protocol.TokenOf(j), j.Class} {
		there, err := c.hasConsumer(ctx, sourceOf(protocol.RolePrefill, j.Model, token))
		switch {
		case err != nil:
			return err
		case there && token != protocol.TokenOf(j):
			return jobs.Errorf(jobs.CodeUnknownModel, "all workers of model %s are older than this program and would not find its batch jobs; upgrade the workers first", j.Model)
		case there:
			c.known.Store(name, true)
			return nil
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

// What a grader's account has in the place of JetStream: see internal/access.
const (
	modelPrefix  = "model."  // and a consumer of the intake: what it is
	resultPrefix = "result." // and user, batch and job: the result
)

// hasConsumer reports whether the intake has a consumer, of which a grader's account is told by another subject.
func (c *Conn) hasConsumer(ctx context.Context, at source) (bool, error) {
	subject := "$JS.API.CONSUMER.INFO." + at.stream + "." + at.consumer
	if c.grader {
		subject = modelPrefix + at.consumer
	}
	msg, err := c.nc.RequestWithContext(ctx, subject, nil)
	if err != nil {
		return false, c.failed(ctx, err, "look up consumer %s", at.consumer)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return false, c.failed(ctx, err, "look up consumer %s", at.consumer)
	}
	switch {
	case answer.Error == nil:
		return true, nil
	case slices.Contains([]jetstream.ErrorCode{jetstream.JSErrCodeConsumerNotFound, jetstream.JSErrCodeStreamNotFound}, answer.Error.ErrorCode):
		return false, nil
	}
	return false, c.failed(ctx, answer.Error, "look up consumer %s", at.consumer)
}

// submit stores a job in the intake. Again says that it was accepted before. It repeats what NATS did
// not answer until ctx ends.
func (c *Client) submit(ctx context.Context, j *jobs.Job, replyTo string) (again bool, err error) {
	data, err := jobs.Encode(j)
	if err != nil {
		return false, err
	}
	msg := &nats.Msg{Subject: protocol.SubjectOf(j, jobs.StagePrefill), Data: data, Header: nats.Header{}}
	tracing.Inject(ctx, msg.Header)
	if replyTo != "" {
		if !isInbox(replyTo) {
			return false, jobs.Errorf(jobs.CodeInvalid, "reply_to is %.60q; want an inbox, which begins with %s and has at most %d bytes", replyTo, inboxPrefix, maxInbox)
		}
		msg.Header.Set(protocol.HeaderReplyTo, replyTo)
	}
	if err := c.mayWait(ctx, len(data)); err != nil {
		if found, lost := c.find(ctx, true, j.ID); lost == nil && found[0].Place != PlaceUnknown {
			return true, nil
		}
		return false, err
	}
	var verdict error // what the server, having answered, makes of it
	err = c.retry(ctx, "submit job", func(ctx context.Context) error {
		ack, err := c.js.PublishMsg(ctx, msg, jetstream.WithMsgID(messageID(j, jobs.StagePrefill)), jetstream.WithExpectStream(StreamIntake))
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
	if !again && verdict == nil {
		c.publishEvent(&jobs.Event{V: jobs.Version, Type: jobs.EventAccepted, At: c.clock.at(time.Now()).UTC(), JobID: j.ID, User: j.User, Batch: j.Batch, Model: j.Model, Stage: jobs.StagePrefill})
	}
	return again, verdict
}

// checkAccepted makes sure that a job which the server remembers is still somewhere.
func (c *Client) checkAccepted(ctx context.Context, j *jobs.Job) (verdict, err error) {
	found, err := c.find(ctx, true, j.ID)
	if errors.Is(err, errNoWorker) { // which nobody else can tell
		return nil, nil
	}
	if err == nil && found[0].Place == PlaceUnknown {
		verdict = jobs.Errorf(jobs.CodeInvalid, "job %s was submitted before and purged since; submit it with a new id", j.ID)
	}
	return verdict, err
}

// refusal finds out why the intake refused a job of so many bytes: because it is there, because the intake is full,
// or because the server cannot store it. The server gives all of them the same code.
func (c *Client) refusal(ctx context.Context, j *jobs.Job, bytes int, refused error) (again bool, verdict, err error) {
	api, _ := errors.AsType[*jetstream.APIError](refused)
	if api.ErrorCode != storeFailed {
		return false, refusedBy(refused), nil
	}
	found, err := c.find(ctx, true, j.ID)
	switch {
	case errors.Is(err, errNoWorker) && (api.Description == tooMany || api.Description == tooLarge):
		return false, jobs.Errorf(jobs.CodeQueueFull, "the queue is full, and no worker is alive to make room; start one"), nil // nor to tell more
	case err != nil && !errors.Is(err, errNoWorker):
		return false, nil, err
	case err == nil && found[0].Place != PlaceUnknown:
		return true, nil, nil
	case strings.Contains(api.Description, "per subject"): // it was there a moment ago
		verdict, err = c.checkAccepted(ctx, j)
		return true, verdict, err
	}
	room, err := control[userRoom](ctx, c.Conn, verbRoom, c.user, request{Bytes: bytes, Reason: api.Description})
	if verdict = room.Full.err(); verdict == nil {
		return false, refusedBy(refused), err // its disk, for example, is full
	}
	if done, err := control[bounded](ctx, c.Conn, verbBound, c.user, request{}); err == nil && done.Jobs > 0 {
		verdict = &jobs.Error{
			Code: jobs.CodeQueueFull, RetryAfter: soonest,
			Message: fmt.Sprintf("the queue was full of another user's jobs, and %s of them were ended; try again in about %s", units.Count(uint64(done.Jobs)), units.Roughly(soonest)),
		}
	}
	return false, verdict, err
}

func refusedBy(err error) error {
	return jobs.Errorf(jobs.CodeNATS, "submit job: the NATS server refuses it: %w", err)
}

// Result returns the result of a job, whatever its batch, or of its replay. A job without result is
// an error: of code timeout if it will have one, saying where it is, and invalid_request if it is unknown.
func (c *Client) Result(ctx context.Context, jobID string) (*jobs.Result, error) {
	r, place, err := c.lookUp(ctx, jobID, false)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, c.noResult(c.user, jobID, place)
	}
	replay, err := c.replayed(ctx, r)
	if err != nil || replay == "" {
		return r, err
	}
	return c.Result(ctx, replay)
}

// lookUp returns the result of a job, or where the job is if it has none, brief or telling waiting from running.
func (c *Client) lookUp(ctx context.Context, jobID string, brief bool) (*jobs.Result, Place, error) {
	if err := checkToken(jobID); err != nil {
		return nil, "", err
	}
	for wait := awaitPause; ; wait *= 2 {
		r, err := c.stored(ctx, anyBatch, jobID)
		if r != nil || err != nil {
			return r, PlaceFinished, err
		}
		found, err := c.find(ctx, brief, jobID)
		if err != nil {
			return nil, "", err
		}
		if found[0].Place != PlaceFinished || wait > longWait { // else it has just ended, or a replica has not heard of it
			return nil, found[0].Place, nil
		}
		pause(ctx, wait)
		if ctx.Err() != nil {
			return nil, "", context.Cause(ctx)
		}
	}
}

// stored reads the result of a job as it is kept, nil if there is none. Batch is a token, or [anyBatch]. Any replica answers, which may not have heard
// of it yet.
func (c *Client) stored(ctx context.Context, batch, jobID string) (*jobs.Result, error) {
	subject := "$JS.API.DIRECT.GET." + StreamResults + "." + resultsOf(c.user, batch, jobID)
	if c.grader {
		subject = resultPrefix + jobs.EncodeToken(c.user) + "." + batch + "." + jobID
	}
	asking, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	msg, err := c.nc.RequestWithContext(asking, subject, nil)
	if err != nil {
		return nil, c.failed(ctx, err, "look up the result of job %s", jobID)
	}
	switch status := msg.Header.Get("Status"); status {
	case "":
	case "404":
		return nil, nil
	default:
		return nil, c.failed(ctx, fmt.Errorf("%s %s", status, msg.Header.Get("Description")), "look up the result of job %s", jobID)
	}
	r, err := jobs.Decode[jobs.Result](msg.Data)
	if err != nil {
		return nil, fmt.Errorf("read result at %s: %w", msg.Header.Get("Nats-Subject"), err)
	}
	return r, nil
}

// noResult says where a job is that has no result.
func (c *Conn) noResult(user, jobID string, place Place) error {
	switch place {
	case PlaceUnknown, PlaceFinished:
		return jobs.Errorf(jobs.CodeInvalid, "job %s is unknown to user %s: it was never submitted, was purged, or ended more than %d days ago",
			jobID, user, int(keepResults.Hours()/24))
	case PlaceDead:
		return jobs.Errorf(jobs.CodeInvalid, "job %s has no result and is %s; replay or drop it there", jobID, place)
	}
	return jobs.Errorf(jobs.CodeTimeout, "job %s has no result yet: it is %s", jobID, place)
}
