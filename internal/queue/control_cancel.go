package queue

import (
	"context"
	"errors"

	"tandem/jobs"
)

// ended is what became of several jobs.
type ended struct {
	Jobs []jobs.Cancellation `json:"jobs"`
	More bool                `json:"more,omitempty"` // there are more; ask again
}

// Cancel has a worker end a job, and its replay if it has one: its result says cancelled, it is taken out of the
// queue, and a worker that is at it stops its engine. When Cancel returns, no engine call for it
// begins any more. Cancelling a job that has ended changes nothing and is no error; one that is
// unknown is of code invalid_request. If no worker is alive the cancel is kept, and done by the first one that comes.
func (c *Client) Cancel(ctx context.Context, jobID string) (jobs.Cancellation, error) {
	if err := checkToken(jobID); err != nil {
		return jobs.Cancellation{}, err
	}
	list, err := control[ended](ctx, c.Conn, verbCancel, c.user, request{Jobs: []string{jobID}})
	switch {
	case errors.Is(err, errNoWorker):
		return c.cancelLater(ctx, jobID)
	case err != nil:
		return jobs.Cancellation{}, err
	case len(list.Jobs) != 1:
		return jobs.Cancellation{}, jobs.Errorf(jobs.CodeNATS, "cancel job %s: a worker answers for %d jobs", jobID, len(list.Jobs))
	}
	return list.Jobs[0], nil
}

// cancelLater keeps the cancel of a job that has not ended.
func (c *Client) cancelLater(ctx context.Context, jobID string) (jobs.Cancellation, error) {
	r, err := c.stored(ctx, anyBatch, jobID)
	if err != nil {
		return jobs.Cancellation{}, err
	}
	if r != nil && r.Status != jobs.Failed { // else it may have a replay
		return jobs.Cancellation{JobID: jobID, Was: jobs.PriorFinished, Status: r.Status}, nil
	}
	return jobs.Cancellation{JobID: jobID, Was: jobs.PriorKept}, c.keepCancel(ctx, c.user, keptJob, jobID)
}

// CancelBatch has the workers cancel all jobs of a batch that have not ended, and reports on these. If none is alive kept is true, and the
// first one that comes does it.
func (c *Client) CancelBatch(ctx context.Context, batch string) (list []jobs.Cancellation, kept bool, err error) {
	list, err = c.cancelNow(ctx, batch)
	if errors.Is(err, errNoWorker) {
		return list, true, c.keepCancel(ctx, c.user, keptBatch, batch)
	}
	return list, false, err
}

func (c *Client) cancelNow(ctx context.Context, batch string) (list []jobs.Cancellation, err error) {
	for some := (ended{More: true}); some.More; {
		if some, err = control[ended](ctx, c.Conn, verbCancel, c.user, request{Batch: batch}); err != nil {
			return list, err
		}
		list = append(list, some.Jobs...)
	}
	return list, nil
}
