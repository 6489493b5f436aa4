package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

func TestCancelQueued(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	inbox := r.nc.NewInbox()
	copies := r.inbox(inbox)
	j, waits := testJob(jobs.Batch), testJob(jobs.Batch)
	if err := c.Submit(t.Context(), j, SubmitOptions{ReplyTo: inbox}); err != nil {
		t.Fatal(err)
	}
	r.relay(waits)
	for i, want := range []jobs.Cancellation{{JobID: j.ID, Was: jobs.PriorQueued, Status: jobs.Cancelled}, {JobID: j.ID, Was: jobs.PriorFinished, Status: jobs.Cancelled}} {
		if got, err := c.Cancel(t.Context(), j.ID); err != nil || got != want {
			t.Errorf("Cancel, time %d = %+v, %v; want %+v", i+1, got, err, want)
		}
	}
	if got, err := c.Cancel(t.Context(), waits.ID); err != nil || got.Was != jobs.PriorQueued {
		t.Errorf("Cancel in the relay = %+v, %v", got, err)
	}
	for _, res := range r.results(j, waits) {
		if res.Status != jobs.Cancelled || res.Error.Code != jobs.CodeCancelled {
			t.Errorf("result = %+v, want cancelled", res)
		}
	}
	if res, err := c.Await(patient(t), j.ID); err != nil || res.Status != jobs.Cancelled {
		t.Errorf("Await = %+v, %v", res, err)
	}
	if m := <-copies; len(m.Data) == 0 || len(copies) != 0 {
		t.Errorf("the inbox got %q and %d more, want one copy", m.Data, len(copies))
	}
	// The workers that come later find nothing to do.
	var done book
	r.startPrefill(1, done.note(passOn))
	r.start(protocol.RoleDecode, 1, done.note(answer))
	last := testJob(jobs.Batch)
	r.submit(last)
	r.result(last)
	if n := done.times(); n != 2 {
		t.Errorf("%d runs, want the two of the last job", n)
	}
}

// Cancelling a job that runs returns when the engine has stopped.
func TestCancelRunning(t *testing.T) {
	t.Parallel()
	for _, stage := range []jobs.Stage{jobs.StagePrefill, jobs.StageDecode} {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c := r.client()
			begun, ended := make(chan struct{}), make(chan error, 1)
			block := func(ctx context.Context, _ *protocol.Task) (protocol.Outcome, error) {
				close(begun)
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return protocol.Outcome{}, context.Cause(ctx)
			}
			j := testJob(jobs.Interactive)
			if stage == jobs.StagePrefill {
				r.prefilling(r.prepare(protocol.RolePrefill, 1, block))
				r.submit(j)
			} else {
				r.start(protocol.RoleDecode, 1, block)
				r.relay(j)
			}
			<-begun
			got, err := c.Cancel(t.Context(), j.ID)
			if want := (jobs.Cancellation{JobID: j.ID, Was: jobs.PriorRunning, Status: jobs.Cancelled}); err != nil || got != want {
				t.Errorf("Cancel = %+v, %v; want %+v", got, err, want)
			}
			select {
			case cause := <-ended:
				if !errors.Is(cause, jobs.ErrCancelled) {
					t.Errorf("cause = %v, want ErrCancelled", cause)
				}
			default:
				t.Error("Cancel returned while the engine was still running")
			}
			if res := r.results(j)[0]; res.Status != jobs.Cancelled {
				t.Errorf("result = %+v", res)
			}
			if n := r.waiting(StreamDLQ); n != 0 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}

// A worker that does not stop does not hold up the caller for ever.
func TestCancelStubborn(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(t *Timing) { t.CancelWait = 50 * time.Millisecond })
	begun, goOn := make(chan struct{}), make(chan struct{})
	r.start(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		close(begun)
		<-goOn
		return answer(ctx, task)
	})
	j := testJob(jobs.Batch)
	r.relay(j)
	<-begun
	got, err := NewClient(r.connect(), "user").Cancel(t.Context(), j.ID)
	if err != nil || got.Was != jobs.PriorRunning {
		t.Errorf("Cancel = %+v, %v; want running", got, err)
	}
	close(goOn)
	if res := r.results(j)[0]; res.Status != jobs.Cancelled {
		t.Errorf("result = %+v, want cancelled whatever the worker did afterwards", res)
	}
}

func TestCancelFinished(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	j := testJob(jobs.Batch)
	r.finish(j)
	for range 2 {
		if got, err := c.Cancel(t.Context(), j.ID); err != nil || got != (jobs.Cancellation{JobID: j.ID, Was: jobs.PriorFinished, Status: jobs.Succeeded}) {
			t.Errorf("Cancel = %+v, %v; want finished", got, err)
		}
	}
	if res := r.results(j)[0]; res.Status != jobs.Succeeded {
		t.Errorf("result = %+v, want it unchanged", res)
	}
	// A result is there and the job still queued: a worker died between the two. The cancel cleans up.
	left := testJob(jobs.Batch)
	r.relay(left)
	r.finish(left)
	if got, err := c.Cancel(t.Context(), left.ID); err != nil || got != (jobs.Cancellation{JobID: left.ID, Was: jobs.PriorFinished, Status: jobs.Succeeded}) {
		t.Errorf("Cancel = %+v, %v; want finished", got, err)
	}
	if n := r.waiting(StreamRelay); n != 0 {
		t.Errorf("%d jobs in the relay", n)
	}
}

func TestCancelRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := testJob(jobs.Batch)
	r.submit(j)
	_, err := r.client().Cancel(t.Context(), jobs.NewID())
	wantError(t, err, jobs.CodeInvalid, "unknown")
	_, err = r.client().Cancel(t.Context(), ">")
	wantError(t, err, jobs.CodeInvalid, "UUID")
	_, err = NewClient(r.Conn, "somebody else").Cancel(t.Context(), j.ID)
	wantError(t, err, jobs.CodeInvalid, "unknown to user somebody else")
	if n := r.waiting(StreamIntake); n != 1 {
		t.Errorf("%d jobs in the intake, want 1", n)
	}
}

func TestCancelBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	list := input(30)
	other := testJob(jobs.Batch)
	begun := make(chan struct{}, 1)
	r.finish(list[0])
	r.relay(list[1])
	r.start(protocol.RoleDecode, 1, func(ctx context.Context, _ *protocol.Task) (protocol.Outcome, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return protocol.Outcome{}, context.Cause(ctx)
	}, func(cfg *WorkerConfig) { cfg.Describe = func() Presence { return Presence{State: StateReady} } })
	<-begun
	r.relay(list[2:5]...)
	r.submit(list[5:]...)
	r.submit(other)

	ended, _, err := c.CancelBatch(t.Context(), list[0].Batch)
	if err != nil {
		t.Fatal(err)
	}
	count := map[jobs.PriorState]int{}
	for _, e := range ended {
		count[e.Was]++
	}
	if len(ended) != 29 || count[jobs.PriorRunning] < 1 || count[jobs.PriorFinished] != 0 {
		t.Errorf("%d jobs were ended: %v; want 29, the one at the worker among them", len(ended), count)
	}
	for i, j := range list {
		want := jobs.Cancelled
		if i == 0 {
			want = jobs.Succeeded
		}
		if res := r.result(j); res.Status != want {
			t.Errorf("job %d: status %s, want %s", i, res.Status, want)
		}
	}
	again, _, err := c.CancelBatch(t.Context(), list[0].Batch)
	if err != nil || len(again) != 0 {
		t.Errorf("cancelling again ended %d jobs, %v", len(again), err)
	}
	if _, err := c.Cancel(t.Context(), other.ID); err != nil {
		t.Errorf("the other batch's job is gone: %v", err)
	}
}

// A worker whose engine stops only when the batch was purged leaves no record of its own.
func TestPurgeBeforeWorkerStops(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(t *Timing) { t.CancelWait = 50 * time.Millisecond })
	begun, goOn := make(chan struct{}), make(chan struct{})
	s := r.start(protocol.RoleDecode, 1, func(ctx context.Context, _ *protocol.Task) (protocol.Outcome, error) {
		close(begun)
		<-ctx.Done()
		<-goOn
		return protocol.Outcome{}, context.Cause(ctx)
	})
	j := testJob(jobs.Batch)
	r.relay(j)
	<-begun
	if _, err := NewClient(r.connect(), j.User).PurgeBatch(t.Context(), j.Batch); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	r.eventually("end of the delivery", func() bool { return s.slots.Busy() == 0 })
	if results, queued := r.waiting(StreamResults), r.waiting(StreamRelay); results+queued > 0 {
		t.Errorf("%d results and %d queued jobs, want none", results, queued)
	}
	if wait := DefaultTiming().CancelWait; wait < 4*time.Second {
		t.Errorf("a cancel waits %v, too short for an engine that takes 2 s to stop", wait)
	}
}

// A batch is found without keeping the text of its jobs, and the results say the same as if it had been kept.
func TestPendingJobsKeepNoText(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	list := []*jobs.Job{testJob(jobs.Batch), testJob(jobs.Batch)}
	r.submit(list[0])
	r.relay(list[1])
	found, err := c.pendingJobs(t.Context(), list[0].User, list[0].Batch)
	if err != nil || len(found) != 2 {
		t.Fatalf("pendingJobs = %d jobs, %v", len(found), err)
	}
	for _, l := range found {
		if l.job.Prompt != "" || l.msg != nil {
			t.Errorf("location = %+v holds the record", l)
		}
	}
	if _, _, err := c.CancelBatch(t.Context(), list[0].Batch); err != nil {
		t.Fatal(err)
	}
	for i, res := range r.results(list...) {
		if want := jobs.NewResult(list[i], jobs.Cancelled); res.Provenance.PromptSHA256 != want.Provenance.PromptSHA256 || res.Model != want.Model {
			t.Errorf("result = %+v, want %+v", res, want)
		}
	}
}
