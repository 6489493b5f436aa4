package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"tandem/jobs"
)

// An engine that dies with many jobs at work is one failure in a row of them, not a worker whose budget of retries is spent: it
// may try again as soon as one with three slots, after the first success it has all of them again, and with the next crash it is the same.
func TestCrashOfManySlotsSpendsNoBudget(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 8, 64} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker()
			for crash := range 3 {
				for range slots {
					b.failed(jobs.CodeEngineUnreachable, true)
				}
				if got := b.pause(t); slots >= tripAfter && got != tripPause {
					t.Errorf("%d slots: pause = %v after crash %d, want %v", slots, got, crash, tripPause)
				}
				end := b.begin()
				b.succeeded()
				end()
				if b.tripped() {
					t.Errorf("%d slots: jobs are tried one at a time after crash %d and a success", slots, crash)
				}
				for range 5 * retryCost / retryEarns { // what a crash may cost at most, and more, is earned until the next
					b.succeeded()
				}
			}
		})
	}
}

// Failures during a pause that the budget imposed make it no longer.
func TestFailuresDuringPauseOfBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		for b.overdraw == 0 {
			b.succeeded()
			b.failed(jobs.CodeEngineFailed, true)
		}
		b.failed(jobs.CodeEngineFailed, true) // the second in a row
		if got := b.pause(t); got != tripPause {
			t.Errorf("pause = %v, want %v", got, tripPause)
		}
		if pause := b.failed(jobs.CodeEngineFailed, true); pause != 2*time.Second {
			t.Errorf("the try after the pause fails, and is followed by %v, want 2 s", pause)
		}
	})
}
