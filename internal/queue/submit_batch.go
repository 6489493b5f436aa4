package queue

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/tracing"
	"tandem/jobs"
)

const (
	fullWait    = 250 * time.Millisecond // before the second attempt at what NATS does not do now; then twice as long each time
	fullMaxWait = 5 * time.Second        // at most, whatever the intake says: its estimate may be far off
)

// OpenBatch writes the manifest of a batch, which is then on the disk before the first job is published. If it is there already, the jobs get the ids and
// the batch that they have there, and resumed is true; a manifest of other input is refused.
func OpenBatch(path string, list []*jobs.Job) (resumed bool, err error) {
	if len(list) == 0 {
		return false, jobs.Errorf(jobs.CodeInvalid, "the batch is empty")
	}
	m, err := ReadManifest(path)
	if err == nil {
		return true, m.adopt(path, list)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, j := range list {
		if err := j.Validate(); err != nil {
			return false, err // before anything is promised
		}
	}
	if m, err = newManifest(list); err != nil {
		return false, err
	}
	return false, m.write(path)
}

// SubmitBatch submits the jobs of a batch that was opened, in the order of c.Order. If it is resumed, none is stored twice. While the intake is full it waits.
// Progress, if not nil, is called after each job with the number of jobs that are accepted, and how many there are. Jobs whose ids are in have are left out:
// the caller has their results, which the server may have forgotten.
func (c *Client) SubmitBatch(ctx context.Context, list []*jobs.Job, resumed bool, progress func(done, total int), have ...string) error {
	skip := map[string]bool{}
	for _, id := range have {
		skip[id] = true
	}
	if c.Order != nil {
		list = c.Order(list)
	}
	following := map[string]jobs.Following{} // by model
	for _, j := range slices.Backward(list) {
		j.Following = following[j.Model]
		following[j.Model] = j.Following.And(jobs.FollowingOf(j))
	}
	for i, j := range list {
		if !skip[j.ID] {
			if err := c.SubmitOne(ctx, j, resumed); err != nil {
				return err
			}
		}
		if progress != nil {
			progress(i+1, len(list))
		}
	}
	return nil
}

// SubmitOne submits one job of a batch of which the caller keeps the record. It waits while the intake is full, and minutes while
// NATS is away. resumed says that an earlier process may have submitted the job: one that waits, runs or has ended is left alone then.
func (c *Client) SubmitOne(ctx context.Context, j *jobs.Job, resumed bool) (err error) {
	ctx, span := tracing.Publish(ctx, StreamIntake, j.ID)
	defer func() { span.End(err) }()
	for pause := fullWait; ; pause = min(2*pause, fullMaxWait) {
		err := retryUnavailable(ctx, batchAbsent, func() error { return c.submitOne(ctx, j, resumed) }) // minutes each time, however long the queue was full
		full, ok := errors.AsType[*jobs.Error](err)
		if !ok || full.Code != jobs.CodeQueueFull {
			return err
		}
		if c.OnFull != nil {
			c.OnFull(full)
		}
		if full.RetryAfter > 0 {
			pause = min(full.RetryAfter, fullMaxWait)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c *Client) submitOne(ctx context.Context, j *jobs.Job, resumed bool) error {
	if j.User != c.user {
		return jobs.Errorf(jobs.CodeInvalid, "user is %q in the job and %q in the client", j.User, c.user)
	}
	if err := c.checkModel(ctx, j); err != nil {
		return err
	}
	if resumed { // the server forgets the ids of finished jobs when it restarts
		found, err := c.find(ctx, true, j.ID)
		if errors.Is(err, errNoWorker) { // who gets a job that is under way finds out
			var r *jobs.Result
			if r, err = c.stored(ctx, anyBatch, j.ID); r != nil {
				return nil
			}
		} else if err == nil && found[0].Place != PlaceUnknown {
			return nil
		}
		if err != nil {
			return err
		}
	}
	_, err := c.submit(ctx, j, "")
	return err
}

// BatchJobs lists the ids of a batch's jobs that have a result, wait or run, in order; for whoever
// awaits a batch without its manifest.
func (c *Client) BatchJobs(ctx context.Context, batch string) ([]string, error) {
	return control[[]string](ctx, c.Conn, verbJobs, c.user, request{Batch: batch})
}

func (c *Conn) batchJobs(ctx context.Context, user, batch string) ([]string, error) {
	pending, err := c.pendingJobs(ctx, user, batch)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, l := range pending {
		ids[l.job.ID] = true
	}
	subjects, err := c.subjects(ctx, StreamResults, resultsOf(user, jobs.EncodeToken(batch), "*"))
	if err != nil {
		return nil, err
	}
	for _, s := range subjects {
		ids[s[strings.LastIndexByte(s, '.')+1:]] = true
	}
	return slices.Sorted(maps.Keys(ids)), nil
}

// subjects lists the subjects of a stream that match a filter.
func (c *Conn) subjects(ctx context.Context, stream, filter string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit) // no leader, no answer
	defer cancel()
	s, err := c.stream(ctx, stream)
	if err == nil {
		var info *jetstream.StreamInfo
		if info, err = s.Info(ctx, jetstream.WithSubjectFilter(filter)); err == nil {
			return slices.Collect(maps.Keys(info.State.Subjects)), nil
		}
	}
	return nil, c.failed(ctx, err, "list subjects of stream %s", stream)
}
