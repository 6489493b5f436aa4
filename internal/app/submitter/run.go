package submitter

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"tandem/client/admin"
	"tandem/internal/app"
	"tandem/internal/batchstats"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// run is the waiting for a batch: each result goes to its file, the progress and the report as it comes.
type run struct {
	session  *session
	batch    string
	models   []string
	dir      *resultDir               // nil: results are not kept
	each     func(*jobs.Result) error // called with each; may be nil
	progress *progress
	foresees *foresight // nil: nobody knows the jobs
	report   batchReport
	resumed  bool
}

func newRun(s *session, batch string, models []string, total int) *run {
	return &run{session: s, batch: batch, models: models, progress: newProgress(s.err, s.Quiet, total), report: batchReport{batchstats.New(batch)}}
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
	stop := watch(ctx, r.session, func(o *admin.Overview) {
		if r.foresees != nil {
			r.progress.foresee(r.foresees.until(o))
		}
		r.progress.stage(stages(o, r.models))
	})
	defer stop()
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
		if err := r.each(result); err != nil {
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

// watchEvery is how often the queue is looked at for the user.
const watchEvery = 2 * time.Second

// watchStages tells where the jobs of the models are, now and then, until stop is called.
func watchStages(ctx context.Context, s *session, models []string, tell func(where string)) (stop func()) {
	return watch(ctx, s, func(o *admin.Overview) { tell(stages(o, models)) })
}

// watch looks at the queue now and then, until stop is called.
func watch(ctx context.Context, s *session, tell func(*admin.Overview)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			if o, err := s.client.Inspect(ctx); err == nil { // else the next one may succeed
				tell(o)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// stages sums up where the jobs of the models are, and says what they wait for in vain.
func stages(o *admin.Overview, models []string) string {
	var prefill, decode admin.Depth
	var missing []string
	for _, m := range o.Models {
		if !slices.Contains(models, m.Model) {
			continue
		}
		for _, c := range m.Classes {
			prefill.Waiting, prefill.InFlight = prefill.Waiting+c.Prefill.Waiting, prefill.InFlight+c.Prefill.InFlight
			decode.Waiting, decode.InFlight = decode.Waiting+c.Decode.Waiting, decode.InFlight+c.Decode.InFlight
		}
		if !serves(o, protocol.RoleDecode, m.Model) {
			missing = append(missing, "no decode worker for "+m.Model)
		}
	}
	return strings.Join(append(missing, depth("prefill", prefill), depth("decode", decode)), " · ")
}

func depth(stage string, d admin.Depth) string {
	return fmt.Sprintf("%s %d running, %d waiting", stage, d.InFlight, d.Waiting)
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
