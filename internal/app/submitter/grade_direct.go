package submitter

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"tandem/internal/grader"
	"tandem/internal/ollama"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// direct has one Ollama answer, without the pipeline, and says so.
func (c *gradeCmd) direct(ctx context.Context, s *session, url string, a *grader.Assignment, o *grader.Options) (grader.Answerer, error) {
	for _, model := range a.Models() {
		e, err := ollama.New(ollama.Options{URL: url, Model: model})
		if err != nil {
			return nil, err
		}
		about, err := e.Describe(ctx)
		e.Close()
		if err != nil {
			return nil, err
		}
		o.Models[model] = grader.Model{ContextTokens: about.ContextTokens, Digest: about.ModelDigest}
	}
	s.say("no pipeline: grading with the Ollama at %s by itself, one request at a time", protocol.RedactURL(url))
	return &alone{url: url, wake: make(chan struct{}, 1)}, nil
}

// alone answers with one Ollama, one job after another. The jobs of one model come in a row, so that
// the machine need not load the models in turns.
type alone struct {
	url  string
	wake chan struct{} // a job was added

	mu      sync.Mutex
	waiting []*jobs.Job
	model   string // of the last job
}

// Submit adds a job. It is not kept anywhere: what was not answered is submitted again by the next run.
func (d *alone) Submit(_ context.Context, j *jobs.Job, _ bool) error {
	if err := j.Validate(); err != nil {
		return err
	}
	d.mu.Lock()
	d.waiting = append(d.waiting, j)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default: // somebody knows already
	}
	return nil
}

// Await does the jobs. An engine that cannot be reached, or fails three times in a row, ends it with the error.
func (d *alone) Await(ctx context.Context, _ string, ids []string) iter.Seq2[*jobs.Result, error] {
	return func(yield func(*jobs.Result, error) bool) {
		wanted := map[string]bool{}
		for _, id := range ids {
			wanted[id] = true
		}
		for len(wanted) > 0 {
			j := d.next(wanted)
			if j == nil {
				select {
				case <-d.wake:
					continue
				case <-ctx.Done():
					yield(nil, context.Cause(ctx))
					return
				}
			}
			r, err := d.do(ctx, j)
			if err != nil {
				yield(nil, err)
				return
			}
			delete(wanted, j.ID)
			if !yield(r, nil) {
				return
			}
		}
	}
}

// next takes a wanted job, of the same model as the last one if there is any.
func (d *alone) next(wanted map[string]bool) *jobs.Job {
	d.mu.Lock()
	defer d.mu.Unlock()
	best := -1
	for i, j := range d.waiting {
		if wanted[j.ID] && (best < 0 || j.Model == d.model) {
			best = i
			if j.Model == d.model {
				break
			}
		}
	}
	if best < 0 {
		return nil
	}
	j := d.waiting[best]
	d.waiting = slices.Delete(d.waiting, best, best+1)
	d.model = j.Model
	return j
}

// directAttempts is how often a job is tried that fails for a reason that may pass, as when the server is started again.
const directAttempts = 4

// do has a job done. One that cannot be done is a failed result, so that the rest of the class goes on.
func (d *alone) do(ctx context.Context, j *jobs.Job) (*jobs.Result, error) {
	var err error
	for attempt := range directAttempts {
		if attempt > 0 {
			select {
			case <-time.After(protocol.RetryDelay(protocol.Classify(err), attempt)):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		var r *jobs.Result
		if r, err = GenerateDirect(ctx, d.url, j); err == nil {
			return r, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if protocol.Classify(err) == protocol.Permanent {
			r = jobs.NewResult(j, jobs.Failed)
			r.Method = jobs.MethodDirect
			r.Error = &jobs.ErrorInfo{Code: jobs.CodeOf(err), Stage: jobs.StageFallback, Message: err.Error()}
			return r, nil
		}
	}
	return nil, err
}
