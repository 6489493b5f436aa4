// Package app wires the other packages into the commands: configuration, signals, exit codes.
package app

import (
	"context"
	"errors"

	"tandem/jobs"
)

// Exit codes of every command.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitDegraded    = 3 // degraded, or partly done
	ExitUnreachable = 4
	ExitTimedOut    = 5 // the caller's wait ended while the job lives on
	ExitInterrupted = 130
)

// ExitError is an error that knows the exit code of its command.
type ExitError struct {
	Code int
	Err  error // nil if everything was said already
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return "exit"
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// ErrInterrupted is the cause of a context that a signal cancelled.
var ErrInterrupted = errors.New("interrupted")

// ExitCode is the exit code for what a command returned.
func ExitCode(err error) int {
	if err == nil {
		return ExitDone
	}
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	if errors.Is(err, ErrInterrupted) || errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	if e, ok := errors.AsType[*jobs.Error](err); ok {
		switch e.Code {
		case jobs.CodeInvalid:
			return ExitUsage
		case jobs.CodeNATS, jobs.CodeEngineUnreachable:
			return ExitUnreachable
		case jobs.CodeTimeout, jobs.CodeDecodeMissing:
			return ExitTimedOut
		}
	}
	return ExitFailed
}
