package protocol

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"tandem/jobs"
)

// HandoverError is a hand-over that failed. The engine is as usable as before, and nothing was
// generated.
type HandoverError struct {
	Failure    jobs.Failure
	Message    string  // for a person: what, and the remedy
	Divergence float64 // of a first_token
	Err        error   // cause, may be nil
}

func (e *HandoverError) Error() string {
	if e.Err == nil || strings.Contains(e.Message, e.Err.Error()) {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *HandoverError) Unwrap() error { return e.Err }

// HandoverErrorf returns a *HandoverError; %w wraps as in fmt.Errorf.
func HandoverErrorf(f jobs.Failure, format string, args ...any) *HandoverError {
	err := fmt.Errorf(format, args...)
	return &HandoverError{Failure: f, Message: err.Error(), Err: errors.Unwrap(err)}
}

// Unread is the layout of states in a format that is not known here, and that are moved all the same since an operator has allowed it.
const Unread = "unread"

// Span is a part of a file.
type Span struct {
	Offset int64 `json:"offset"` // of its first byte
	Bytes  int64 `json:"bytes"`  // its length
}

// SlowTransferAfter is how long a hand-over may take before it is carried as a warning.
const SlowTransferAfter = time.Second

// SlowTransferWarning is that warning.
func SlowTransferWarning(d time.Duration) string {
	return fmt.Sprintf("Slow context transfer: %.1f s", d.Seconds())
}
