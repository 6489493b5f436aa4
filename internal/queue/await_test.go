package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/natsembed"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// finish publishes results, as workers would.
func (r *rig) finish(list ...*jobs.Job) {
	r.t.Helper()
	for _, j := range list {
		res := jobs.NewResult(j, jobs.Succeeded)
		res.Text = "text of " + j.ID
		if first, err := r.PublishResult(r.t.Context(), res, ""); err != nil || !first {
			r.t.Fatalf("PublishResult = %t, %v", first, err)
		}
	}
}

// patient bounds a test's waiting.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the test waited for a minute"))
	t.Cleanup(cancel)
	return ctx
}

// collect reads results until they end.
func collect(t testing.TB, c *Client, list []*jobs.Job) (got []string) {
	t.Helper()
	for res, err := range c.AwaitBatch(patient(t), list[0].Batch, ids(list)) {
		if err != nil {
			t.Errorf("AwaitBatch after %d results: %v", len(got), err)
			return got
		}
		got = append(got, res.JobID)
	}
	return got
}

func TestAwait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	r.start(protocol.RoleDecode, 1, answer)
	r.start(protocol.RolePrefill, 1, passOn)
	for _, class := range jobs.Classes {
		j := testJob(class)
		if err := c.Submit(t.Context(), j, SubmitOptions{}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // while it runs, and when it is done
			if res, err := c.Await(patient(t), j.ID); err != nil || res.Text != "text of "+j.ID {
				t.Fatalf("Await = %+v, %v", res, err)
			}
		}
	}
	_, err := c.Await(patient(t), jobs.NewID())
	wantError(t, err, jobs.CodeInvalid, "unknown")
}

// Results that are there come first, in their order, then the others; asking again brings all of them again.
func TestAwaitBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	list := input(60)
	other := input(1) // of another batch
	r.finish(other...)
	r.finish(list[:20]...)
	r.submit(list[20:]...)
	var got []string
	for res, err := range c.AwaitBatch(patient(t), list[0].Batch, ids(list)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, res.JobID)
		if len(got) == 20 { // now the workers begin
			r.start(protocol.RoleDecode, 4, answer)
			r.start(protocol.RolePrefill, 4, passOn)
		}
	}
	if !slices.Equal(got[:20], ids(list[:20])) {
		t.Error("the results that were there did not come first, in order")
	}
	slices.Sort(got)
	if !slices.Equal(got, ids(list)) {
		t.Errorf("got %d results for %d jobs, or not one for each", len(got), len(list))
	}
	again := collect(t, c, list)
	slices.Sort(again)
	if !slices.Equal(again, got) {
		t.Errorf("the second time brought %d results, the first %d", len(again), len(got))
	}
	if part := collect(t, c, list[5:7]); !slices.Equal(part, ids(list[5:7])) {
		t.Errorf("awaiting two jobs brought %q", part)
	}
	for range c.AwaitBatch(t.Context(), list[0].Batch, nil) {
		t.Error("awaiting nothing brought something")
	}
}

// A caller that stops early, and one whose context ends.
func TestAwaitStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	list := input(3)
	r.finish(list[:2]...)
	r.submit(list[2])
	for range c.AwaitBatch(patient(t), list[0].Batch, ids(list)) {
		break
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	n := 0
	for res, err := range c.AwaitBatch(ctx, list[0].Batch, ids(list)) {
		if n++; n == 2 {
			cancel(errStopped)
		}
		if n == 3 && (res != nil || !errors.Is(err, errStopped)) {
			t.Errorf("after the cancel: %v, %v", res, err)
		}
	}
	if n != 3 {
		t.Errorf("yielded %d times, want 2 results and an error", n)
	}
	if _, err := c.Await(ctx, list[2].ID); !errors.Is(err, errStopped) {
		t.Errorf("Await with an ended context: error = %v", err)
	}
}

// Large results must not clog the connection: more are there than the server keeps for a client.
func TestAwaitLargeResults(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	list := input(12)
	for _, j := range list {
		res := jobs.NewResult(j, jobs.Succeeded)
		res.Text = strings.Repeat("x", 7<<20)
		if first, err := r.PublishResult(t.Context(), res, ""); err != nil || !first {
			t.Fatal(first, err)
		}
	}
	c := NewClient(r.connect(), "user")
	if got := collect(t, c, list); len(got) != len(list) {
		t.Errorf("got %d of %d results", len(got), len(list))
	}
	if n := c.nc.Stats().Reconnects; n != 0 {
		t.Errorf("the server dropped the connection %d times", n)
	}
}

