package jobs

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code names what went wrong, for programs.
type Code string

// The codes of errors.
const (
	CodeInvalid           Code = "invalid_request"    // a field is wrong; the message names it
	CodeUnknownModel      Code = "unknown_model"      // no worker was ever started for the model
	CodeModelMissing      Code = "model_missing"      // the engine does not have the model: the worker's fault, not the job's
	CodeContextOverflow   Code = "context_overflow"   // the prompt needs more context than the worker has
	CodeEngineRefused     Code = "engine_refused"     // the engine says that the request is wrong
	CodeEngineUnreachable Code = "engine_unreachable" // no connection
	CodeEngineFailed      Code = "engine_failed"      // it answered with an error, or broke off
	CodeEngineStalled     Code = "engine_stalled"     // no sign of life for too long
	CodeEngineBusy        Code = "engine_busy"        // loading or overloaded
	CodeDraining          Code = "draining"           // the worker is being stopped
	CodePreempted         Code = "preempted"          // the worker's slot was needed for an interactive job
	CodeWorkerLost        Code = "worker_lost"        // it died, or lost NATS, while the job ran
	CodePanic             Code = "panic"              // a bug of ours
	CodeAttempts          Code = "attempts_exhausted" // every attempt failed; the message has the last reason
	CodeDeadline          Code = "deadline_exceeded"  // the job's own deadline passed
	CodeCancelled         Code = "cancelled"          // somebody asked for it
	CodeDecodeMissing     Code = "decode_unavailable" // the caller's wait ended and no decode worker serves the model
	CodeTimeout           Code = "timeout"            // the caller's wait ended; the job lives on
	CodeQueueFull         Code = "queue_full"         // the intake is at its limit
	CodeHandoverMismatch  Code = "handover_mismatch"  // what decode got is not what prefill made
	CodeNATS              Code = "nats_unavailable"   // no connection, or no JetStream
)

// Error is an error with a code. Message is for a person: it names field, value and remedy, and
// never holds text of a prompt or an answer.
type Error struct {
	Code    Code
	Message string
	Err     error // cause, may be nil

	// RetryAfter is when it may be tried again, of an error of code queue_full; 0 if nobody can tell.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	if e.Err == nil || strings.Contains(e.Message, e.Err.Error()) {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is match any *Error of the same code against the sentinels of this package.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Err == nil
}

// Errorf returns an *Error of the given code; one %w wraps as in fmt.Errorf, and at the end of
// the format it keeps the cause's words out of Message.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	cause := errors.Unwrap(err)
	if cause == nil {
		return &Error{Code: code, Message: err.Error()}
	}
	return &Error{Code: code, Message: strings.TrimSuffix(err.Error(), ": "+cause.Error()), Err: cause}
}

// Sentinels to compare with errors.Is.
var (
	ErrCancelled = &Error{Code: CodeCancelled, Message: "the job was cancelled"}
	ErrDeadline  = &Error{Code: CodeDeadline, Message: "the job's deadline has passed"}
	ErrDraining  = &Error{Code: CodeDraining, Message: "the worker is being stopped"}
	ErrPreempted = &Error{Code: CodePreempted, Message: "the slot was needed for an interactive job"}
	ErrStalled   = &Error{Code: CodeEngineStalled, Message: "the engine gave no sign of life"}
	ErrQueueFull = &Error{Code: CodeQueueFull, Message: "the queue is full; try again later"}
)

// CodeOf returns the code of the first *Error in err's chain, and engine_failed if there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeEngineFailed
}
