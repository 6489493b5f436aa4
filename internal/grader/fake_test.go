package grader

import (
	"context"
	"iter"
	"slices"
	"sync"

	"tandem/internal/grader/rubric"
	"tandem/internal/grader/score"
	"tandem/jobs"
)

// fake answers like the queue does: it keeps jobs and results over the runs, takes each job once, and yields results to whoever awaits them.
type fake struct {
	script   map[string]func(*jobs.Job) *jobs.Result // by custom id; what is not in it is answered well
	digest   map[string]string                       // of the models, in the results
	backward bool                                    // wait for all jobs, and yield their results last first
	twice    bool                                    // yield each result twice
	refuse   func(*jobs.Job) error                   // of Submit
	verdict  func(*jobs.Job) score.Verdict           // of good answers; nil: met
	yielded  func(n int)                             // called before the nth result of a run is yielded
	most     int                                     // results that are yielded at most, 0 for no limit

	mu       sync.Mutex
	wake     chan struct{}
	jobs     map[string]*jobs.Job // by id
	order    []string             // ids, as they came
	computed map[string]int       // by custom id: how often a job was computed
	results  map[string]*jobs.Result
}

func newFake() *fake {
	return &fake{
		script: map[string]func(*jobs.Job) *jobs.Result{}, digest: map[string]string{coder: "sha256:c1", talker: "sha256:t1"},
		wake: make(chan struct{}), jobs: map[string]*jobs.Job{}, computed: map[string]int{}, results: map[string]*jobs.Result{},
	}
}

// Submit takes a job, once.
func (f *fake) Submit(ctx context.Context, j *jobs.Job, earlier bool) error {
	if err := j.Validate(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		if err := f.refuse(j); err != nil {
			return err
		}
	}
	if f.jobs[j.ID] != nil {
		if !earlier {
			panic("job " + j.CustomID + " was submitted twice by one run")
		}
		return nil
	}
	f.jobs[j.ID] = j
	f.order = append(f.order, j.ID)
	f.computed[j.CustomID]++
	f.results[j.ID] = f.compute(j)
	close(f.wake)
	f.wake = make(chan struct{})
	return nil
}

func (f *fake) compute(j *jobs.Job) *jobs.Result {
	if s := f.script[j.CustomID]; s != nil {
		return s(j)
	}
	if f.verdict != nil {
		return f.good(j, f.verdict(j))
	}
	return f.good(j, score.Met)
}

// good is an answer that passes.
func (f *fake) good(j *jobs.Job, v score.Verdict) *jobs.Result {
	return f.says(j, answer(rubric.Judge(j.Labels["kind"]), v))
}

// says is an answer of any text.
func (f *fake) says(j *jobs.Job, text string) *jobs.Result {
	r := jobs.NewResult(j, jobs.Succeeded)
	r.Text, r.FinishReason, r.Method = text, "stop", jobs.MethodDisaggregated
	r.Usage = jobs.Usage{PromptTokens: 100, PrefillCached: 60, PrefillComputed: 40, GeneratedTokens: 10}
	r.Timings = jobs.Timings{PrefillSeconds: 1, DecodeSeconds: 2, TotalSeconds: 9}
	if j.Model == talker {
		r.Timings.DecodeSeconds = 5
	}
	r.Provenance.ModelDigest = f.digest[j.Model]
	return r
}

// fails is no answer.
func fails(j *jobs.Job, s jobs.Status) *jobs.Result {
	r := jobs.NewResult(j, s)
	r.Error = &jobs.ErrorInfo{Code: jobs.CodeEngineFailed, Message: "the engine broke off"}
	return r
}

// Await yields results of jobs as they come.
func (f *fake) Await(ctx context.Context, batch string, ids []string) iter.Seq2[*jobs.Result, error] {
	return func(yield func(*jobs.Result, error) bool) {
		missing := slices.Clone(ids)
		for n := 1; len(missing) > 0 && (f.most == 0 || n <= f.most); {
			r, wake := f.take(batch, missing)
			if r == nil {
				select {
				case <-wake:
					continue
				case <-ctx.Done():
					yield(nil, context.Cause(ctx))
					return
				}
			}
			if f.yielded != nil {
				f.yielded(n)
			}
			if ctx.Err() != nil {
				yield(nil, context.Cause(ctx))
				return
			}
			n++
			missing = slices.DeleteFunc(missing, func(id string) bool { return id == r.JobID || id == r.ReplayOf })
			if !yield(r, nil) || f.twice && !yield(r, nil) {
				return
			}
		}
	}
}

// take returns a result that is there, nil and what to wait for if there is none.
func (f *fake) take(batch string, missing []string) (*jobs.Result, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	have := slices.DeleteFunc(slices.Clone(f.order), func(id string) bool { return f.jobs[id].Batch != batch || !slices.Contains(missing, id) })
	if len(have) == 0 || f.backward && len(have) < len(missing) {
		return nil, f.wake
	}
	if f.backward {
		return f.results[have[len(have)-1]], nil
	}
	return f.results[have[0]], nil
}

// total is how many jobs were computed, in all runs.
func (f *fake) total() int {
	n := 0
	for _, times := range f.computed {
		n += times
	}
	return n
}
