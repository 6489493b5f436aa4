package client

import (
	"context"
	"iter"
	"slices"
	"sync"

	"tandem/internal/queue"
	"tandem/jobs"
)

// Batch is jobs that are submitted together.
type Batch struct {
	// Manifest is the file that keeps the ids of the jobs, so that another process can go on. It is on the disk before the first job is published.
	// If it is there already, the batch is resumed: the jobs get the ids that they have there, and none is done twice; a manifest of other jobs is refused.
	Manifest string
	// Jobs are all of one batch, with a custom id each. What they leave out is filled in as by [Client.Submit], but for the batch, and the class is batch.
	Jobs []*jobs.Job
	// Have are ids of jobs whose results the caller has, of an earlier run: they are left out.
	Have []string
}

// AwaitBatch yields the results of the jobs in ids, or of their replays, each once: those that are there already, then the others as they come, and
// ends after the last. Jobs need not have been submitted yet. An error is the last thing yielded; it is as of [Client.Await]. Calling it again, after a crash for
// example, yields all of them again.
func (c *Client) AwaitBatch(ctx context.Context, batch string, ids []string) iter.Seq2[*jobs.Result, error] {
	return c.q.AwaitBatch(ctx, batch, ids)
}

// BatchJobs lists the ids of a batch's jobs that have a result, wait or run, in order; for whoever awaits a batch without its manifest.
func (c *Client) BatchJobs(ctx context.Context, batch string) ([]string, error) {
	return c.q.BatchJobs(ctx, batch)
}

// RunBatch submits the jobs of a batch and yields their results as they come, in any order. It does both at the same time, since a batch may be larger
// than the queue: while that is full it waits. An error is the last thing yielded; calling it again with the same manifest goes on.
func (c *Client) RunBatch(parent context.Context, b Batch) iter.Seq2[*jobs.Result, error] {
	return func(yield func(*jobs.Result, error) bool) {
		for _, j := range b.Jobs {
			if j.Class == "" {
				j.Class = jobs.Batch
			}
			if err := c.complete(j); err != nil {
				yield(nil, err)
				return
			}
		}
		resumed, err := queue.OpenBatch(b.Manifest, b.Jobs)
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := context.WithCancelCause(parent)
		defer cancel(nil)
		var submitting sync.WaitGroup
		var submitted error
		submitting.Go(func() {
			if submitted = c.q.SubmitBatch(ctx, b.Jobs, resumed, nil, b.Have...); submitted != nil {
				cancel(submitted)
			}
		})
		defer submitting.Wait()
		var missing []string
		for _, j := range b.Jobs {
			if !slices.Contains(b.Have, j.ID) {
				missing = append(missing, j.ID)
			}
		}
		for r, err := range c.q.AwaitBatch(ctx, b.Jobs[0].Batch, missing) {
			if err == nil {
				if !yield(r, nil) {
					cancel(nil)
					return
				}
				continue
			}
			cancel(err)
			submitting.Wait()
			if parent.Err() == nil {
				err = context.Cause(ctx) // what failed first, and ended the other
			}
			yield(nil, err)
			return
		}
		if submitting.Wait(); submitted != nil {
			yield(nil, submitted)
		}
	}
}
