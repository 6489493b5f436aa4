package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/natsembed"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// The worker dies between publishing and acknowledging, at either stage.
func TestCrashBeforeAcknowledgement(t *testing.T) {
	t.Parallel()
	for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, ackWait(5*time.Second))
			var done book
			goOn := make(chan struct{})
			run := map[jobs.Stage]func(context.Context, *protocol.Task) (protocol.Outcome, error){
				protocol.RolePrefill: passOn,
				protocol.RoleDecode: func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
					<-goOn
					return answer(ctx, task)
				},
			}
			if role == protocol.RoleDecode {
				r.startPrefill(1, done.note(passOn))
			}
			var once sync.Once
			for range 2 { // the first to get the job dies, the other one finds the work done
				s := r.prepare(role, 1, done.note(run[role]))
				s.published = func(string) { once.Do(s.kill) }
				if role == protocol.RolePrefill {
					r.beginPrefill(s)
				} else {
					s.begin()
				}
			}
			if role == protocol.RolePrefill {
				r.start(protocol.RoleDecode, 1, done.note(run[protocol.RoleDecode]))
			}
			j := testJob(jobs.Batch)
			r.submit(j)
			r.eventually("prefill acknowledged", func() bool { return r.waiting(StreamIntake) == 0 })
			close(goOn)
			if res := r.results(j)[0]; res.Status != jobs.Succeeded {
				t.Errorf("result = %+v", res)
			}
			done.once(t, jobs.StagePrefill, []*jobs.Job{j})
			done.once(t, jobs.StageDecode, []*jobs.Job{j})
		})
	}
}

func TestWorkerDiesInMidJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, ackWait(2*time.Second))
	var done book
	begun := make(chan struct{})
	first := r.start(protocol.RoleDecode, 1, done.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		close(begun)
		<-ctx.Done()
		return protocol.Outcome{}, ctx.Err()
	}))
	j := testJob(jobs.Batch)
	relayed := time.Now()
	r.relay(j)
	<-begun
	first.kill()
	r.start(protocol.RoleDecode, 1, done.note(answer))
	if res := r.results(j)[0]; res.Status != jobs.Succeeded || res.Attempts.Decode != 2 {
		t.Errorf("result = %+v", res)
	}
	if took := time.Since(relayed); took < r.timing.AckWait {
		t.Errorf("delivered twice within %v, want %v between the two", took, r.timing.AckWait)
	}
}

func TestLongJobIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, ackWait(5*time.Second))
	var done book
	long := func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		life, end := time.NewTicker(100*time.Millisecond), time.After(2*r.timing.AckWait)
		defer life.Stop()
		for {
			select {
			case <-life.C:
				task.Progress()
			case <-end:
				return answer(ctx, task)
			case <-ctx.Done():
				return protocol.Outcome{}, context.Cause(ctx)
			}
		}
	}
	for range 2 {
		r.start(protocol.RoleDecode, 1, done.note(long), func(c *WorkerConfig) { c.StallLimit = r.timing.AckWait })
	}
	j := testJob(jobs.Batch)
	r.relay(j)
	if res := r.results(j)[0]; res.Attempts.Decode != 1 {
		t.Errorf("result = %+v", res)
	}
	done.once(t, jobs.StageDecode, []*jobs.Job{j})
}

