package queue

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/internal/tracing"
	"tandem/jobs"
)

// A record is published effectively once: the server is asked to refuse a second one, and whenever
// its answer leaves a doubt the record is read back. Only then is the message that led to it
// acknowledged.

const (
	tryLimit  = 5 * time.Second       // for one attempt to publish, ask or acknowledge
	firstWait = 50 * time.Millisecond // before the second attempt; then twice as long each time
	longWait  = 2 * time.Second       // at most
	maxRaw    = 1 << 20               // bytes kept of a record that cannot be read
)

// DeadLetter is what the dead-letter stream keeps of a job that could not be done.
type DeadLetter struct {
	V        int            `json:"v"`
	Stage    jobs.Stage     `json:"stage"` // that gave up: prefill, decode or fallback
	Code     jobs.Code      `json:"code"`
	Message  string         `json:"message"`
	User     string         `json:"user,omitempty"`     // whose job it was, as far as that could be read
	Batch    string         `json:"batch,omitempty"`    // likewise
	Job      jobs.Job       `json:"job,omitzero"`       // as it was accepted; zero if it could not be read
	Handover *jobs.Handover `json:"handover,omitempty"` // what prefill had handed over; its Job is left out, and a state's address and token
	Attempts int            `json:"attempts"`           // of the stage
	Worker   string         `json:"worker"`             // "machine/worker" that gave up
	FailedAt time.Time      `json:"failed_at"`          // the NATS server's clock
	Raw      []byte         `json:"raw,omitempty"`      // of a record that could not be read, its beginning
}

// PublishResult publishes the terminal record of a job, unless one is there already, and repeats
// that until the server has confirmed it or ctx ends. First reports whether the record there is this
// one; then a copy goes to the inbox replyTo, if that is one. A record that the server will never
// take is an error of code invalid_request.
func (c *Conn) PublishResult(ctx context.Context, r *jobs.Result, replyTo string) (first bool, err error) {
	data, err := jobs.Encode(r)
	if err != nil {
		return false, fmt.Errorf("encode result: %w", err)
	}
	ctx, span := tracing.PublishNext(ctx, StreamResults, r.JobID)
	defer func() { span.End(err) }()
	msg := &nats.Msg{Subject: protocol.ResultSubject(r.User, r.Batch, r.JobID), Data: data}
	err = c.retry(ctx, "publish result", func(ctx context.Context) error {
		_, err := c.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(0), jetstream.WithExpectStream(StreamResults))
		if first = err == nil; first || !refused(err) {
			return err
		}
		there, readErr := c.lastMsg(ctx, StreamResults, msg.Subject)
		if readErr != nil || there == nil {
			return err
		}
		first = bytes.Equal(there.Data, data) // then an earlier attempt of ours succeeded unheard
		return nil
	})
	if first {
		c.publishEvent(endedEvent(r))
		if replyTo != "" {
			c.copyToInbox(replyTo, data)
		}
	}
	return first, err
}

// publishResult is PublishResult of a job that the worker's observer is to hear of.
func (c *Conn) publishResult(ctx context.Context, j *jobs.Job, r *jobs.Result, replyTo string) (first bool, err error) {
	if first, err = c.PublishResult(ctx, r, replyTo); first && c.observe != nil {
		c.observe.Ended(j, r)
	}
	return first, err
}

// terminal reads the terminal record of a job, nil if it has none. One of a newer version, which cannot be read, is none that
// anything follows from here.
func (c *Conn) terminal(ctx context.Context, j *jobs.Job) (*jobs.Result, error) {
	msg, err := c.lastMsg(ctx, StreamResults, protocol.ResultSubject(j.User, j.Batch, j.ID))
	if err != nil || msg == nil {
		return nil, err
	}
	r, err := jobs.Decode[jobs.Result](msg.Data)
	if err != nil {
		c.log.Warn("result cannot be read", "subject", msg.Subject, "error", err)
		return nil, nil
	}
	return r, nil
}

// The states of [Conn.copies].
const (
	copiesSent    = 1
	copiesRefused = 2
)

// refusesCopies reports whether a refused permission is that to send copies of results to inboxes, which workers do not have where graders
// have an account of their own. No more are sent then.
func (c *Conn) refusesCopies(refusal error) bool {
	if !strings.Contains(refusal.Error(), `Publish to "`+inboxPrefix) || c.copies.Load() == 0 {
		return false
	}
	if c.copies.Swap(copiesRefused) != copiesRefused {
		c.log.Info("copies of results are not sent to inboxes, since NATS does not let this user; results are read as ever", "refusal", refusal)
	}
	return true
}

// copyToInbox sends a result to a core NATS inbox. Anything but an inbox is a subject that somebody
// else may be listening to for another reason.
func (c *Conn) copyToInbox(inbox string, data []byte) {
	if c.copies.Load() == copiesRefused {
		return
	}
	if !isInbox(inbox) {
		c.log.Warn("reply subject refused: it is no inbox, which begins with _INBOX. and is short", "subject", fmt.Sprintf("%.60q", inbox))
		return
	}
	c.copies.CompareAndSwap(0, copiesSent)
	if err := c.nc.Publish(inbox, data); err != nil {
		c.log.Warn("send copy of result", "error", err)
	}
}