// The server restarts while one job and a batch are awaited: everything arrives, once.
func TestAwaitOverRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	single := testJob(jobs.Interactive)
	list := input(40)
	r.submit(append([]*jobs.Job{single}, list...)...)
	waiting := r.connect() // on a connection of its own, as a submitter is
	c := NewClient(waiting, "user")

	var awaits sync.WaitGroup
	awaits.Go(func() {
		if res, err := c.Await(patient(t), single.ID); err != nil || res.JobID != single.ID {
			t.Errorf("Await = %+v, %v", res, err)
		}
	})
	var mu sync.Mutex
	var got []string
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(got)
	}
	awaits.Go(func() {
		for res, err := range c.AwaitBatch(patient(t), list[0].Batch, ids(list)) {
			if err != nil {
				t.Errorf("AwaitBatch: %v", err)
				return
			}
			mu.Lock()
			got = append(got, res.JobID)
			mu.Unlock()
		}
	})
	r.finish(list[:10]...)
	r.eventually("the first results", func() bool { return count() == 10 })
	for i := range 3 {
		if err := r.server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.finish(list[10*(i+1) : 10*(i+2)]...)
		r.eventually("results after a restart", func() bool { return count() == 10*(i+2) })
	}
	r.finish(single)
	awaits.Wait()
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(ids(list)))) {
		t.Errorf("got %d results, want %d once each", len(got), len(list))
	}
}

// The connection breaks, the server goes on: what was lost on the way comes again.
func TestAwaitOverBrokenConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := NewClient(r.connect(), "user")
	list := input(200)
	done := make(chan []string, 1)
	go func() { done <- collect(t, c, list) }()
	for i, part := range slices.Collect(slices.Chunk(list, 20)) {
		r.finish(part...)
		if i%3 == 1 {
			if err := c.nc.ForceReconnect(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := slices.Sorted(slices.Values(<-done)); !slices.Equal(got, slices.Sorted(slices.Values(ids(list)))) {
		t.Errorf("got %d results, want %d once each", len(got), len(list))
	}
}

// ending is a context whose time is up when the test says so.
type ending struct {
	context.Context
	over chan struct{}
}

func (e ending) Done() <-chan struct{} { return e.over }

func (e ending) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// The caller's wait ends on time even when NATS does not answer.
func TestAwaitWithoutNATS(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	j := testJob(jobs.Batch)
	r.submit(j)
	ctx := ending{t.Context(), make(chan struct{})}
	awaited, before := make(chan error, 1), c.nc.NumSubscriptions()
	go func() {
		_, err := c.Await(ctx, j.ID)
		awaited <- err
	}()
	r.eventually("the await", func() bool { return c.nc.NumSubscriptions() > before })
	r.server.Stop()
	r.eventually("connection lost", func() bool { return !r.nc.IsConnected() })
	begun := time.Now()
	close(ctx.over)
	wantError(t, <-awaited, jobs.CodeTimeout, j.ID, "connection to NATS is lost")
	if late := time.Since(begun); late > absentLimit/2 {
		t.Errorf("Await returned %v after its context ended", late)
	}
}

// S6: the caller's wait ends, and no decode worker serves the model. The job is not lost.
func TestDecodeUnavailable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	list := input(2)
	r.submit(list...)
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	_, err := c.Await(short(), list[0].ID)
	if jobs.CodeOf(err) != jobs.CodeDecodeMissing || err.Error() != jobs.MsgDecodeMissing {
		t.Errorf("Await error = %v, want %q", err, jobs.MsgDecodeMissing)
	}
	for _, err := range c.AwaitBatch(short(), list[0].Batch, ids(list)) {
		if jobs.CodeOf(err) != jobs.CodeDecodeMissing {
			t.Errorf("AwaitBatch error = %v, want %q", err, jobs.MsgDecodeMissing)
		}
	}

	goOn := make(chan struct{})
	r.start(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		<-goOn
		return answer(ctx, task)
	})
	r.present("the decode worker", func(l []Presence) bool { return len(l) == 1 })
	_, err = c.Await(short(), list[0].ID)
	wantError(t, err, jobs.CodeTimeout, list[0].ID, "no result yet")
	for _, err := range c.AwaitBatch(short(), list[0].Batch, ids(list)) {
		wantError(t, err, jobs.CodeTimeout, "2 jobs have no result yet")
	}
	close(goOn)
	if got := collect(t, c, list); len(got) != 2 {
		t.Errorf("the worker came back, and %d of 2 jobs were finished", len(got))
	}
	for _, err := range c.AwaitBatch(short(), "batch", []string{jobs.NewID()}) {
		wantError(t, err, jobs.CodeTimeout, "not submitted")
	}
}

// Nobody serves the model, and the job's own deadline passes: who awaits it ends it.
func TestAwaitExpires(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.timing.DeadlineGrace = 10 * time.Millisecond
	c := NewClient(r.connect(), "user")
	list := input(3)
	for _, j := range list {
		j.Deadline = time.Now().Add(50 * time.Millisecond)
	}
	list[1].Deadline = time.Time{}
	r.submit(list[:2]...)
	r.relay(list[2])
	expired := func(res *jobs.Result, err error) {
		t.Helper()
		if err != nil || res.Status != jobs.Expired || res.Error.Code != jobs.CodeDeadline {
			t.Errorf("result = %+v, %v; want expired", res, err)
		}
	}
	expired(c.Await(patient(t), list[0].ID))
	for res, err := range c.AwaitBatch(patient(t), list[0].Batch, []string{list[0].ID, list[2].ID}) {
		expired(res, err)
	}
	r.eventually("only the job without deadline is queued", func() bool { return r.waiting(StreamIntake) == 1 && r.waiting(StreamRelay) == 0 })
}

