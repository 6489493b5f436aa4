package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"tandem/jobs"
)

func TestOutcomes(t *testing.T) {
	there := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/chat", nil)
	ended, end := context.WithCancel(t.Context())
	end()
	away := there.WithContext(ended)
	for _, tt := range []struct {
		r    *http.Request
		err  error
		want string
		code jobs.Code
	}{
		{there, nil, "", ""},
		{there, errDiverged, "diverged", jobs.CodeWorkerLost},
		{there, fmt.Errorf("await: %w", context.DeadlineExceeded), "timeout", jobs.CodeTimeout},
		{there, errors.New("write: broken pipe"), "gone", jobs.CodeCancelled},
		{away, jobs.Errorf(jobs.CodeNATS, "cut off"), "gone", jobs.CodeCancelled},
		{there, jobs.Errorf(jobs.CodeNATS, "no connection"), "error", jobs.CodeNATS},
	} {
		if outcome, code := outcomeOf(tt.r, tt.err); outcome != tt.want || code != tt.code {
			t.Errorf("%v: %s, %s; want %s, %s", tt.err, outcome, code, tt.want, tt.code)
		}
	}
}

// A refusal says by which limit, to who counts it.
func TestLimitsAreNoted(t *testing.T) {
	for want, err := range map[string]error{
		"streams": tooMany("streams", time.Second, "too many"),
		"queue":   &jobs.Error{Code: jobs.CodeQueueFull, Message: "full"},
		"":        refuse(http.StatusBadRequest, "", "no"),
	} {
		seen := &recorder{ResponseWriter: httptest.NewRecorder()}
		writeError(seen, openAIError, err)
		if seen.limit != want {
			t.Errorf("%v is noted as %q, want %q", err, seen.limit, want)
		}
	}
}