// An engine that is expected to be silent keeps its job, one that is not loses it.
func TestSilentEngine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	impatient := func(c *WorkerConfig) { c.StallLimit = time.Second }
	silent := func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		<-ctx.Done()
		return protocol.Outcome{}, ctx.Err()
	}
	var prefills, decodes book
	r.startPrefill(2, prefills.note(silent), impatient)
	r.start(protocol.RoleDecode, 4, decodes.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		switch task.Job.CustomID {
		case "silent":
			return silent(ctx, task)
		case "expected":
			task.Expect(enough)
			<-time.After(2 * time.Second)
		}
		return answer(ctx, task)
	}), impatient)

	toFallback, dead, expected := testJob(jobs.Batch), testJob(jobs.Batch), testJob(jobs.Batch)
	dead.CustomID, expected.CustomID = "silent", "expected"
	r.submit(toFallback)
	r.relay(dead, expected)
	found := r.results(toFallback, dead, expected)
	if res := found[0]; res.Method != jobs.MethodFallback || !strings.Contains(res.Decision, "prefill failed twice") || !strings.Contains(res.Decision, jobs.ErrStalled.Message) {
		t.Errorf("stalled prefill: result = %+v", res)
	}
	if n := prefills.times(); n != 2 {
		t.Errorf("prefill was tried %d times, want 2", n)
	}
	if res := found[1]; res.Status != jobs.Failed || res.Error.Code != jobs.CodeAttempts || !strings.Contains(res.Error.Message, jobs.ErrStalled.Message) || res.Attempts.Decode != 3 {
		t.Errorf("stalled decode: result = %+v, error %+v", res, res.Error)
	}
	if res := found[2]; res.Status != jobs.Succeeded || res.Attempts.Decode != 1 {
		t.Errorf("silence that was expected: result = %+v", res)
	}
	var letter DeadLetter
	if err := json.Unmarshal(r.letter(jobs.StageDecode, dead.ID).Data, &letter); err != nil {
		t.Fatal(err)
	}
	if letter.Code != jobs.CodeAttempts || letter.Attempts != 3 || letter.Job.Prompt != dead.Prompt || letter.Handover == nil || letter.Handover.Job.ID != "" {
		t.Errorf("dead letter = %+v", letter)
	}
}

func TestPermanentErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	refuse := func(context.Context, *protocol.Task) (protocol.Outcome, error) {
		return protocol.Outcome{}, jobs.Errorf(jobs.CodeContextOverflow, "too long")
	}
	var done book
	r.startPrefill(1, done.note(refuse))
	r.start(protocol.RoleDecode, 1, done.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		if task.Job.CustomID == "refuse" {
			return refuse(ctx, task)
		}
		o, err := answer(ctx, task)
		o.Result.Text = strings.Repeat("x", jobs.MaxRecord) // more than any server takes
		return o, err
	}))
	early, late, large := testJob(jobs.Batch), testJob(jobs.Batch), testJob(jobs.Batch)
	late.CustomID = "refuse"
	inbox := r.inbox("_INBOX.caller.>")
	msg := natsMsg(t, protocol.SubjectOf(early, jobs.StagePrefill), early)
	msg.Header.Set(protocol.HeaderReplyTo, "_INBOX.caller.1")
	if _, err := r.js.PublishMsg(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	r.relay(late, large)
	for i, res := range r.results(early, late, large) {
		want := []struct {
			code  jobs.Code
			stage jobs.Stage
		}{{jobs.CodeContextOverflow, jobs.StagePrefill}, {jobs.CodeContextOverflow, jobs.StageDecode}, {jobs.CodeInvalid, jobs.StageDecode}}[i]
		if res.Status != jobs.Failed || res.Error.Code != want.code || res.Error.Stage != want.stage {
			t.Errorf("result = %+v, error %+v", res, res.Error)
		}
		r.letter(want.stage, res.JobID)
	}
	if n := done.times(); n != 3 {
		t.Errorf("%d runs, want each job to run once", n)
	}
	<-inbox // the caller is told
}

