package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/natsembed"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// client is one for the user of testJob.
func (r *rig) client() *Client { return NewClient(r.Conn, "user") }

// limitIntake makes the intake small.
func (r *rig) limitIntake(messages int64) {
	r.changeIntake(func(c *jetstream.StreamConfig) { c.MaxMsgs = messages })
}

func (r *rig) changeIntake(change func(*jetstream.StreamConfig)) {
	r.t.Helper()
	s, err := r.js.Stream(r.t.Context(), StreamIntake)
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	change(&cfg)
	if _, err := r.js.UpdateStream(r.t.Context(), cfg); err != nil {
		r.t.Fatal(err)
	}
}

// wantError checks an error's code and what it says.
func wantError(t testing.TB, err error, code jobs.Code, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one of code %s", code)
	}
	if jobs.CodeOf(err) != code {
		t.Errorf("error %q has code %s, want %s", err, jobs.CodeOf(err), code)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error = %q, want %q in it", err, text)
		}
	}
}

func TestSubmitTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	j := testJob(jobs.Interactive)
	submit := func() {
		t.Helper()
		if err := c.Submit(t.Context(), j, SubmitOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	submit()
	submit()
	if err := r.server.Restart(t.Context()); err != nil { // it forgets ids, not messages
		t.Fatal(err)
	}
	submit()
	if state := r.state(StreamIntake); state.Msgs != 1 || state.LastSeq != 1 {
		t.Fatalf("the intake stored %d messages and holds %d, want 1", state.LastSeq, state.Msgs)
	}

	var done book
	r.startPrefill(1, passOn)
	r.start(protocol.RoleDecode, 1, done.note(answer))
	r.results(j)
	submit()
	r.results(j)
	done.once(t, jobs.StageDecode, []*jobs.Job{j})
}

func TestSubmitRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, role := range []jobs.Stage{protocol.RoleDecode, protocol.RolePrefill} { // as a decode worker does
		if err := r.EnsureConsumers(t.Context(), role, "other:1b"); err != nil {
			t.Fatal(err)
		}
	}
	c := r.client()
	job := func(change func(*jobs.Job)) *jobs.Job { return testJob(jobs.Batch, change) }
	for _, tt := range []struct {
		name  string
		job   *jobs.Job
		opts  SubmitOptions
		code  jobs.Code
		texts []string
	}{
		{"unknown model", job(func(j *jobs.Job) { j.Model = "nobody:1b" }), SubmitOptions{}, jobs.CodeUnknownModel, []string{"nobody:1b", "other:1b, " + testModel}},
		{"other user", job(func(j *jobs.Job) { j.User = "else" }), SubmitOptions{}, jobs.CodeInvalid, []string{"user", "else"}},
		{"no prompt", job(func(j *jobs.Job) { j.Prompt = " " }), SubmitOptions{}, jobs.CodeInvalid, []string{"prompt is empty"}},
		{"reply subject", testJob(jobs.Batch), SubmitOptions{ReplyTo: "results.me"}, jobs.CodeInvalid, []string{"reply_to", "results.me", "_INBOX."}},
		{"reply wildcard", testJob(jobs.Batch), SubmitOptions{ReplyTo: "_INBOX.>"}, jobs.CodeInvalid, []string{"reply_to"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantError(t, c.Submit(t.Context(), tt.job, tt.opts), tt.code, tt.texts...)
		})
	}
	if n := r.waiting(StreamIntake); n != 0 {
		t.Errorf("%d refused jobs are in the intake", n)
	}
	// A model that only a decode worker serves is known: it does both phases.
	if err := c.Submit(t.Context(), job(func(j *jobs.Job) { j.Model = "other:1b" }), SubmitOptions{}); err != nil {
		t.Errorf("submit to a model with a decode worker only: %v", err)
	}
}

func TestSubmitBeforeAnyWorker(t *testing.T) {
	t.Parallel()
	r := bareRig(t)
	wantError(t, r.client().Submit(t.Context(), testJob(jobs.Batch), SubmitOptions{}), jobs.CodeUnknownModel, testModel, "no worker was ever started")
}

