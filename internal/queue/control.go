package queue

import (
	"cmp"
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
	"github.com/nats-io/nats.go/micro"

	"tandem/jobs"
)

// Control is the service by which jobs are looked up and ended, which takes rights to streams that graders do not have. Every worker
// runs it, for all models, and one of them answers. A request names a verb and, in its subject, where rights can be given for it, the
// user whose jobs it is about: control.<verb>.<user>; an operator's is about everybody's: operator.<verb>. Records are JSON; `nats
// micro list|info|stats` shows the service.
const (
	controlName    = "tandem-control"
	controlVersion = "1.0.0"

	verbFind    = "find"    // where jobs are
	verbJobs    = "jobs"    // the jobs of a batch
	verbLetters = "letters" // dead letters, without text
	verbLetter  = "letter"  // a dead letter, whole
	verbInspect = "inspect" // the state of the queue
	verbRoom    = "room"    // how many jobs a user may submit, or, of a job that was refused, when there will be room
	verbCancel  = "cancel"  // a job, or a batch
	verbExpire  = "expire"  // jobs whose deadlines have passed
	verbPurge   = "purge"   // a batch
	verbDrop    = "drop"    // a dead letter
	verbBound   = "bound"   // what others have in an intake that refused this user
)

// verbs are all of them. The first ones change nothing: a connection that may use JetStream does these itself, with or without workers.
var verbs = []string{verbFind, verbJobs, verbLetters, verbLetter, verbInspect, verbRoom, verbCancel, verbExpire, verbPurge, verbDrop, verbBound}

func reads(verb string) bool { return slices.Index(verbs, verb) < slices.Index(verbs, verbCancel) }

const (
	controlBudget = 5 * time.Second // after which an answer says that there is more to do
	controlPause  = 5 * time.Second // after which, and after the time that engines take to stop, a request is sent again, since who got it may be frozen or dead
	comesBack     = 3 * time.Second // after this connection, those of workers do that lost theirs at the same time
	controlTries  = 6               // of which one may well get to a worker that answers
)

// request says what a verb is about; what is empty does not matter for it.
type request struct {
	Jobs    []string     `json:"jobs,omitempty"`
	Brief   bool         `json:"brief,omitempty"` // of find: without what stands in the jobs, which are not read
	Batch   string       `json:"batch,omitempty"`
	Letters LetterFilter `json:"letters,omitzero"`
	After   uint64       `json:"after,omitempty"`  // the sequence of the last dead letter that is known
	Bytes   int          `json:"bytes,omitempty"`  // of a job that was refused,
	Reason  string       `json:"reason,omitempty"` // and why

	before time.Time // of a cancel that was kept: only jobs that were stored earlier
}

// failure is an error as the service answers it.
type failure struct {
	Code       jobs.Code `json:"code"`
	Message    string    `json:"message"`
	RetryAfter float64   `json:"retry_after_seconds,omitempty"`
}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Code: jobs.CodeOf(err), Message: err.Error()}
	if e, ok := errors.AsType[*jobs.Error](err); ok {
		f.RetryAfter = e.RetryAfter.Seconds()
	}
	return f
}

func (f *failure) err() error {
	if f == nil {
		return nil
	}
	e := &jobs.Error{Code: f.Code, Message: f.Message, RetryAfter: time.Duration(f.RetryAfter * float64(time.Second))}
	if f.Code == jobs.CodeNATS {
		e.Err = errCutOff
	}
	return e
}

// errCutOff is the cause of what a worker could not do for another because of NATS. It may be able to soon.
var errCutOff = errors.New("as a worker says")

// do does what a verb says for a user, for everybody if that is empty.
func (c *Conn) do(ctx context.Context, verb, user string, r request) (any, error) {
	switch {
	case verb == verbFind:
		return c.find(ctx, user, r.Jobs, r.Brief)
	case verb == verbJobs:
		return c.batchJobs(ctx, user, r.Batch)
	case verb == verbLetters:
		r.Letters.User = cmp.Or(user, r.Letters.User)
		return c.nextLetters(ctx, r.Letters, r.After)
	case verb == verbInspect:
		return c.inspect(ctx)
	case verb == verbRoom:
		if r.Reason == "" {
			return c.userRoom(ctx, user, r.Bytes)
		}
		return userRoom{Full: failureOf(c.full(ctx, r.Bytes, r.Reason))}, nil
	case verb == verbExpire:
		return c.expire(ctx, user, r.Jobs)
	case verb == verbBound:
		return c.boundIntake(ctx, user)
	case verb == verbPurge:
		return c.purgeBatch(ctx, user, r.Batch)
	case verb == verbCancel && r.Batch != "":
		return c.cancelBatch(ctx, user, r.Batch, r.before)
	case len(r.Jobs) != 1:
		return nil, jobs.Errorf(jobs.CodeInvalid, "jobs has %d ids; want one", len(r.Jobs))
	case verb == verbCancel:
		return c.cancelJob(ctx, user, r.Jobs[0], r.before)
	case verb == verbLetter:
		return c.letter(ctx, user, r.Jobs[0])
	case verb == verbDrop:
		return struct{}{}, c.dropLetter(ctx, user, r.Jobs[0])
	}
	return nil, jobs.Errorf(jobs.CodeInvalid, "there is no verb %.60q", verb)
}