// deliver takes a job as often as it takes to use up its attempts, without doing anything.
func (r *rig) deliver(role jobs.Stage, times int) {
	r.t.Helper()
	stream, cfg := consumer(r.timing, role, testModel, jobs.Batch)
	c, err := r.js.Consumer(r.t.Context(), stream, cfg.Durable)
	if err != nil {
		r.t.Fatal(err)
	}
	for range times {
		msg, err := c.Next(jetstream.FetchMaxWait(enough))
		if err != nil {
			r.t.Fatal(err)
		}
		if err := msg.Nak(); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.nc.Flush(); err != nil {
		r.t.Fatal(err)
	}
}

// lose has a worker die that a job was delivered to.
func (r *rig) lose(role jobs.Stage) {
	r.t.Helper()
	stream, cfg := consumer(r.timing, role, testModel, jobs.Batch)
	c, err := r.js.Consumer(r.t.Context(), stream, cfg.Durable)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := c.Next(jetstream.FetchMaxWait(enough)); err != nil {
		r.t.Fatal(err)
	}
}

// A job that has used up its attempts, by killing its workers, is not run again.
func TestBuryBeforeExecuting(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	poison, lame := testJob(jobs.Batch), testJob(jobs.Batch)
	r.relay(poison)
	r.deliver(protocol.RoleDecode, protocol.MaxAttempts(jobs.StageDecode))
	r.submit(lame)
	r.deliver(protocol.RolePrefill, protocol.MaxAttempts(jobs.StagePrefill))
	var prefills, decodes book
	r.startPrefill(1, prefills.note(passOn))
	r.start(protocol.RoleDecode, 1, decodes.note(answer))
	found := r.results(poison, lame)
	if res := found[0]; res.Status != jobs.Failed || res.Error.Code != jobs.CodeAttempts || res.Attempts.Decode != 3 {
		t.Errorf("result = %+v, error %+v", res, res.Error)
	}
	if res := found[1]; res.Method != jobs.MethodFallback || res.Decision != "prefill failed twice" {
		t.Errorf("result = %+v", res)
	}
	r.letter(jobs.StageDecode, poison.ID)
	if ran, _ := decodes.list(); prefills.times() != 0 || !slices.Equal(ran, []string{"fallback " + lame.ID}) {
		t.Errorf("ran %d prefills and %q", prefills.times(), ran)
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var done book
	r.start(protocol.RoleDecode, 1, done.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		switch done.times() {
		case 1:
			panic("a prompt: " + task.Job.Prompt)
		case 2:
			return protocol.Outcome{}, nil // neither hop nor result
		}
		var list []int
		return protocol.Outcome{}, fmt.Errorf("never seen: %d", list[task.Attempt])
	}))
	j := testJob(jobs.Batch)
	r.relay(j)
	res := r.results(j)[0]
	if res.Status != jobs.Failed || res.Error.Code != jobs.CodeAttempts || !strings.Contains(res.Error.Message, "index out of range") {
		t.Errorf("result = %+v, error %+v", res, res.Error)
	}
	if n := done.times(); n != 3 {
		t.Errorf("%d runs, want 3", n)
	}
}

// What cannot be read becomes a dead letter, whoever it may have come from is told, and the next job runs.
func TestUnreadableMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good, garbage, future, liar := testJob(jobs.Batch), testJob(jobs.Batch), testJob(jobs.Batch), testJob(jobs.Batch)
	subject := func(j *jobs.Job) string { return protocol.SubjectOf(j, jobs.StageDecode) }
	r.publish(subject(garbage), "1", []byte("\x00garbage"))
	r.publish(subject(future), "2", fmt.Appendf(nil, `{"v":2,"stage":"decode","job":{"user":"user","batch":"batch","id":%q}}`, future.ID))
	strange := protocol.JobSubject(jobs.StageDecode, testModel, jobs.Batch, "user", "no-uuid")
	r.publish(strange, "3", []byte(`{}`))
	r.publish(subject(liar), "4", &jobs.Handover{V: jobs.Version, Stage: jobs.StageFallback, Job: *liar})
	r.relay(good)
	var done book
	r.start(protocol.RoleDecode, 1, done.note(answer))
	found := r.results(good, future, liar)
	for _, res := range found[1:] {
		if res.Status != jobs.Failed || res.Error.Code != jobs.CodeInvalid {
			t.Errorf("result = %+v, error %+v", res, res.Error)
		}
	}
	done.once(t, jobs.StageDecode, []*jobs.Job{good})
	for id, raw := range map[string]string{garbage.ID: "\x00garbage", "no-uuid": "{}"} {
		var letter DeadLetter
		if err := json.Unmarshal(r.letter(jobs.StageDecode, id).Data, &letter); err != nil {
			t.Fatal(err)
		}
		if string(letter.Raw) != raw || letter.Code != jobs.CodeInvalid || letter.Message == "" || letter.Job.ID != "" {
			t.Errorf("dead letter = %+v", letter)
		}
	}
}

// A message whose owner cannot be told, since the batch has no name, is taken off all the same.
func TestUnreadableMessageOfNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := testJob(jobs.Batch)
	record := fmt.Appendf(nil, `{"v":2,"stage":"decode","job":{"user":"user","batch":%q}}`, strings.Repeat("u", 1000))
	r.publish(protocol.SubjectOf(j, jobs.StageDecode), "1", record)
	r.start(protocol.RoleDecode, 1, answer)
	r.letter(jobs.StageDecode, j.ID)
	r.eventually("message taken off", func() bool { return r.waiting(StreamRelay) == 0 })
	if n := r.waiting(StreamResults); n != 0 {
		t.Errorf("%d results for nobody", n)
	}
}

