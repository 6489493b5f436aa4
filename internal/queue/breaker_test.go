package queue

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/jobs"
)

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		pause := func() time.Duration {
			t.Helper()
			start := time.Now()
			waited, err := b.wait(t.Context())
			if took := time.Since(start); err != nil || waited != (took > 0) {
				t.Fatalf("wait = %t, %v after %v", waited, err, took)
			}
			return time.Since(start)
		}
		for _, want := range []time.Duration{0, 0, 1, 2, 4, 8, 16, 30, 30} {
			end := b.begin()
			b.failed(jobs.CodeEngineFailed)
			if paused := b.problem() != ""; paused != (want > 0) {
				t.Errorf("problem = %q before a pause of %d s", b.problem(), want)
			}
			end()
			if got := pause(); got != want*time.Second {
				t.Errorf("pause = %v, want %d s", got, want)
			}
			if b.problem() != "" {
				t.Errorf("problem = %q when it may try again", b.problem())
			}
		}
		end := b.begin() // one at a time
		time.AfterFunc(time.Minute, end)
		if got := pause(); got != time.Minute {
			t.Errorf("waited %v for the only try, want a minute", got)
		}
		end = b.begin()
		time.AfterFunc(time.Minute, b.succeeded)
		if got := pause(); got != time.Minute {
			t.Errorf("waited %v for a success, want a minute", got)
		}
		end()
		b.failed(jobs.CodeEngineFailed)
		if got := pause(); got != 0 {
			t.Errorf("waited %v after one failure since the last success", got)
		}
	})
}

// A worker that fails whatever it gets leaves the jobs to another one, and says what it suffers from.
func TestBrokenWorkerLeavesJobsToOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var broken, healthy book
	b := r.start(jobs.RoleDecode, 1, broken.note(func(context.Context, *jobs.Task) (jobs.Outcome, error) {
		return jobs.Outcome{}, jobs.Errorf(jobs.CodeEngineFailed, "failed")
	}))
	r.start(jobs.RoleDecode, 1, healthy.note(func(ctx context.Context, task *jobs.Task) (jobs.Outcome, error) {
		<-time.After(50 * time.Millisecond)
		return answer(ctx, task)
	}))
	r.present("both workers", func(l []Presence) bool { return len(l) == 2 })
	list := several(40, jobs.Batch)
	r.relay(list...)
	r.present("the broken worker's problem", func(l []Presence) bool {
		for _, p := range l {
			if p.Worker == b.cfg.ID && !p.Live() && strings.Contains(p.Problem, "failures in a row, the last: engine_failed") {
				return true
			}
		}
		return false
	})
	for _, res := range r.results(list...) {
		if res.Status != jobs.Succeeded {
			t.Errorf("result = %+v, error %+v", res, res.Error)
		}
	}
	if n := broken.times(); n > 8 {
		t.Errorf("the broken worker had %d jobs", n)
	}
}

// The jobs of a prefill worker that pauses are taken over, and it tries again later.
func TestTakeoverWhilePrefillPauses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var prefills, decodes book
	r.start(jobs.RolePrefill, 1, prefills.note(func(ctx context.Context, task *jobs.Task) (jobs.Outcome, error) {
		if prefills.times() <= 4 {
			return jobs.Outcome{}, jobs.Errorf(jobs.CodeEngineFailed, "failed")
		}
		return passOn(ctx, task)
	}))
	r.start(jobs.RoleDecode, 2, decodes.note(answer))
	list := several(8, jobs.Batch)
	r.submit(list...)
	for _, res := range r.results(list...) {
		if res.Status != jobs.Succeeded {
			t.Errorf("result = %+v, error %+v", res, res.Error)
		}
	}
	r.eventually("prefill at work again", func() bool {
		j := testJob(jobs.Batch)
		r.submit(j)
		return r.result(j).Method == jobs.MethodDisaggregated
	})
}
