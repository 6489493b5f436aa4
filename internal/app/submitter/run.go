package submitter

import (
	"context"
	"fmt"
	"iter"
	"time"

	"tandem/client/admin"
	"tandem/internal/app"
	"tandem/internal/batchstats"
	"tandem/jobs"
)

// run is the waiting for a batch: each result goes to its file, the progress and the report as it comes.
type run struct {
	session  *session
	batch    string
	models   []string
	dir      *resultDir               // nil: results are not kept
	each     func(*jobs.Result) error // called with each; may be nil
	progress *batchProgress
	foresees *foresight // nil: nobody knows the jobs
	report   batchReport
	resumed  bool
}

func newRun(s *session, batch string, models []string, total int) *run {
	return &run{session: s, batch: batch, models: models, progress: newBatchProgress(s, total), report: batchReport{batchstats.New(batch)}}
}

// had takes a result that an earlier run has written.
func (r *run) had(result *jobs.Result) {
	r.resumed = true
	r.progress.had(result)
	r.report.Add(result)
	r.ended(result)
}

// await takes the results as they come, until it has all.
func (r *run) await(ctx context.Context, results iter.Seq2[*jobs.Result, error]) error {
	defer r.progress.stop()
	var foresee func(*admin.Overview) (time.Duration, bool)
	if r.foresees != nil {
		foresee = r.foresees.until
	}
	defer r.progress.watch(ctx, r.session, r.batch, "", r.models, foresee)()
	for result, err := range results {
		if err != nil {
			return err
		}
		if err := r.take(result); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) take(result *jobs.Result) error {
	if r.dir != nil {
		if err := r.dir.write(result); err != nil {
			return err
		}
	}
	if r.each != nil {
		if err := r.progress.aside(func() error { return r.each(result) }); err != nil {
			return err
		}
	}
	r.report.Add(result)
	r.ended(result)
	r.progress.result(result)
	return nil
}

// ended notes that a job has a result.
func (r *run) ended(result *jobs.Result) {
	if r.foresees != nil {
		r.foresees.done(result.JobID)
	}
}

// finish prints the report.
func (r *run) finish(skipped int) error {
	wall := time.Since(r.progress.start)
	if r.resumed {
		wall = 0 // of which this run has seen but a part
	}
	r.report.Sum(wall)
	var err error
	if r.session.JSON {
		err = r.session.print(r.report.Report)
	} else {
		err = r.report.writeTo(r.session.out)
	}
	if err != nil {
		return err
	}
	if skipped > 0 {
		fmt.Fprintf(r.session.err, "%s: %d broken lines were left out\n", name, skipped)
	}
	return r.verdict(skipped)
}

// verdict is the exit code: jobs that did not succeed, and lines that were left out, make it 3.
func (r *run) verdict(skipped int) error {
	if r.report.Failed > 0 || skipped > 0 {
		return &app.ExitError{Code: app.ExitDegraded}
	}
	return nil
}