// otherTime is a server whose clock is not this machine's.
type otherTime struct {
	jetstream.JetStream
	ahead time.Duration
}

func (o otherTime) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := o.JetStream.Stream(ctx, name)
	if err == nil {
		s.CachedInfo().TimeStamp = s.CachedInfo().TimeStamp.Add(o.ahead)
	}
	return s, err
}

// Deadlines go by the server's clock, so that one of the caller's that is wrong, or set while it waits, ends no job early
// and keeps none.
func TestAwaitGoesByTheServersClock(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ahead, deadline time.Duration
		ends            bool
	}{
		"the caller's clock is an hour slow": {time.Hour, 30 * time.Minute, true},
		"the caller's clock is an hour fast": {-time.Hour, -30 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			j := testJob(jobs.Batch, func(j *jobs.Job) { j.Deadline = time.Now().Add(tt.deadline) })
			r.submit(j)
			conn := r.connect()
			conn.js = otherTime{conn.js, tt.ahead}
			r.stopControl()
			r.serveControl(conn)
			limit := enough
			if !tt.ends {
				limit = 4 * awaitLook
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			res, err := NewClient(conn, "user").Await(ctx, j.ID)
			if ended := err == nil && res.Status == jobs.Expired; ended != tt.ends {
				t.Errorf("Await = %+v, %v; want the job ended: %t", res, err, tt.ends)
			}
		})
	}
}

// A record that somebody else put there does not end the waiting for others.
func TestAwaitUnreadableResult(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	list := input(2)
	r.publish(protocol.ResultSubject("user", list[0].Batch, list[0].ID), "x", []byte("no JSON"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.finish(list[1])
	for res, err := range r.client().AwaitBatch(ctx, list[0].Batch, ids(list)) {
		if err != nil || res.JobID != list[1].ID {
			t.Errorf("got %+v, %v", res, err)
		}
		return
	}
}

func TestTokenStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	j := testJob(jobs.Interactive, func(j *jobs.Job) { j.Stream = true })
	stream, err := c.Tokens(t.Context(), j.Batch, j.ID)
	if err != nil {
		t.Fatal(err)
	}
	r.start(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		for i := range 50 {
			task.Emit(jobs.Chunk{Text: fmt.Sprint(i, " ")})
		}
		return answer(ctx, task)
	})
	r.start(protocol.RolePrefill, 1, passOn)
	text := make(chan string, 1)
	go func() {
		var b strings.Builder
		for chunk := range stream.Chunks(patient(t)) {
			b.WriteString(chunk.Text)
		}
		text <- b.String()
	}()
	if err := c.Submit(t.Context(), j, SubmitOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Await(patient(t), j.ID); err != nil {
		t.Fatal(err)
	}
	stream.Close() // the result is there, so all text has come
	got := strings.Fields(<-text)
	if len(got) != 50 || got[0] != "0" || got[49] != "49" {
		t.Errorf("tokens = %q", got)
	}
}

// Gaps, a second attempt and what is no chunk: the good ones come through as they are.
func TestTokensAsTheyAre(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := testJob(jobs.Interactive)
	stream, err := r.client().Tokens(t.Context(), j.Batch, j.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	send := func(data []byte) {
		t.Helper()
		if err := r.nc.Publish(protocol.TokensSubject(j.User, j.Batch, j.ID), data); err != nil {
			t.Fatal(err)
		}
	}
	sent := [][2]int{{1, 0}, {1, 1}, {1, 5}, {2, 0}, {2, 1}}
	for _, c := range sent {
		data, err := jobs.Encode(&jobs.Chunk{V: jobs.Version, JobID: j.ID, Attempt: c[0], Seq: c[1], Text: "x", Done: c == [2]int{2, 1}})
		if err != nil {
			t.Fatal(err)
		}
		send(data)
		send([]byte("junk"))
	}
	var got [][2]int
	for chunk := range stream.Chunks(patient(t)) {
		got = append(got, [2]int{chunk.Attempt, chunk.Seq})
		if chunk.Done {
			break
		}
	}
	if !slices.Equal(got, sent) {
		t.Errorf("chunks = %v, want %v", got, sent)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range stream.Chunks(ctx) {
		t.Error("a piece came after the context ended")
	}
}

// BenchmarkAwaitBatch looks 10,000 results up.
func BenchmarkAwaitBatch(b *testing.B) {
	r := newRigOn(b, natsembed.Options{})
	const n = 10_000
	list := input(n)
	r.finish(list...)
	c, wanted := r.client(), ids(list)
	for b.Loop() {
		got := 0
		for _, err := range c.AwaitBatch(b.Context(), list[0].Batch, wanted) {
			if err != nil {
				b.Fatal(err)
			}
			got++
		}
		if got != n {
			b.Fatalf("got %d results, want %d", got, n)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "results/s")
}