// controlSubject is where a verb is asked for, of a user or, if that is empty, of everybody.
func controlSubject(verb, user string) string {
	if user == "" {
		return "operator." + verb
	}
	return "control." + verb + "." + jobs.EncodeToken(user)
}

// ServeControl runs the service until stop is called. Requests that are being answered then are refused with code draining, for others to
// answer. Who is shown by tools. Kept is closed when the cancels are done that were kept before, or cannot be read.
func (c *Conn) ServeControl(ctx context.Context, who map[string]string) (stop func(), kept <-chan struct{}, err error) {
	ctx, cancel := context.WithCancel(ctx)
	service, err := micro.AddService(c.nc, micro.Config{Name: controlName, Version: controlVersion, Description: "looks up and ends jobs", Metadata: who})
	if err != nil {
		cancel()
		return nil, nil, c.failed(ctx, err, "start service %s", controlName)
	}
	var reader sync.WaitGroup
	stop = sync.OnceFunc(func() {
		_ = service.Stop() // fails only on a closed connection
		cancel()
		reader.Wait()
	})
	for _, verb := range verbs {
		answer := micro.HandlerFunc(func(r micro.Request) { c.answer(ctx, verb, r) })
		for name, subject := range map[string]string{verb: "control." + verb + ".*", "operator-" + verb: controlSubject(verb, "")} {
			if err := service.AddEndpoint(name, answer, micro.WithEndpointSubject(subject)); err != nil {
				stop()
				return nil, nil, c.failed(ctx, err, "start service %s", controlName)
			}
		}
	}
	done := make(chan struct{})
	reader.Go(func() { c.honourKept(ctx, sync.OnceFunc(func() { close(done) })) })
	return stop, done, nil
}

// answer does what a request asks for, and answers.
func (c *Conn) answer(ctx context.Context, verb string, req micro.Request) {
	if req.Reply() == "" || strings.HasPrefix(req.Reply(), "$JS.") {
		return // no request, but what JetStream has answered to a worker that named this subject for it
	}
	var r request
	user := ""
	out, err := any(nil), error(nil)
	if token, ok := strings.CutPrefix(req.Subject(), "control."+verb+"."); ok {
		if user, err = jobs.DecodeToken(token); err == nil && user == "" {
			err = errors.New("the subject names no user")
		}
	}
	if err == nil && len(req.Data()) > 0 {
		err = json.Unmarshal(req.Data(), &r)
	}
	if err != nil {
		err = jobs.Errorf(jobs.CodeInvalid, "request to %.100s: %w", req.Subject(), err)
	} else {
		out, err = c.do(ctx, verb, user, r)
	}
	if err == nil {
		err = req.RespondJSON(out)
		if err == nil {
			return
		}
	}
	if ctx.Err() != nil {
		err = jobs.ErrDraining
	}
	f := failureOf(err)
	data, _ := json.Marshal(f) // of strings and a number
	c.log.Warn("control request failed", "verb", verb, "code", f.Code)
	if err := req.Error(string(cmp.Or(f.Code, jobs.CodeInvalid)), cmp.Or(strings.Join(strings.Fields(f.Message), " "), "failed"), data); err != nil {
		c.log.Warn("answer control request", "error", err)
	}
}

// errNoWorker says that nobody answers to the service.
var errNoWorker = errors.New("no worker is alive that could do this; start one")

// control has a verb done for a user, for everybody if that is empty: here if it changes nothing and this connection may use JetStream, else
// by a worker; without any the error is errNoWorker.
func control[T any](ctx context.Context, c *Conn, verb, user string, r request) (answer T, err error) {
	if reads(verb) && !c.grader {
		out, err := c.do(ctx, verb, user, r)
		if err != nil {
			return answer, err
		}
		return out.(T), nil
	}
	data, err := json.Marshal(r)
	if err != nil {
		return answer, fmt.Errorf("encode request: %w", err)
	}
	subject := controlSubject(verb, user)
	inbox, err := c.nc.SubscribeSync(c.nc.NewInbox())
	if err != nil {
		return answer, c.failed(ctx, err, "ask the workers")
	}
	defer func() { _ = inbox.Unsubscribe() }() // fails only on a closed connection
	for try := 1; ; try++ {
		err := c.request(ctx, subject, inbox, data, &answer)
		for errors.Is(err, errNoWorker) && time.Since(time.Unix(0, c.back.Load())) < comesBack && ctx.Err() == nil { // the workers' connections come back, too
			pause(ctx, longWait/10)
			err = c.request(ctx, subject, inbox, data, &answer)
		}
		again := errors.Is(err, context.DeadlineExceeded) || jobs.CodeOf(err) == jobs.CodeDraining
		if !again || try == controlTries || ctx.Err() != nil {
			return answer, err
		}
	}
}

