package pipeline_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// held runs a job that ends after prefill.
func (r *rig) held(t *testing.T, bytes int64) *jobs.Job {
	t.Helper()
	r.engine.prefilled, r.holder.state.Bytes = r.saved(t), bytes
	task, _ := task(jobs.StagePrefill, "", nil)
	task.Job.Hold = true
	outcome, err := r.Run(t.Context(), task)
	if err != nil || outcome.Next != nil || outcome.Result == nil {
		t.Fatalf("%+v, %v; want a result", outcome, err)
	}
	if got := outcome.Result; got.Status != jobs.Succeeded || got.FinishReason != jobs.FinishHeld || got.Text != "" || got.Usage.PromptTokens != 2038 || got.Handover.Bytes != bytes || got.Servers.Prefill != "here/w" {
		t.Errorf("the result is %+v", got)
	}
	outcome.Settled(true)
	return task.Job
}

// after runs a job that continues another one.
func (r *rig) after(t *testing.T, before *jobs.Job, change func(*jobs.Job)) (*jobs.Job, protocol.Outcome) {
	t.Helper()
	task, _ := task(jobs.StagePrefill, "", nil)
	task.Job.Continues = before.ID
	if change != nil {
		change(task.Job)
	}
	r.engine.prefilled = r.saved(t)
	outcome, err := r.Run(t.Context(), task)
	if err != nil || outcome.Next == nil {
		t.Fatalf("%+v, %v; want a hand-over", outcome, err)
	}
	return task.Job, outcome
}

const lost = "left is not here any more"

// What a job with hold leaves is what the job goes on from that continues it, once.
func TestHeldJobIsContinued(t *testing.T) {
	r := newRig(t)
	before := r.held(t, 100e6)
	j, outcome := r.after(t, before, nil)
	if n := outcome.Next; n.Job.ID != j.ID || n.State == nil || n.State.Bytes != 100e6 || n.Prefill.PromptTokens != 2038 || strings.Contains(n.Decision, lost) {
		t.Errorf("the hand-over is %+v", n)
	}
	outcome.Settled(true)
	if want := []string{before.ID + " passed to " + j.ID, "published " + j.ID}; !slices.Equal(r.holder.told, want) {
		t.Errorf("the holder was told %q, want %q", r.holder.told, want)
	}
	if _, outcome := r.after(t, before, nil); !strings.Contains(outcome.Next.Decision, lost) || outcome.Next.State == nil {
		t.Errorf("the second time the decision is %q, with state %v; want the prompt computed again", outcome.Next.Decision, outcome.Next.State)
	}
}

// It is nobody else's, and of no other prompt; and where the state is gone, the prompt is computed again.
func TestHeldJobIsNotContinued(t *testing.T) {
	for name, change := range map[string]func(*rig, *jobs.Job){
		"another user":        func(_ *rig, j *jobs.Job) { j.User = "mallory" },
		"another prompt":      func(_ *rig, j *jobs.Job) { j.Prompt = "y" },
		"another model":       func(_ *rig, j *jobs.Job) { j.Model = "n:latest" },
		"an unknown job":      func(_ *rig, j *jobs.Job) { j.Continues = jobs.NewID() },
		"a state that's gone": func(r *rig, _ *jobs.Job) { r.holder.lost = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			_, outcome := r.after(t, r.held(t, 100e6), func(j *jobs.Job) { change(r, j) })
			if !strings.Contains(outcome.Next.Decision, lost) {
				t.Errorf("the decision is %q", outcome.Next.Decision)
			}
		})
	}
}

// What is held for nobody neither stays nor takes the room of others.
func TestHeldJobsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t) // with room for 1 GB
		first, second := r.held(t, 100e6), r.held(t, 100e6)
		third := r.held(t, 100e6)
		if want := []string{"released " + first.ID}; !slices.Equal(r.holder.told, want) {
			t.Errorf("the holder was told %q, want %q", r.holder.told, want)
		}
		time.Sleep(10 * time.Minute)
		if _, outcome := r.after(t, second, nil); !strings.Contains(outcome.Next.Decision, lost) {
			t.Errorf("after ten minutes the decision is %q", outcome.Next.Decision)
		}
		r.holder.told = nil
		r.held(t, 100e6)
		if want := []string{"released " + second.ID, "released " + third.ID}; !slices.Equal(r.holder.told, want) {
			t.Errorf("after ten minutes the holder was told %q, want %q", r.holder.told, want)
		}
	})
}

// A result that is not published leaves nothing.
func TestHeldJobThatWasNotPublished(t *testing.T) {
	r := newRig(t)
	r.engine.prefilled = r.saved(t)
	task, _ := task(jobs.StagePrefill, "", nil)
	task.Job.Hold = true
	outcome, err := r.Run(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	outcome.Settled(false)
	if want := []string{"released " + task.Job.ID}; !slices.Equal(r.holder.told, want) {
		t.Errorf("the holder was told %q, want %q", r.holder.told, want)
	}
}

// A decode machine cannot do what hold asks for.
func TestHeldJobNeedsPrefill(t *testing.T) {
	task, _ := task(jobs.StageFallback, "", nil)
	task.Job.Hold = true
	if _, err := newRig(t).Run(t.Context(), task); jobs.CodeOf(err) != jobs.CodeEngineRefused || !strings.Contains(err.Error(), "no prefill worker") {
		t.Errorf("error %v (%s)", err, jobs.CodeOf(err))
	}
}
