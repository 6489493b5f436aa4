package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tandem/jobs"
)

// Observer is told what happens at the door, for metrics.
type Observer interface {
	// Request is told of each request, and then how it was answered: its route, or other, and the limit that refused it, "" if none did.
	Request() (answered func(route string, status int, limit string))
	// Job is told how a job ended for whoever asked: with a result, or without one. It took so long, and so long to the first piece of a
	// stream; 0 of what does not apply.
	Job(j *jobs.Job, r *jobs.Result, outcome string, code jobs.Code, took, first time.Duration)
}

// nobody observes.
type nobody struct{}

func (nobody) Request() func(string, int, string) { return func(string, int, string) {} }

func (nobody) Job(*jobs.Job, *jobs.Result, string, jobs.Code, time.Duration, time.Duration) {}

// reached notes by which limit a request is refused.
func reached(w http.ResponseWriter, limit string) {
	if seen, is := w.(*recorder); is {
		seen.limit = limit
	}
}

// outcomeOf is how a job ended that has no result: gone with who asked, timeout, diverged, or error.
func outcomeOf(r *http.Request, err error) (outcome string, code jobs.Code) {
	switch {
	case err == nil:
		return "", ""
	case errors.Is(err, errDiverged):
		return "diverged", jobs.CodeWorkerLost
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout", jobs.CodeTimeout
	}
	if _, ours := errors.AsType[*jobs.Error](err); !ours || r.Context().Err() != nil { // nobody reads the answer any more
		return "gone", jobs.CodeCancelled
	}
	return "error", jobs.CodeOf(err)
}
