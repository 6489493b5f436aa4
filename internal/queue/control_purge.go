package queue

import (
	"context"
	"time"

	"tandem/jobs"
)

// Purged counts what was removed.
type Purged struct {
	Results     int `json:"results"`
	DeadLetters int `json:"dead_letters"`
	Queued      int `json:"queued"` // jobs that had not ended; those at a worker were stopped
}

// PurgeBatch has a worker remove all that the server holds of a batch: jobs that wait or run are cancelled, then
// results and dead letters are removed. Purging again finds nothing, but what a worker publishes
// late that was frozen or cut off meanwhile. The batch's manifest is the caller's to remove; the jobs in it cannot be submitted again under their ids.
func (c *Client) PurgeBatch(ctx context.Context, batch string) (Purged, error) {
	ended, err := c.cancelNow(ctx, batch) // first, since a large batch takes more than one request
	if err != nil {
		return Purged{}, err
	}
	p, err := control[Purged](ctx, c.Conn, verbPurge, c.user, request{Batch: batch})
	p.Queued += len(ended)
	p.Results -= len(ended) // cancelling gave each a result, which nobody had asked for
	return p, err
}

// purgeBatch removes a batch. Jobs that came since it was cancelled are cancelled, too.
func (c *Conn) purgeBatch(ctx context.Context, user, batch string) (Purged, error) {
	var p Purged
	for more := true; more; {
		ended, err := c.cancelBatch(ctx, user, batch, time.Time{})
		if err != nil {
			return p, err
		}
		p.Queued, more = p.Queued+len(ended.Jobs), ended.More
	}

	results := resultsOf(user, jobs.EncodeToken(batch), "*")
	subjects, err := c.subjects(ctx, StreamResults, results)
	if err != nil {
		return p, err
	}
	if err := c.purge(ctx, StreamResults, results); err != nil {
		return p, err
	}
	p.Results = len(subjects) - p.Queued

	for l, err := range c.deadLetters(ctx, LetterFilter{User: user, Batch: batch}, 0) {
		if err != nil {
			return p, err
		}
		if err := c.purge(ctx, StreamDLQ, l.subject); err != nil {
			return p, err
		}
		p.DeadLetters++
	}
	return p, nil
}
