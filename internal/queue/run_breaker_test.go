package queue

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// pause is how long a worker waits for its breaker.
func (b *breaker) pause(t *testing.T) time.Duration {
	t.Helper()
	start := time.Now()
	waited, err := b.wait(t.Context())
	if took := time.Since(start); err != nil || waited != (took > 0) {
		t.Fatalf("wait = %t, %v after %v", waited, err, took)
	}
	return time.Since(start)
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		for _, want := range []time.Duration{0, 0, 1, 2, 4, 8, 16, 30, 30} {
			end := b.begin()
			b.failed(jobs.CodeEngineFailed, true)
			if paused := b.problem() != ""; paused != (want > 0) {
				t.Errorf("problem = %q before a pause of %d s", b.problem(), want)
			}
			end()
			if got := b.pause(t); got != want*time.Second {
				t.Errorf("pause = %v, want %d s", got, want)
			}
			if b.problem() != "" {
				t.Errorf("problem = %q when it may try again", b.problem())
			}
		}
		end := b.begin() // one at a time
		time.AfterFunc(time.Minute, end)
		if got := b.pause(t); got != time.Minute {
			t.Errorf("waited %v for the only try, want a minute", got)
		}
		end = b.begin()
		time.AfterFunc(time.Minute, b.succeeded)
		if got := b.pause(t); got != time.Minute {
			t.Errorf("waited %v for a success, want a minute", got)
		}
		end()
		b.failed(jobs.CodeEngineFailed, false)
		if got := b.pause(t); got != 0 {
			t.Errorf("waited %v after one failure since the last success", got)
		}
	})
}

// Failures that are not in a row are paid from a budget, which successes fill.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	// each is how many successes come before each failure, pauses in seconds what follows the failures.
	for _, tt := range []struct {
		name       string
		each, most int // most failures
		again      bool
		pauses     map[int]time.Duration // by the number of the failure, from 1; the others are followed by none
	}{
		{"every second", 1, 16, true, map[int]time.Duration{10: 1, 11: 1, 12: 2, 13: 4, 14: 8, 15: 16, 16: 30}},
		{"every fourth", 3, 14, true, map[int]time.Duration{13: 1, 14: 2}},
		{"every eleventh", 10, 200, true, nil},
		{"every second, for the last time", 1, 200, false, nil}, // which has nothing done again
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker()
				for n := 1; n <= tt.most; n++ {
					for range tt.each {
						b.succeeded()
					}
					pause := b.failed(jobs.CodeEngineFailed, tt.again)
					if want := tt.pauses[n] * time.Second; pause != want || b.pause(t) != want {
						t.Fatalf("failure %d is followed by a pause of %v, want %v", n, pause, want)
					}
				}
			})
		})
	}
}

// When the budget has a retry again, the next failure that spends it is followed by the shortest pause.
func TestRetryBudgetIsEarnedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		fail := func() time.Duration {
			b.succeeded()
			return b.failed(jobs.CodeEngineFailed, true)
		}
		for b.pause(t) < 4*time.Second {
			if fail() > 0 && !strings.Contains(b.problem(), "too many of the last jobs failed, the last one: engine_failed") {
				t.Errorf("problem = %q", b.problem())
			}
		}
		end := b.begin()
		end()
		for range retryCost / retryEarns {
			if !b.tripped() {
				t.Error("jobs are not tried one at a time while the budget is spent")
			}
			b.succeeded()
		}
		if b.tripped() {
			t.Error("jobs are tried one at a time although the budget has a retry")
		}
		if pause := fail(); pause != tripPause {
			t.Errorf("pause = %v, want %v", pause, tripPause)
		}
	})
}

// A worker that fails whatever it gets leaves the jobs to another one, and says what it suffers from.
func TestBrokenWorkerLeavesJobsToOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var broken, healthy book
	b := r.start(protocol.RoleDecode, 1, broken.note(func(context.Context, *protocol.Task) (protocol.Outcome, error) {
		return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineFailed, "failed")
	}))
	r.start(protocol.RoleDecode, 1, healthy.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
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
	found := r.results(list...)
	ran, _ := broken.list()
	for _, res := range found { // it tries one now and then, and by chance the same job three times
		tries := 0
		for _, what := range ran {
			if what == "decode "+res.JobID {
				tries++
			}
		}
		if tries < protocol.MaxAttempts(jobs.StageDecode) && res.Status != jobs.Succeeded {
			t.Errorf("result = %+v, error %+v", res, res.Error)
		}
	}
	if n := len(ran); n > 8 {
		t.Errorf("the broken worker had %d jobs", n)
	}
}

// The jobs of a prefill worker that pauses are taken over, and it tries again later.
func TestTakeoverWhilePrefillPauses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var prefills, decodes book
	r.start(protocol.RolePrefill, 1, prefills.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		if prefills.times() <= 4 {
			return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineFailed, "failed")
		}
		return passOn(ctx, task)
	}))
	r.start(protocol.RoleDecode, 2, decodes.note(answer))
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

// A worker whose engine fails every second job pauses, too, and is down meanwhile. Bad requests are not the engine's fault,
// however many there are.
func TestUnreliableWorkerPauses(t *testing.T) {
	t.Parallel()
	for code, pauses := range map[jobs.Code]bool{jobs.CodeEngineFailed: true, jobs.CodeEngineRefused: false, jobs.CodeContextOverflow: false} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var done book
			r.start(protocol.RoleDecode, 1, done.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
				if done.times()%2 == 0 {
					return protocol.Outcome{}, jobs.Errorf(code, "failed")
				}
				return answer(ctx, task)
			}))
			const n = 30
			list := several(n, jobs.Batch)
			r.relay(list...)
			if pauses {
				r.present("the unreliable worker's problem", func(l []Presence) bool {
					return len(l) == 1 && !l[0].Live() && strings.Contains(l[0].Problem, "too many of the last jobs failed, the last one: engine_failed")
				})
				return
			}
			r.results(list...)
			if got := done.times(); got != n {
				t.Errorf("%d runs of %d jobs", got, n)
			}
		})
	}
}
