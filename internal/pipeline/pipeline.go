// Package pipeline holds the stages of a job, without any queue: what prefill, decode and fallback
// ask of an engine, and what the job's records say about it. What to do with a failure is not
// decided here: a stage returns the error and jobs.Classify decides.
package pipeline

import (
	"context"
	"log/slog"
	"time"

	"tandem/internal/engine"
	"tandem/internal/jobs"
)

// Stage runs tasks on one engine. It is safe for concurrent use.
type Stage struct {
	engine engine.Engine
	server string // "machine/worker", named in results
	about  func() engine.Description
	rates  *Rates
	log    *slog.Logger
}

// Config describes a [Stage].
type Config struct {
	Engine engine.Engine
	Server string                    // "machine/worker"
	About  func() engine.Description // the engine's last description of itself
	Rates  *Rates                    // of this worker
	Log    *slog.Logger
}

// New returns the stages of a worker.
func New(c Config) *Stage {
	return &Stage{engine: c.Engine, server: c.Server, about: c.About, rates: c.Rates, log: c.Log}
}

// Run runs one task and returns the next hop or the result. If the context ends, the error is its cause.
func (s *Stage) Run(ctx context.Context, t *jobs.Task) (jobs.Outcome, error) {
	run := s.generate
	switch {
	case t.Stage == jobs.StagePrefill:
		run = s.prefill
	case t.Stage == jobs.StageDecode && t.Handover != nil && t.Handover.Prefill != nil:
		run = s.decode
	}
	outcome, err := run(ctx, t)
	if err != nil && ctx.Err() != nil {
		return jobs.Outcome{}, context.Cause(ctx)
	}
	return outcome, err
}

// longestSilence bounds what a worker that has measured nothing yet expects of a long prompt.
const longestSilence = 15 * time.Minute

// request is the engine's view of the task. Prompt processing may be silent for three times as
// long as this worker's own rate says.
func (s *Stage) request(t *jobs.Task) engine.Request {
	req := engine.RequestOf(t.Job)
	req.Progress = t.Progress
	t.Expect(min(3*s.rates.PrefillTime(PromptBytes(t.Job)), longestSilence))
	return req
}

// PromptBytes is the length of all text of a job, from which tokens are estimated.
func PromptBytes(j *jobs.Job) int {
	n := len(j.System) + len(j.Prompt)
	for _, m := range j.Messages {
		n += len(m.Content)
	}
	return n
}
