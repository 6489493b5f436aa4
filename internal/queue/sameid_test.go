package queue

import (
	"context"
	"sync"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Ids are made by clients. Jobs of two users that have the same are two jobs, wherever they are: what becomes of one does nothing to the other.
func TestSameIDOfTwoUsers(t *testing.T) {
	t.Parallel()
	pair := func() (mine, others *jobs.Job) {
		mine = testJob(jobs.Batch)
		others = testJob(jobs.Batch, func(j *jobs.Job) { j.ID, j.User, j.Prompt = mine.ID, "other.user", "another's" })
		return mine, others
	}
	submit := func(t *testing.T, r *rig, list ...*jobs.Job) {
		for _, j := range list {
			if err := NewClient(r.Conn, j.User).Submit(t.Context(), j, SubmitOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	succeeded := func(t *testing.T, r *rig, list ...*jobs.Job) {
		for _, j := range list {
			if res := r.result(j); res.Status != jobs.Succeeded || res.User != j.User {
				t.Errorf("job of %s: result = %+v, want a success", j.User, res)
			}
		}
	}
	t.Run("both are done", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		mine, others := pair()
		submit(t, r, mine, others)
		var mu sync.Mutex
		prompts := map[string]int{}
		r.startPrefill(2, passOn)
		r.start(protocol.RoleDecode, 2, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
			mu.Lock()
			prompts[task.Job.Prompt]++
			mu.Unlock()
			return answer(ctx, task)
		})
		succeeded(t, r, mine, others)
		mu.Lock()
		defer mu.Unlock()
		if prompts[mine.Prompt] != 1 || prompts[others.Prompt] != 1 {
			t.Errorf("decode had %v, want each prompt once", prompts)
		}
	})
	for _, stage := range []jobs.Stage{jobs.StagePrefill, jobs.StageDecode} {
		t.Run("one is cancelled before "+string(stage), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			mine, others := pair()
			if stage == jobs.StagePrefill {
				submit(t, r, mine, others)
			} else {
				r.relay(mine, others)
			}
			if got, err := NewClient(r.Conn, mine.User).Cancel(t.Context(), mine.ID); err != nil || got.Was != jobs.PriorQueued {
				t.Errorf("Cancel = %+v, %v; want queued", got, err)
			}
			r.start(protocol.RolePrefill, 1, passOn)
			r.start(protocol.RoleDecode, 1, answer)
			succeeded(t, r, others)
			if res := r.result(mine); res.Status != jobs.Cancelled {
				t.Errorf("result = %+v, want the cancelled one", res)
			}
		})
	}
	t.Run("one is cancelled while both run", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		mine, others := pair()
		begun, goOn := make(chan struct{}, 2), make(chan struct{})
		r.start(protocol.RoleDecode, 2, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
			begun <- struct{}{}
			select {
			case <-goOn:
			case <-ctx.Done():
				return protocol.Outcome{}, context.Cause(ctx)
			}
			return answer(ctx, task)
		})
		r.relay(mine, others)
		<-begun
		<-begun
		if got, err := NewClient(r.Conn, mine.User).Cancel(t.Context(), mine.ID); err != nil || got.Was != jobs.PriorRunning {
			t.Errorf("Cancel = %+v, %v; want running", got, err)
		}
		close(goOn)
		succeeded(t, r, others)
	})
	t.Run("the operator cancels both while they run", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		mine, others := pair()
		begun := make(chan struct{}, 2)
		r.start(protocol.RoleDecode, 2, func(ctx context.Context, _ *protocol.Task) (protocol.Outcome, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return protocol.Outcome{}, context.Cause(ctx)
		})
		r.relay(mine, others)
		<-begun
		<-begun
		got, err := r.cancelBatch(t.Context(), "", mine.Batch, time.Time{})
		if err != nil || len(got.Jobs) != 2 || got.Jobs[0].Was != jobs.PriorRunning || got.Jobs[1].Was != jobs.PriorRunning {
			t.Errorf("cancelBatch = %+v, %v; want two that ran", got, err)
		}
	})
	t.Run("letters", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		mine, others := pair()
		for _, j := range []*jobs.Job{mine, others} {
			if err := r.PublishDeadLetter(t.Context(), jobs.StageDecode, testModel, j.ID, DeadLetter{Code: jobs.CodeInvalid, Job: *j}); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.dropLetter(t.Context(), mine.User, mine.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Conn.letter(t.Context(), mine.User, mine.ID); err == nil {
			t.Error("a letter is there that was dropped")
		}
		if l, err := r.Conn.letter(t.Context(), others.User, others.ID); err != nil || l.Job.Prompt != others.Prompt {
			t.Errorf("the other's letter = %+v, %v", l, err)
		}
	})
}
