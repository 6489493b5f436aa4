package client

import (
	"context"

	"tandem/jobs"
)

// Cancel ends a job, and its replay if it has one: its result says cancelled, it is taken out of the queue, and a worker that is at it stops its
// engine. When Cancel returns, no engine call for it begins any more. Cancelling a job that has ended changes nothing and is no error; one that is unknown
// is of code invalid_request.
func (c *Client) Cancel(ctx context.Context, jobID string) (jobs.Cancellation, error) {
	return c.q.Cancel(ctx, jobID)
}

// CancelBatch cancels all jobs of a batch that have not ended, and reports on these. If no worker is alive, kept is true, and the first one that comes does it.
func (c *Client) CancelBatch(ctx context.Context, batch string) (list []jobs.Cancellation, kept bool, err error) {
	return c.q.CancelBatch(ctx, batch)
}