// A full intake refuses jobs and lets hops pass.
func TestSubmitFull(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.limitIntake(3)
	c := r.client()
	list := several(3, jobs.Batch)
	for _, j := range list {
		if err := c.Submit(t.Context(), j, SubmitOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Submit(t.Context(), testJob(jobs.Batch), SubmitOptions{}); !errors.Is(err, jobs.ErrQueueFull) {
		t.Errorf("submit to a full intake: error = %v, want ErrQueueFull", err)
	}
	if state := r.state(StreamIntake); state.LastSeq != 3 {
		t.Errorf("the intake has stored %d jobs, want 3", state.LastSeq)
	}
	if err := r.server.Restart(t.Context()); err != nil { // so that ids do not help
		t.Fatal(err)
	}
	if err := c.Submit(t.Context(), list[1], SubmitOptions{}); err != nil {
		t.Errorf("submit a queued job again to a full intake: %v", err)
	}
	h := &jobs.Handover{V: jobs.Version, Stage: jobs.StageDecode, Job: *list[0], Kind: jobs.KindNone}
	if err := r.publishHop(t.Context(), h, ""); err != nil {
		t.Errorf("hop while the intake is full: %v", err)
	}
	if n := r.waiting(StreamRelay); n != 1 {
		t.Errorf("%d jobs in the relay, want 1", n)
	}
}

// While NATS is away a submit waits for it.
func TestSubmitDuringRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	if err := c.Submit(t.Context(), testJob(jobs.Batch), SubmitOptions{}); err != nil { // so that the model is known
		t.Fatal(err)
	}
	r.server.Stop()
	submitted := make(chan error, 1)
	go func() { submitted <- c.Submit(t.Context(), testJob(jobs.Batch), SubmitOptions{}) }()
	r.eventually("lost connection", func() bool { return !r.nc.IsConnected() })
	if err := r.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-submitted; err != nil {
		t.Error(err)
	}
	if n := r.waiting(StreamIntake); n != 2 {
		t.Errorf("%d jobs in the intake, want 2", n)
	}
}

func TestSubmitWithoutNATS(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	c.known.Store(protocol.ConsumerName(protocol.RolePrefill, testModel, protocol.TokenOf(testJob(jobs.Batch))), true)
	r.server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	wantError(t, c.Submit(ctx, testJob(jobs.Batch), SubmitOptions{}), jobs.CodeNATS, "submit job")
}

func TestResult(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	j := testJob(jobs.Batch)
	result := func(texts ...string) {
		t.Helper()
		_, err := c.Result(t.Context(), j.ID)
		wantError(t, err, jobs.CodeTimeout, append(texts, j.ID)...)
	}
	_, err := c.Result(t.Context(), j.ID)
	wantError(t, err, jobs.CodeInvalid, "unknown", j.ID)
	_, err = c.Result(t.Context(), "*")
	wantError(t, err, jobs.CodeInvalid, "want a UUID")

	if err := c.Submit(t.Context(), j, SubmitOptions{}); err != nil {
		t.Fatal(err)
	}
	result(string(PlaceIntake))
	_, err = NewClient(r.Conn, "somebody else").Result(t.Context(), j.ID)
	wantError(t, err, jobs.CodeInvalid, "unknown")

	atPrefill, goOn, atDecode := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r.startPrefill(1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		close(atPrefill)
		<-goOn
		return passOn(ctx, task)
	})
	decode := r.start(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		close(atDecode)
		<-goOn
		return answer(ctx, task)
	})
	<-atPrefill
	result(string(PlacePrefill))
	goOn <- struct{}{}
	<-atDecode
	r.eventually("prefill has let go", func() bool { return r.waiting(StreamIntake) == 0 })
	result(string(PlaceDecode))
	goOn <- struct{}{}
	r.results(j)
	if res, err := c.Result(t.Context(), j.ID); err != nil || res.Text != "text of "+j.ID {
		t.Errorf("Result = %+v, %v", res, err)
	}

	if err := decode.stop(); err != nil {
		t.Fatal(err)
	}
	waits := testJob(jobs.Batch)
	r.relay(waits)
	j = waits
	result(string(PlaceRelay))
}

// scan sees a work queue as it is and disturbs nobody.
func TestScan(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, natsembed.Options{})
	list := several(5, jobs.Batch)
	r.submit(list...)
	if err := r.purge(t.Context(), StreamIntake, protocol.AnyJobFilter(jobs.StagePrefill, "", list[2].ID)); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for msg, err := range r.scan(t.Context(), StreamIntake, "jobs.>") {
		if err != nil {
			t.Fatal(err)
		}
		l, err := pendingAt(StreamIntake, msg)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, l.job.ID)
	}
	want := []string{list[0].ID, list[1].ID, list[3].ID, list[4].ID}
	if !slices.Equal(ids, want) {
		t.Errorf("scan = %q, want %q", ids, want)
	}
	for _, err := range r.scan(t.Context(), "MISSING", ">") {
		if jobs.CodeOf(err) != jobs.CodeNATS || !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("scan of a missing stream: error = %v", err)
		}
	}
}
