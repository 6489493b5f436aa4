package protocol

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"tandem/jobs"
)

func TestClassify(t *testing.T) {
	classes := map[ErrorClass][]jobs.Code{
		Permanent: {jobs.CodeInvalid, jobs.CodeUnknownModel, jobs.CodeContextOverflow, jobs.CodeEngineRefused, jobs.CodeAttempts},
		HandBack:  {jobs.CodeModelMissing, jobs.CodeEngineBusy, jobs.CodeDraining, jobs.CodeNATS, jobs.CodeQueueFull},
		Ended:     {jobs.CodeCancelled, jobs.CodeDeadline},
		Retry: {jobs.CodeEngineUnreachable, jobs.CodeEngineFailed, jobs.CodeEngineStalled, jobs.CodeWorkerLost, jobs.CodePanic,
			jobs.CodeHandoverMismatch, jobs.CodeDecodeMissing, jobs.CodeTimeout, "a code of a newer version"},
	}
	for want, codes := range classes {
		for _, code := range codes {
			if got := Classify(fmt.Errorf("run: %w", &jobs.Error{Code: code})); got != want {
				t.Errorf("Classify(%s) = %s, want %s", code, got, want)
			}
		}
	}
	for err, want := range map[error]ErrorClass{
		io.EOF:                   Retry,
		context.Canceled:         HandBack,
		context.DeadlineExceeded: Retry,
		jobs.Errorf(jobs.CodeEngineFailed, "decode: %w", context.Canceled): Retry,
	} {
		if got := Classify(err); got != want {
			t.Errorf("Classify(%v) = %s, want %s", err, got, want)
		}
	}
}

func TestRetryDelay(t *testing.T) {
	for attempt, want := range []time.Duration{800, 800, 1600, 3200, 6400, 12_800, 25_600, 25_600} {
		if got := RetryDelay(Retry, attempt); got != want*time.Millisecond {
			t.Errorf("RetryDelay(Retry, %d) = %v, want %v", attempt, got, want*time.Millisecond)
		}
	}
	if got := RetryDelay(Retry, 1<<30); got != 25_600*time.Millisecond {
		t.Errorf("RetryDelay of a huge attempt = %v, want 25.6s", got)
	}
	if got := RetryDelay(HandBack, 9); got != time.Second {
		t.Errorf("RetryDelay(HandBack, 9) = %v, want 1s", got)
	}
}
