package gateway

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"tandem/jobs"
)

// refusal is an error with its status, and the parameter that it is about.
type refusal struct {
	status int
	param  string
	text   string
	after  time.Duration // when to ask again; 0 if that does not help
	limit  string        // that was reached, as it is counted
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, param, format string, args ...any) error {
	return &refusal{status: status, param: param, text: fmt.Sprintf(format, args...)}
}

// statuses are those of errors by their codes; all others are the server's.
var statuses = map[jobs.Code]int{
	jobs.CodeInvalid: http.StatusBadRequest, jobs.CodeContextOverflow: http.StatusBadRequest, jobs.CodeEngineRefused: http.StatusBadRequest,
	jobs.CodeUnknownModel: http.StatusNotFound, jobs.CodeModelMissing: http.StatusNotFound,
	jobs.CodeQueueFull: http.StatusTooManyRequests,
	jobs.CodeDeadline:  http.StatusGatewayTimeout, jobs.CodeTimeout: http.StatusGatewayTimeout,
	jobs.CodeNATS: http.StatusServiceUnavailable, jobs.CodeDecodeMissing: http.StatusServiceUnavailable, jobs.CodeEngineBusy: http.StatusServiceUnavailable,
}

// statusOf is the HTTP status of an error.
func statusOf(err error) int {
	if r, is := errors.AsType[*refusal](err); is {
		return r.status
	}
	if status, known := statuses[jobs.CodeOf(err)]; known {
		return status
	}
	return http.StatusInternalServerError
}

// writeError answers with an error, as an API has it.
func writeError(w http.ResponseWriter, as dialect, err error) {
	var after time.Duration
	if e, is := errors.AsType[*jobs.Error](err); is {
		after = e.RetryAfter
		if e.Code == jobs.CodeQueueFull {
			reached(w, "queue")
		}
	}
	if r, is := errors.AsType[*refusal](err); is {
		after = r.after
		reached(w, r.limit)
	}
	if after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	if statusOf(err) == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	_ = writeJSON(w, statusOf(err), as(err)) // which an error's text cannot keep from being JSON
}
