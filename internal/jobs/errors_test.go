package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"
)

func TestErrorf(t *testing.T) {
	tests := []struct {
		err           *Error
		message, text string
	}{
		{Errorf(CodeInvalid, "n is %d", 5), "n is 5", "n is 5"},
		{Errorf(CodeNATS, "connect: %w", io.EOF), "connect", "connect: EOF"},
		{Errorf(CodeNATS, "connect: %w: try again", io.EOF), "connect: EOF: try again", "connect: EOF: try again"},
		{Errorf(CodeInvalid, "job: %w", Errorf(CodeInvalid, "v is 2")), "job", "job: v is 2"},
	}
	for _, tt := range tests {
		if tt.err.Message != tt.message || tt.err.Error() != tt.text {
			t.Errorf("Errorf: message %q, text %q; want %q, %q", tt.err.Message, tt.err, tt.message, tt.text)
		}
	}
	if err := Errorf(CodeNATS, "connect: %w: try again", io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("errors.Is(%v, io.EOF) = false", err)
	}
}

func TestIs(t *testing.T) {
	wrapped := fmt.Errorf("run: %w", Errorf(CodeCancelled, "somebody asked for it: %w", io.EOF))
	if !errors.Is(wrapped, ErrCancelled) {
		t.Errorf("errors.Is(%v, ErrCancelled) = false, want true", wrapped)
	}
	if errors.Is(wrapped, ErrDeadline) {
		t.Errorf("errors.Is(%v, ErrDeadline) = true, want false", wrapped)
	}
	if CodeOf(wrapped) != CodeCancelled || CodeOf(io.EOF) != CodeEngineFailed {
		t.Errorf("CodeOf = %s and %s, want %s and %s", CodeOf(wrapped), CodeOf(io.EOF), CodeCancelled, CodeEngineFailed)
	}
}

func TestClassify(t *testing.T) {
	classes := map[ErrorClass][]Code{
		Permanent: {CodeInvalid, CodeUnknownModel, CodeContextOverflow, CodeEngineRefused, CodeAttempts},
		HandBack:  {CodeModelMissing, CodeEngineBusy, CodeDraining, CodeNATS, CodeQueueFull},
		Ended:     {CodeCancelled, CodeDeadline},
		Retry: {CodeEngineUnreachable, CodeEngineFailed, CodeEngineStalled, CodeWorkerLost, CodePanic,
			CodeHandoverMismatch, CodeDecodeMissing, CodeTimeout, "a code of a newer version"},
	}
	for want, codes := range classes {
		for _, code := range codes {
			if got := Classify(fmt.Errorf("run: %w", &Error{Code: code})); got != want {
				t.Errorf("Classify(%s) = %s, want %s", code, got, want)
			}
		}
	}
	for err, want := range map[error]ErrorClass{
		io.EOF:                   Retry,
		context.Canceled:         HandBack,
		context.DeadlineExceeded: Retry,
		Errorf(CodeEngineFailed, "decode: %w", context.Canceled): Retry,
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
