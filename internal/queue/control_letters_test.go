package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// brokenFor is a decode whose engine refuses every job until fixed is set.
func brokenFor(fixed *atomic.Bool) func(context.Context, *protocol.Task) (protocol.Outcome, error) {
	return func(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
		if !fixed.Load() {
			return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineRefused, "the engine says no")
		}
		return answer(ctx, t)
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var never atomic.Bool
	r.start(protocol.RoleDecode, 1, brokenFor(&never))
	list := input(3)
	other := testJob(jobs.Batch, func(j *jobs.Job) { j.User = "other" })
	for _, j := range append(list, other) { // one after the other, so that their order is known
		r.relay(j)
		if res := r.result(j); res.Status != jobs.Failed || res.Error.Code != jobs.CodeEngineRefused {
			t.Fatalf("result = %+v", res)
		}
		r.letter(jobs.StageDecode, j.ID)
	}
	listed := func(f LetterFilter) (found []string) {
		t.Helper()
		for l, err := range r.DeadLetters(t.Context(), f) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, l.JobID)
		}
		return found
	}
	for _, tt := range []struct {
		filter LetterFilter
		want   int
	}{
		{LetterFilter{}, 4}, {LetterFilter{User: "user"}, 3}, {LetterFilter{Batch: list[0].Batch}, 3}, {LetterFilter{User: "other"}, 1},
		{LetterFilter{Model: testModel}, 4}, {LetterFilter{Model: "none:1b"}, 0},
		{LetterFilter{Stage: jobs.StageDecode}, 4}, {LetterFilter{Stage: jobs.StagePrefill}, 0},
	} {
		if got := listed(tt.filter); len(got) != tt.want {
			t.Errorf("DeadLetters(%+v) = %d letters, want %d", tt.filter, len(got), tt.want)
		}
	}
	if got := listed(LetterFilter{}); got[0] != list[0].ID || got[3] != other.ID {
		t.Errorf("order = %q", got)
	}

	l, err := r.DeadLetter(t.Context(), list[1].ID)
	if err != nil {
		t.Fatal(err)
	}
	if l.JobID != list[1].ID || l.Model != testModel || l.Stage != jobs.StageDecode || l.Code != jobs.CodeEngineRefused ||
		l.Job.Prompt != list[1].Prompt || l.FailedAt.IsZero() || l.Worker == "" {
		t.Errorf("letter = %+v", l)
	}
	if err := r.DropDeadLetter(t.Context(), list[1].ID); err != nil {
		t.Fatal(err)
	}
	_, err = r.DeadLetter(t.Context(), list[1].ID)
	wantError(t, err, jobs.CodeInvalid, "no dead letter", list[1].ID)
	wantError(t, r.DropDeadLetter(t.Context(), list[1].ID), jobs.CodeInvalid, "no dead letter")
	wantError(t, r.DropDeadLetter(t.Context(), ">"), jobs.CodeInvalid, "UUID")
	if got := listed(LetterFilter{}); len(got) != 3 {
		t.Errorf("%d letters after dropping one of 4", len(got))
	}
}