// publishHop publishes a job for its next stage, unless it is or was there already, and repeats that
// until the server has confirmed it or ctx ends.
func (c *Conn) publishHop(ctx context.Context, h *jobs.Handover, replyTo string) (err error) {
	data, err := jobs.Encode(h)
	if err != nil {
		return fmt.Errorf("encode hand-over: %w", err)
	}
	j := &h.Job
	ctx, span := tracing.PublishNext(ctx, StreamRelay, j.ID)
	defer func() { span.End(err) }()
	msg := &nats.Msg{Subject: protocol.SubjectOf(j, h.Stage), Data: data, Header: nats.Header{}}
	tracing.Inject(ctx, msg.Header)
	if replyTo != "" {
		msg.Header.Set(protocol.HeaderReplyTo, replyTo)
	}
	return c.retry(ctx, "publish hand-over", func(ctx context.Context) error {
		ack, err := c.js.PublishMsg(ctx, msg, jetstream.WithMsgID(messageID(j, h.Stage)), jetstream.WithExpectStream(StreamRelay))
		switch {
		case err == nil && !ack.Duplicate:
			return nil
		case err != nil && !refused(err):
			return err
		}
		// It is there, or it was and the next stage has published the result before letting go of it.
		there, readErr := c.lastMsg(ctx, StreamRelay, msg.Subject)
		if readErr == nil && there == nil {
			there, readErr = c.lastMsg(ctx, StreamResults, protocol.ResultSubject(j.User, j.Batch, j.ID))
		}
		switch {
		case there != nil:
			return nil
		case readErr != nil:
			return readErr
		case err == nil: // it was, and the result is gone too: somebody purged the job
			c.log.Warn("hand-over was published before and is gone, and so is its result", "job", j.ID)
		}
		return err
	})
}

// messageID is the Nats-Msg-Id of a job at a stage. Ids are made by clients, so that two users may have the same.
func messageID(j *jobs.Job, stage jobs.Stage) string {
	return jobs.EncodeToken(j.User) + "." + j.ID + "." + string(stage)
}

// PublishDeadLetter puts a job into the dead-letter stream, unless it is there already, and repeats that until the
// server has confirmed it or ctx ends. Of a user who has too many letters the oldest go.
func (c *Conn) PublishDeadLetter(ctx context.Context, stage jobs.Stage, model, jobID string, d DeadLetter) (err error) {
	ctx, span := tracing.PublishNext(ctx, StreamDLQ, jobID)
	defer func() { span.End(err) }()
	d.V, d.Stage = jobs.Version, stage
	d.User, d.Batch = cmp.Or(d.User, d.Job.User), cmp.Or(d.Batch, d.Job.Batch)
	if d.Handover != nil {
		h := *d.Handover
		h.Job = jobs.Job{}
		if h.State != nil { // where it lay and what opens it is of no use any more, and was never for the eyes of operators
			state := *h.State
			state.URL, state.Token = "", ""
			h.State = &state
		}
		d.Handover = &h
	}
	d.Raw = withoutSecrets(d.Raw)
	d.Raw = d.Raw[:min(len(d.Raw), maxRaw)]
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false) // common in code, and it would grow sixfold
	if err := enc.Encode(d); err != nil {
		return fmt.Errorf("encode dead letter: %w", err)
	}
	msg := &nats.Msg{Subject: protocol.DLQSubject(stage, model, d.User, jobID), Data: data.Bytes()}
	err = c.retry(ctx, "publish dead letter", func(ctx context.Context) error {
		_, err := c.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(0), jetstream.WithExpectStream(StreamDLQ))
		if err == nil || !refused(err) {
			return err
		}
		if there, readErr := c.lastMsg(ctx, StreamDLQ, msg.Subject); readErr == nil && there != nil {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := try(ctx, func(ctx context.Context) error { return c.boundLetters(ctx, d.User) }); err != nil {
		c.log.Warn("bound the dead letters of a user; the next one tries again", "error", err)
	}
	return nil
}

// withoutSecrets blanks the address and the token of a KV state in a record that could not be read as a hand-over, which
// that of a newer worker is.
func withoutSecrets(raw []byte) []byte {
	var record struct {
		State map[string]json.RawMessage
	}
	_ = json.Unmarshal(raw, &record) // as far as it goes
	for _, name := range []string{"url", "token"} {
		if secret := record.State[name]; len(secret) > len(`""`) && secret[0] == '"' {
			raw = bytes.ReplaceAll(raw, secret, []byte(`""`))
		}
	}
	return raw
}

// retry repeats an attempt that fails because of NATS, with growing pauses, until it succeeds or
// ctx ends. It says so once.
func (c *Conn) retry(ctx context.Context, what string, attempt func(ctx context.Context) error) error {
	said := false
	for pause := firstWait; ; pause = min(2*pause, longWait) {
		err := try(ctx, attempt)
		if err == nil {
			return nil
		}
		if errors.Is(err, nats.ErrMaxPayload) {
			return jobs.Errorf(jobs.CodeInvalid, "%s: the record is larger than the NATS server takes; set max_payload: 8MB in its configuration", what)
		}
		if errors.Is(err, nats.ErrConnectionClosed) {
			return fmt.Errorf("%s: %w", what, err)
		}
		if !said && ctx.Err() == nil {
			c.log.Warn("NATS does not do it; trying on", "what", what, "error", err)
			said = true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

func try(ctx context.Context, attempt func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	return attempt(ctx)
}
