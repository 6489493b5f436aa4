package client

import (
	"context"

	"tandem/internal/queue"
	"tandem/jobs"
)

// PriorState says what a cancel found.
type PriorState string

// What a cancel may find.
const (
	PriorQueued   PriorState = "queued"   // the job had not begun, or waited for another attempt
	PriorRunning  PriorState = "running"  // a worker was at it, and has stopped
	PriorFinished PriorState = "finished" // it had ended before; nothing was changed
	PriorKept     PriorState = "kept"     // no worker is alive; the first one that comes cancels it
)

// Cancellation says what became of a job that was to be cancelled.
type Cancellation struct {
	JobID  string      `json:"job_id"`           // of the job, or of its replay
	Was    PriorState  `json:"was"`              // before
	Status jobs.Status `json:"status,omitempty"` // of its result: cancelled, unless it was finished; none while the cancel is kept
}

func cancellation(c queue.Cancelled) Cancellation {
	return Cancellation{c.JobID, PriorState(c.Was), c.Status}
}

// Cancel ends a job, and its replay if it has one: its result says cancelled, it is taken out of the queue, and a worker that is at it stops its
// engine. When Cancel returns, no engine call for it begins any more. Cancelling a job that has ended changes nothing and is no error; one that is unknown
// is of code invalid_request.
func (c *Client) Cancel(ctx context.Context, jobID string) (Cancellation, error) {
	was, err := c.q.Cancel(ctx, jobID)
	return cancellation(was), err
}

// CancelBatch cancels all jobs of a batch that have not ended, and reports on these. If no worker is alive, kept is true, and the first one that comes does it.
func (c *Client) CancelBatch(ctx context.Context, batch string) (list []Cancellation, kept bool, err error) {
	all, kept, err := c.q.CancelBatch(ctx, batch)
	for _, was := range all {
		list = append(list, cancellation(was))
	}
	return list, kept, err
}