// A replay is one new job however often it is asked for, and whoever asks for the old job gets its result.
func TestReplay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	var fixed atomic.Bool
	var done book
	r.start(protocol.RoleDecode, 1, done.note(brokenFor(&fixed)))
	r.start(protocol.RolePrefill, 1, passOn)
	list := input(2)
	r.submit(list...)
	for res, err := range c.AwaitBatch(patient(t), list[0].Batch, ids(list)) {
		if err != nil || res.Status != jobs.Failed {
			t.Fatalf("result = %+v, %v", res, err)
		}
	}
	old := list[0]
	first, again, err := r.Replay(t.Context(), old.ID)
	if err != nil || again || first == old.ID {
		t.Fatalf("Replay = %s, %t, %v", first, again, err)
	}
	if res, err := c.Await(patient(t), old.ID); err != nil || res.JobID != first || res.Status != jobs.Failed || res.ReplayOf != old.ID {
		t.Errorf("Await of the old job = %+v, %v; want the failed replay", res, err)
	}

	fixed.Store(true)
	if id, again, err := r.Replay(t.Context(), old.ID); err != nil || !again || id != first {
		t.Errorf("replaying again = %s, %t, %v; want %s, again", id, again, err, first)
	}
	var news, agains atomic.Int32
	var all sync.WaitGroup
	for range 6 { // the replay failed too, and is itself replayed by several at once
		all.Go(func() {
			_, again, err := r.Replay(t.Context(), first)
			switch {
			case err != nil:
				t.Errorf("Replay: %v", err)
			case again:
				agains.Add(1)
			default:
				news.Add(1)
			}
		})
	}
	all.Wait()
	if news.Load() != 1 || agains.Load() != 5 {
		t.Errorf("%d new replays and %d that were there, want 1 and 5", news.Load(), agains.Load())
	}
	res, err := c.Await(patient(t), old.ID)
	if err != nil || res.Status != jobs.Succeeded || res.ReplayOf != first || res.CustomID != old.CustomID || res.Batch != old.Batch {
		t.Errorf("Await = %+v, %v; want the second replay's", res, err)
	}
	if got, err := c.Result(t.Context(), old.ID); err != nil || got.JobID != res.JobID {
		t.Errorf("Result = %+v, %v", got, err)
	}
	status := map[jobs.Status]int{}
	for res, err := range c.AwaitBatch(patient(t), old.Batch, ids(list)) {
		if err != nil {
			t.Fatal(err)
		}
		status[res.Status]++
	}
	if status[jobs.Succeeded] != 1 || status[jobs.Failed] != 1 {
		t.Errorf("AwaitBatch = %v, want one succeeded by replay, and one failed", status)
	}
	if n := done.times(); n != 4 {
		t.Errorf("decode ran %d times, want 4: two jobs and two replays", n)
	}
}

// A replay that is interrupted, before the server has stored it or before its answer has come, and one that finds the queue
// full, is done by the next one, once.
func TestInterruptedReplay(t *testing.T) {
	t.Parallel()
	for name, interrupt := range map[string]func(r *rig, c *Client, ctx context.Context, id string) error{
		"before it is stored": func(r *rig, c *Client, ctx context.Context, id string) error {
			ctx, cancel := context.WithCancelCause(ctx)
			c.js = beforePublish{c.js, func() { cancel(errStopped) }}
			_, _, err := c.Replay(ctx, id)
			return err
		},
		"before the answer": func(r *rig, c *Client, ctx context.Context, id string) error {
			stored := r.inbox(protocol.SubjectIntake)
			ctx, cancel := context.WithCancelCause(ctx)
			c.js = beforePublish{c.js, func() {
				if _, _, err := r.Replay(ctx, id); err != nil { // what the server has stored, and could not say
					r.t.Error(err)
				}
				<-stored
				cancel(errStopped)
			}}
			_, _, err := c.Replay(ctx, id)
			return err
		},
		"by a full queue": func(r *rig, c *Client, ctx context.Context, id string) error {
			r.limitIntake(1)
			other := testJob(jobs.Batch)
			r.submit(other)
			_, _, err := c.Replay(ctx, id)
			if !errors.Is(err, jobs.ErrQueueFull) {
				r.t.Errorf("Replay while the queue is full = %v", err)
			}
			r.limitIntake(9)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var never, fixed atomic.Bool
			fixed.Store(true)
			s := r.start(protocol.RoleDecode, 1, brokenFor(&never))
			j := testJob(jobs.Batch)
			r.relay(j)
			r.result(j)
			if err := s.stop(); err != nil {
				t.Fatal(err)
			}
			if err := interrupt(r, NewClient(r.connect(), "user"), t.Context(), j.ID); err == nil {
				t.Fatal("the replay was not interrupted")
			}
			for range 2 {
				if id, _, err := r.Replay(t.Context(), j.ID); err != nil || id != replayID(j.ID) {
					t.Fatalf("Replay = %s, %v", id, err)
				}
			}
			var done book
			r.start(protocol.RoleDecode, 1, done.note(brokenFor(&fixed)))
			if res, err := r.client().Await(patient(t), j.ID); err != nil || res.Status != jobs.Succeeded || res.ReplayOf != j.ID {
				t.Errorf("Await = %+v, %v", res, err)
			}
			ran, _ := done.list()
			if n := strings.Count(strings.Join(ran, " "), replayID(j.ID)); n != 1 {
				t.Errorf("the replay ran %d times", n)
			}
		})
	}
}

