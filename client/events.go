package client

import (
	"context"
	"iter"

	"tandem/jobs"
)

// Events begins to listen for what happens to the user's jobs: to all of a batch, or to one job of it; empty names stand for any. When it returns, nothing that happens afterwards
// is missed, unless the reader is slow or NATS is away: events show what is going on, and the Timeline of the result is what counts. They end with ctx.
func (c *Client) Events(ctx context.Context, batch, jobID string) (iter.Seq[*jobs.Event], error) {
	return c.q.Events(ctx, batch, jobID)
}