// request asks the service once, and takes the first answer that comes, if need be to an earlier request.
func (c *Conn) request(ctx context.Context, subject string, inbox *nats.Subscription, data []byte, answer any) error {
	limited, cancel := context.WithTimeout(ctx, controlPause+c.timing.CancelWait)
	defer cancel()
	if err := c.nc.PublishRequest(subject, inbox.Subject, data); err != nil {
		return c.failed(ctx, err, "ask the workers")
	}
	msg, err := inbox.NextMsgWithContext(limited)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return jobs.Errorf(jobs.CodeDecodeMissing, "%w", errNoWorker)
	case err != nil:
		return c.failed(ctx, err, "no worker answers to %s", subject)
	case msg.Header.Get(micro.ErrorHeader) != "":
		f := failure{Code: jobs.Code(msg.Header.Get(micro.ErrorCodeHeader)), Message: msg.Header.Get(micro.ErrorHeader)}
		_ = json.Unmarshal(msg.Data, &f) // else the headers say enough
		return f.err()
	}
	if err := json.Unmarshal(msg.Data, answer); err != nil {
		return c.failed(ctx, err, "read what a worker answers to %s", subject)
	}
	return nil
}

// A cancel that no worker is there to do is kept in a stream, and done by the first one that comes.
const (
	keptJob   = "job"
	keptBatch = "batch"
)

func keptSubject(user, what, name string) string {
	return "kept." + jobs.EncodeToken(user) + "." + what + "." + jobs.EncodeToken(name)
}

// keepCancel stores a cancel for the first worker that comes.
func (c *Conn) keepCancel(ctx context.Context, user, what, name string) error {
	msg := &nats.Msg{Subject: keptSubject(user, what, name)}
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	_, err := c.js.PublishMsg(ctx, msg, jetstream.WithExpectStream(StreamControl))
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == storeFailed && strings.Contains(api.Description, "per subject") {
		return nil // one is kept already
	}
	if err != nil {
		return c.failed(ctx, err, "no worker is alive that could cancel, and NATS does not keep the request")
	}
	return nil
}

// honourKept does what was kept, and what is kept later, until ctx ends. It calls done when nothing is left, or it cannot be read.
func (c *Conn) honourKept(ctx context.Context, done func()) {
	for said := false; ctx.Err() == nil; pause(ctx, longWait) {
		err := c.readKept(ctx, done)
		done()
		if err != nil && ctx.Err() == nil && !said {
			c.log.Warn("read kept cancels; trying on", "error", err)
			said = true
		}
	}
}

func (c *Conn) readKept(ctx context.Context, done func()) error {
	looking, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	consumer, err := c.js.Consumer(looking, StreamControl, keptConsumer().Durable)
	if err != nil {
		return c.failed(looking, err, "open consumer %s", keptConsumer().Durable)
	}
	list, err := consumer.Messages(jetstream.PullMaxMessages(1))
	if err != nil {
		return c.failed(ctx, err, "read stream %s", StreamControl)
	}
	defer list.Stop()
	defer context.AfterFunc(ctx, list.Stop)()
	if consumer.CachedInfo().NumPending == 0 {
		done()
	}
	for {
		msg, err := list.Next()
		if err != nil {
			return err
		}
		if err := c.honour(ctx, msg); err != nil {
			c.log.Warn("a kept cancel failed, and is tried again", "subject", msg.Subject(), "error", err)
			_ = msg.NakWithDelay(longWait) // else the server waits a little longer
			continue
		}
		if err := msg.Ack(); err != nil {
			return err
		}
		if meta, err := msg.Metadata(); err == nil && meta.NumPending == 0 {
			done()
		}
	}
}

// honour does what was kept. What cannot be done, since there is no such job, is done.
func (c *Conn) honour(ctx context.Context, msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return err
	}
	var user, name string
	tokens := strings.Split(msg.Subject(), ".") // kept.<user>.<what>.<name>
	if len(tokens) == 4 {
		user, _ = jobs.DecodeToken(tokens[1])
		name, _ = jobs.DecodeToken(tokens[3])
	}
	if user == "" || name == "" {
		return nil // nobody's
	}
	r := request{Jobs: []string{name}, before: meta.Timestamp}
	if tokens[2] == keptBatch {
		r = request{Batch: name, before: meta.Timestamp}
	}
	for more := true; more; {
		out, err := c.do(ctx, verbCancel, user, r)
		if err != nil && jobs.CodeOf(err) == jobs.CodeInvalid {
			return nil
		}
		if err != nil {
			return err
		}
		_ = msg.InProgress()
		more = out.(ended).More
	}
	return nil
}
