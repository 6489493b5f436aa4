package queue

import (
	"context"

	"tandem/internal/jobs"
)

// Purged counts what was removed.
type Purged struct {
	Results     int `json:"results"`
	DeadLetters int `json:"dead_letters"`
	Queued      int `json:"queued"` // jobs that had not ended; those at a worker were stopped
}

// PurgeBatch removes all that the server holds of a batch: jobs that wait or run are cancelled, then
// results and dead letters are removed. Purging again finds nothing, but what a worker publishes
// late that was frozen or cut off meanwhile. The batch's manifest is the caller's to remove; the jobs in it cannot be submitted again under their ids.
func (c *Client) PurgeBatch(ctx context.Context, batch string) (Purged, error) {
	var p Purged
	ended, err := c.CancelBatch(ctx, batch)
	if err != nil {
		return p, err
	}
	p.Queued = len(ended)

	results := jobs.BatchResults(c.user, batch)
	subjects, err := c.subjects(ctx, StreamResults, results)
	if err != nil {
		return p, err
	}
	if err := c.purge(ctx, StreamResults, results); err != nil {
		return p, err
	}
	p.Results = len(subjects) - p.Queued // cancelling gave each a result, which nobody had asked for

	for l, err := range c.DeadLetters(ctx, LetterFilter{User: c.user, Batch: batch}) {
		if err != nil {
			return p, err
		}
		if err := c.purge(ctx, StreamDLQ, anyLetter(l.JobID)); err != nil {
			return p, err
		}
		p.DeadLetters++
	}
	return p, nil
}