// beforePublish lets a test come before a publish.
type beforePublish struct {
	jetstream.JetStream
	do func()
}

func (b beforePublish) PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	b.do()
	return b.JetStream.PublishMsg(ctx, m, opts...)
}

// Awaiting a batch follows a replay that is still to come.
func TestAwaitBatchFollowsReplay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	var fixed atomic.Bool
	decode := r.start(protocol.RoleDecode, 1, brokenFor(&fixed))
	list := input(2)
	r.finish(list[0])
	r.relay(list[1])
	r.result(list[1])
	if err := decode.stop(); err != nil {
		t.Fatal(err)
	}
	replay, _, err := r.Replay(t.Context(), list[1].ID)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Result(t.Context(), list[1].ID)
	wantError(t, err, jobs.CodeTimeout, replay, string(PlaceIntake))
	fixed.Store(true)
	var got []string
	for res, err := range c.AwaitBatch(patient(t), list[0].Batch, ids(list)) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, res.JobID); len(got) == 1 {
			r.start(protocol.RoleDecode, 1, brokenFor(&fixed))
			r.start(protocol.RolePrefill, 1, passOn)
		}
	}
	if len(got) != 2 || got[0] != list[0].ID || got[1] != replay {
		t.Errorf("AwaitBatch = %q, want %q", got, []string{list[0].ID, replay})
	}
	if cancelled, err := c.Cancel(t.Context(), list[1].ID); err != nil || cancelled.JobID != replay || cancelled.Was != jobs.PriorFinished {
		t.Errorf("Cancel of a replayed job = %+v, %v; want its replay, finished", cancelled, err)
	}
}

func TestReplayRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := jobs.NewID()
	_, _, err := r.Replay(t.Context(), id)
	wantError(t, err, jobs.CodeInvalid, "no dead letter")
	letter := DeadLetter{Code: jobs.CodeInvalid, Message: "no JSON", User: "user", Raw: []byte("{")}
	if err := r.PublishDeadLetter(t.Context(), jobs.StagePrefill, testModel, id, letter); err != nil {
		t.Fatal(err)
	}
	_, _, err = r.Replay(t.Context(), id)
	wantError(t, err, jobs.CodeInvalid, "could not be read", id)
	if l, err := r.DeadLetter(t.Context(), id); err != nil || string(l.Raw) != "{" || l.JobID != id {
		t.Errorf("DeadLetter = %+v, %v", l, err)
	}
	_, err = r.client().Result(t.Context(), id)
	wantError(t, err, jobs.CodeInvalid, "dead-letter")
}

func TestReplayID(t *testing.T) {
	id := jobs.NewID()
	a, b := replayID(id), replayID(replayID(id))
	if a != replayID(id) || a == b || a == id {
		t.Errorf("replay ids %s, %s of %s", a, b, id)
	}
	j := testJob(jobs.Batch, func(j *jobs.Job) { j.ID, j.ReplayOf = a, id })
	if err := j.Validate(); err != nil {
		t.Errorf("a replay's id is not valid: %v", err)
	}
}

// What could not be read is purged with its batch, and one broken letter hides no other.
func TestPurgeOfUnreadableJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := testJob(jobs.Batch)
	if _, err := r.js.Publish(t.Context(), protocol.DLQSubject(jobs.StageDecode, testModel, "user", jobs.NewID()), []byte("no letter")); err != nil {
		t.Fatal(err)
	}
	record := fmt.Appendf(nil, `{"v":2,"stage":"decode","job":{"user":%q,"batch":%q}}`, j.User, j.Batch)
	r.publish(protocol.SubjectOf(j, jobs.StageDecode), "1", record)
	r.start(protocol.RoleDecode, 1, answer)
	r.letter(jobs.StageDecode, j.ID)
	r.result(j)
	r.eventually("message taken off", func() bool { return r.waiting(StreamRelay) == 0 })
	p, err := r.client().PurgeBatch(t.Context(), j.Batch)
	if want := (Purged{Results: 1, DeadLetters: 1}); err != nil || p != want {
		t.Errorf("PurgeBatch = %+v, %v; want %+v", p, err, want)
	}
	if n := r.waiting(StreamDLQ); n != 1 {
		t.Errorf("%d dead letters are left, want the broken one", n)
	}
}
