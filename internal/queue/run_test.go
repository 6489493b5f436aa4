package queue

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

func TestTwoStages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var done book
	r.startPrefill(3, done.note(passOn))
	r.start(protocol.RoleDecode, 3, done.note(answer))
	list := slices.Concat(several(20, jobs.Batch), several(5, jobs.Interactive))
	r.submit(list...)
	for i, res := range r.results(list...) {
		if res.Status != jobs.Succeeded || res.Text != "text of "+list[i].ID || res.Method != jobs.MethodDisaggregated {
			t.Errorf("result = %+v", res)
		}
		if res.Timings.TotalSeconds <= 0 || res.Timings.TotalSeconds > 60 {
			t.Errorf("total is %v s", res.Timings.TotalSeconds)
		}
	}
	done.once(t, jobs.StagePrefill, list)
	done.once(t, jobs.StageDecode, list)
}

// An unknown field of the intake's record is still there in the relay.
func TestUnknownFieldsSurviveHop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	got := make(chan *jobs.Job, 1)
	r.start(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		got <- task.Job
		return answer(ctx, task)
	})
	r.start(protocol.RolePrefill, 1, passOn)
	j := testJob(jobs.Batch, func(j *jobs.Job) { j.Extra = jobs.Extra{"newer": []byte(`{"x":1}`)} })
	r.submit(j)
	if res := <-got; string(res.Extra["newer"]) != `{"x":1}` {
		t.Errorf("extra fields at decode = %v", res.Extra)
	}
	r.results(j)
}

func TestInteractiveBeforeBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	batch, urgent := several(6, jobs.Batch), several(3, jobs.Interactive)
	r.relay(batch...)
	var done book
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	r.start(protocol.RoleDecode, 1, done.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		begun <- struct{}{}
		<-goOn
		return answer(ctx, task)
	}), noneAhead)
	<-begun
	r.asking(protocol.RoleDecode, 0) // so that nothing is delivered while the slot is taken
	r.relay(urgent...)
	close(goOn)
	r.results(slices.Concat(batch, urgent)...)
	var want []string
	for _, j := range slices.Concat(batch[:1], urgent, batch[1:]) {
		want = append(want, "decode "+j.ID)
	}
	if ran, _ := done.list(); !slices.Equal(ran, want) {
		t.Errorf("order = %q, want %q", ran, want)
	}
}

func TestOneJobPerFreeSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	list := several(8, jobs.Batch)
	var done book
	goOn := make(chan struct{})
	for range 2 {
		r.start(protocol.RoleDecode, 1, done.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
			<-goOn
			return answer(ctx, task)
		}), noneAhead)
	}
	r.relay(list...)
	r.eventually("two jobs at work", func() bool { return done.times() == 2 })
	r.remains("two jobs fetched", 300*time.Millisecond, func() bool { return r.unacknowledged(protocol.RoleDecode) == 2 })
	close(goOn)
	r.results(list...)
	done.once(t, jobs.StageDecode, list)
	if done.atOnce > 2 {
		t.Errorf("%d jobs ran at once on two slots", done.atOnce)
	}
}

func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var done book
	s := r.prepare(protocol.RoleDecode, 1, done.note(answer), noneAhead)
	release, err := s.slots.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.begin()
	first, second := testJob(jobs.Batch), testJob(jobs.Batch)
	r.relay(first)
	r.remains("nothing fetched without a slot", 300*time.Millisecond, func() bool { return r.unacknowledged(protocol.RoleDecode) == 0 && done.times() == 0 })
	release()
	r.result(first)

	// Somebody takes the slot while the worker waits at the server for a job.
	r.asking(protocol.RoleDecode, 2)
	if release, err = s.slots.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.relay(second)
	r.eventually("hand-back", func() bool { return r.state("KV_"+BucketHandbacks).Msgs == 1 })
	r.remains("not run without a slot", 200*time.Millisecond, func() bool { return done.times() == 1 })
	release()
	r.results(first, second)
	if _, attempts := done.list(); !slices.Equal(attempts, []int{1, 1}) {
		t.Errorf("attempts = %v, want the hand-back not to count", attempts)
	}
}

// asking waits until so many pulls of a role wait at the server.
func (r *rig) asking(role jobs.Stage, want int) {
	r.t.Helper()
	r.eventually("waiting pulls", func() bool {
		n := 0
		for _, class := range jobs.Classes {
			stream, cfg := consumer(r.timing, role, testModel, class)
			c, err := r.js.Consumer(r.t.Context(), stream, cfg.Durable)
			if err != nil {
				r.t.Fatal(err)
			}
			n += c.CachedInfo().NumWaiting
		}
		return n == want
	})
}

// Two consumers deliver at nearly the same time, and only one slot is free: the pull that is withdrawn
// takes no job with it, and counts no attempt.
func TestWithdrawnPullsBlameNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var done book
	r.start(protocol.RoleDecode, 1, done.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		<-time.After(20 * time.Millisecond) // so that the other job comes too late
		return answer(ctx, task)
	}), noneAhead)
	var list []*jobs.Job
	for range 150 {
		pair := []*jobs.Job{testJob(jobs.Batch), testJob(jobs.Interactive)}
		list = append(list, pair...)
		r.asking(protocol.RoleDecode, 2)
		var both sync.WaitGroup
		for _, j := range pair {
			both.Go(func() { r.relay(j) })
		}
		both.Wait()
		for _, j := range pair {
			r.result(j)
		}
	}
	r.results(list...)
	done.once(t, jobs.StageDecode, list)
	if n := r.state("KV_" + BucketHandbacks).Msgs; n == 0 {
		t.Error("no job came too late for a slot: the test shows nothing")
	}
	ran, attempts := done.list()
	for i, a := range attempts {
		if a != 1 {
			t.Errorf("%s ran as attempt %d", ran[i], a)
		}
	}
}

func TestRetryAndHandBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	busy := jobs.Errorf(jobs.CodeEngineBusy, "busy")
	failed := jobs.Errorf(jobs.CodeEngineFailed, "failed")
	answers := []error{busy, busy, failed, busy, nil}
	var done book
	r.start(protocol.RoleDecode, 1, done.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		if err := answers[done.times()-1]; err != nil {
			return protocol.Outcome{}, err
		}
		return answer(ctx, task)
	}))
	j := testJob(jobs.Batch)
	r.relay(j)
	if res := r.results(j)[0]; res.Status != jobs.Succeeded {
		t.Errorf("result = %+v", res)
	}
	if _, attempts := done.list(); !slices.Equal(attempts, []int{1, 1, 1, 2, 2}) {
		t.Errorf("attempts = %v, want only the failure to count", attempts)
	}
}

func TestReplyInbox(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(protocol.RoleDecode, 1, answer)
	r.start(protocol.RolePrefill, 1, passOn)
	good, bad := r.inbox("_INBOX.somebody.1"), r.inbox("secret.subject")
	for _, to := range []string{"secret.subject", "_INBOX.somebody.*", "_INBOX.somebody.1"} {
		j := testJob(jobs.Interactive)
		msg := natsMsg(t, protocol.JobSubject(jobs.StagePrefill, j.Model, j.Class, j.User, j.ID), j)
		msg.Header.Set(protocol.HeaderReplyTo, to)
		if _, err := r.js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		r.result(j)
	}
	r.eventually("copy of the result", func() bool { return len(good) == 1 })
	if _, err := jobs.Decode[jobs.Result]((<-good).Data); err != nil {
		t.Error(err)
	}
	if len(bad) != 0 {
		t.Error("a result went to a subject that is no inbox")
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	attempts := 0
	r.start(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		task.Emit(jobs.Chunk{Thinking: "hm"})
		task.Emit(jobs.Chunk{Text: "a"})
		if attempts++; attempts == 1 {
			return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineFailed, "failed")
		}
		task.Emit(jobs.Chunk{Text: "b"})
		return answer(ctx, task)
	})
	loud, quiet := testJob(jobs.Interactive, func(j *jobs.Job) { j.Stream = true }), testJob(jobs.Batch)
	chunks := r.inbox("tokens.>")
	r.relay(loud)
	r.result(loud)
	r.relay(quiet)
	r.results(loud, quiet)
	r.eventually("chunks of two attempts", func() bool { return len(chunks) == 7 })
	want := []jobs.Chunk{
		{Attempt: 1, Seq: 0, Thinking: "hm"}, {Attempt: 1, Seq: 1, Text: "a"}, {Attempt: 1, Seq: 2, Done: true},
		{Attempt: 2, Seq: 0, Thinking: "hm"}, {Attempt: 2, Seq: 1, Text: "a"}, {Attempt: 2, Seq: 2, Text: "b"}, {Attempt: 2, Seq: 3, Done: true},
	}
	for _, w := range want {
		m := <-chunks
		c, err := jobs.Decode[jobs.Chunk](m.Data)
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject != protocol.TokensSubject(loud.User, loud.Batch, loud.ID) || c.JobID != loud.ID {
			t.Errorf("chunk of job %s on %s", c.JobID, m.Subject)
		}
		if c.Attempt != w.Attempt || c.Seq != w.Seq || c.Text != w.Text || c.Thinking != w.Thinking || c.Done != w.Done {
			t.Errorf("chunk = %+v, want %+v", c, w)
		}
	}
}

func TestPresence(t *testing.T) {
	t.Parallel()
	r := newRig(t, presenceTTL(4*time.Second))
	first := r.start(protocol.RoleDecode, 2, answer)
	second := r.start(protocol.RolePrefill, 1, passOn)
	r.present("both", func(list []Presence) bool { return len(list) == 2 })
	list, err := r.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := list[0]
	if p.Worker != first.cfg.ID || p.Role != protocol.RoleDecode || p.Model != testModel || p.State != StateReady || p.Slots != 2 || !p.Live() {
		t.Errorf("presence = %+v", p)
	}
	if p.SkewSeconds < -1 || p.SkewSeconds > 1 {
		t.Errorf("skew on one machine = %v s", p.SkewSeconds)
	}
	if err := first.stop(); err != nil {
		t.Error(err)
	}
	if list, err = r.Workers(t.Context()); err != nil || len(list) != 1 || list[0].Worker != second.cfg.ID {
		t.Errorf("after one was stopped: %+v, %v", list, err)
	}
	second.kill()
	r.present("nobody, after the TTL", func(list []Presence) bool { return len(list) == 0 })
	if err := <-second.ended; err == nil {
		t.Error("a worker whose connection was closed ended without an error")
	} else {
		second.ended <- err
	}
}