// What opens a KV state is in no dead letter, not even in the record of a newer worker that this one cannot read.
func TestUnreadableHandoverKeepsItsSecrets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := testJob(jobs.Batch)
	record := fmt.Appendf(nil, `{"v":2,"stage":"decode","state":{"url":"http://192.0.2.1:1/state/00ff","token":"s3cret","bytes":5},"job":{"user":"user","batch":"batch"}}`)
	r.publish(protocol.SubjectOf(j, jobs.StageDecode), "1", record)
	r.start(protocol.RoleDecode, 1, answer)
	var letter DeadLetter
	if err := json.Unmarshal(r.letter(jobs.StageDecode, j.ID).Data, &letter); err != nil {
		t.Fatal(err)
	}
	if raw := string(letter.Raw); raw != `{"v":2,"stage":"decode","state":{"url":"","token":"","bytes":5},"job":{"user":"user","batch":"batch"}}` {
		t.Errorf("dead letter holds %s", raw)
	}
}

// A server that does not answer when a message is taken off holds nobody up.
func TestUnreadableMessageUnanswered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.inbox("nobody.answers")
	s := r.prepare(protocol.RoleDecode, 1, answer)
	msg := &nats.Msg{Subject: protocol.JobSubject(jobs.StageDecode, testModel, jobs.Batch, "user", jobs.NewID()), Reply: "nobody.answers"}
	ctx, cancel := context.WithTimeout(t.Context(), 3*tryLimit)
	defer cancel()
	err := (&delivery{arrival: arrival{msg: msg}, w: s.Worker}).deadLetterMalformed(ctx, errors.New("it cannot be read"))
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("buryUnread = %v, want it to give up in time", err)
	}
}

func TestServerRestartInMidBatch(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, natsembed.Options{Dir: t.TempDir()})
	var done book
	some := make(chan struct{}, 100)
	slow := func(run func(context.Context, *protocol.Task) (protocol.Outcome, error)) func(context.Context, *protocol.Task) (protocol.Outcome, error) {
		return func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
			<-time.After(20 * time.Millisecond)
			defer func() { some <- struct{}{} }()
			return run(ctx, task)
		}
	}
	r.start(protocol.RolePrefill, 3, done.note(slow(passOn)))
	r.start(protocol.RoleDecode, 3, done.note(slow(answer)))
	list := several(50, jobs.Batch)
	r.submit(list...)
	for range 2 {
		for range 15 {
			<-some
		}
		if err := r.server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, res := range r.results(list...) {
		if res.Status != jobs.Succeeded {
			t.Errorf("result = %+v", res)
		}
	}
}

// A consumer that somebody deleted is there again, and the jobs are done.
func TestDeletedConsumer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(protocol.RoleDecode, 1, answer)
	r.asking(protocol.RoleDecode, 2)
	if err := r.js.DeleteConsumer(t.Context(), StreamRelay, protocol.ConsumerName(protocol.RoleDecode, testModel, jobs.Batch)); err != nil {
		t.Fatal(err)
	}
	j := testJob(jobs.Batch)
	r.relay(j)
	r.results(j)
}

// The connection is away for longer than the server waits. The job goes on, is not run twice here, and
// is not at fault.
func TestLostConnectionIsNoBlame(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, natsembed.Options{Dir: t.TempDir()}, ackWait(3*time.Second))
	var done book
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	r.start(protocol.RoleDecode, 2, done.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		begun <- struct{}{}
		if done.times() == 1 {
			<-goOn
			return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineFailed, "failed")
		}
		return answer(ctx, task)
	}))
	j := testJob(jobs.Batch)
	r.relay(j)
	<-begun
	r.server.Stop()
	<-time.After(r.timing.AckWait + r.timing.InProgressEvery)
	if err := r.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.eventually("hand-backs", func() bool {
		h, _, err := r.readHistory(t.Context(), historyKey(jobs.StageDecode, j.User, j.ID))
		return err == nil && h.HandBacks > 0
	})
	r.asking(protocol.RoleDecode, 2)
	if n := done.times(); n != 1 {
		t.Errorf("the job runs %d times at once", n)
	}
	close(goOn)
	if res := r.results(j)[0]; res.Status != jobs.Succeeded || res.Attempts.Decode != 2 {
		t.Errorf("result = %+v", res)
	}
}
