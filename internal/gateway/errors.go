package gateway

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"tandem/jobs"
)

// refusal is an error with its status, and the parameter that it is about.
type refusal struct {
	status int
	param  string
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, param, format string, args ...any) error {
	return &refusal{status, param, fmt.Sprintf(format, args...)}
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
	if e, is := errors.AsType[*jobs.Error](err); is && e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	_ = writeJSON(w, statusOf(err), as(err)) // which an error's text cannot keep from being JSON
}
