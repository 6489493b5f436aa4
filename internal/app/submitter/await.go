package submitter

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"tandem/internal/app"
	"tandem/internal/queue"
	"tandem/jobs"
)

// awaitCmd waits for what was submitted before.
type awaitCmd struct {
	Job     string        `arg:"" optional:"" help:"Id of the job."`
	Batch   string        `short:"b" placeholder:"NAME" help:"Wait for a whole batch."`
	Out     string        `short:"o" placeholder:"DIR" help:"Folder for a batch's results, one file per job; without it --json prints them, one a line."`
	Timeout time.Duration `placeholder:"TIME" help:"How long to wait; jobs live on (default: until all are done)."`
}

// Run waits for the job or the batch.
func (c *awaitCmd) Run(ctx context.Context, s *session) error {
	if (c.Job == "") == (c.Batch == "") {
		return jobs.Errorf(jobs.CodeInvalid, "give either a job's id or --batch NAME")
	}
	if err := checkTimes(c.Timeout); err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	wait, cancel := s.waitLimit(ctx, c.Timeout)
	defer cancel()
	if c.Batch != "" {
		return c.batch(ctx, wait, s)
	}
	r, err := s.client.Await(wait, c.Job)
	if err != nil {
		return s.notAwaited(ctx, err, c.Job)
	}
	return s.printResult(r)
}

// batch waits for all jobs of the batch: those of its manifest, or else those that the queue knows.
func (c *awaitCmd) batch(ctx, wait context.Context, s *session) error {
	ids, err := c.batchJobs(wait, s)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return jobs.Errorf(jobs.CodeInvalid, "batch %q has no jobs of this user; see --batch and --user", c.Batch)
	}
	known, err := s.client.Models(wait)
	if err != nil {
		return err
	}
	run := newRun(s, c.Batch, known, len(ids))
	run.resumed = true
	switch {
	case c.Out != "":
		if run.dir, err = openResultDir(c.Out); err != nil {
			return err
		}
		defer run.dir.close()
	case s.JSON:
		run.each = func(r *jobs.Result) error { return s.print(r) }
	}
	err = run.await(wait, s.client.AwaitBatch(wait, c.Batch, ids))
	switch {
	case err == nil && run.each != nil:
		return run.verdict(0)
	case err == nil:
		return run.finish(0)
	case interrupted(ctx):
		err = app.ErrInterrupted
	case jobs.CodeOf(err) != jobs.CodeTimeout && jobs.CodeOf(err) != jobs.CodeDecodeMissing:
		return err
	}
	return withHint(err, "%d of %d jobs are done, the others live on: %s await --batch %s", run.report.Jobs, len(ids), name, c.Batch)
}

func (c *awaitCmd) batchJobs(ctx context.Context, s *session) ([]string, error) {
	if c.Out != "" {
		m, err := queue.ReadManifest(filepath.Join(c.Out, manifestFile))
		if err == nil && m.Batch == c.Batch {
			return m.IDs(), nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return s.client.BatchJobs(ctx, c.Batch)
}
