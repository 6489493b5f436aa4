package submitter

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strings"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/app"
	"tandem/internal/grader"
	"tandem/internal/protocol"
	"tandem/internal/sanitize"
	"tandem/jobs"
)

// answerer finds who answers: the pipeline, the local system, or one Ollama by itself. What is known of the
// models goes into the options.
func (c *gradeCmd) answerer(ctx context.Context, s *session, a *grader.Assignment, o *grader.Options) (grader.Answerer, error) {
	if c.Direct != "" {
		return c.direct(ctx, s, c.Direct, a, o)
	}
	err := s.connect(ctx, a.Models()...)
	if jobs.CodeOf(err) == jobs.CodeNATS && !s.Local {
		local := app.LocalOllamaURL(os.Getenv)
		if !app.OllamaHas(ctx, local, a.Models()) {
			return nil, withHint(err, "and no Ollama at %s has %s: start the pipeline, name an Ollama with --direct URL, or try --local",
				protocol.RedactURL(local), strings.Join(a.Models(), " and "))
		}
		fmt.Fprintf(s.err, "%s: %s\n", name, sanitize.Text(err.Error()))
		return c.direct(ctx, s, local, a, o)
	}
	if err != nil {
		return nil, err
	}
	workers, err := s.client.Workers(ctx)
	if err != nil {
		return nil, err
	}
	describe(o, workers, a.Models())
	s.say("grading through the pipeline")
	for _, m := range a.Models() {
		if !decodes(workers, m) {
			s.say("warning: no live decode worker serves %s; its jobs wait until one is started", m)
		}
	}
	return pipeline{s.client.Client}, nil
}

// lookAround is for a dry run: the pipeline is asked for its contexts and rates if it is there, and nothing is started for it.
func (c *gradeCmd) lookAround(ctx context.Context, s *session, a *grader.Assignment, o *grader.Options) (grader.Answerer, error) {
	if c.Direct != "" {
		return c.direct(ctx, s, c.Direct, a, o)
	}
	if s.Local {
		return nil, nil // what the local system would be is known without starting it
	}
	if err := s.connect(ctx, a.Models()...); err != nil {
		if jobs.CodeOf(err) == jobs.CodeNATS {
			return nil, nil
		}
		return nil, err
	}
	workers, err := s.client.Workers(ctx)
	if err != nil {
		return nil, err
	}
	describe(o, workers, a.Models())
	return nil, nil
}

// describe notes what the workers say of the models: the smallest context, and the digest if all have the same.
func describe(o *grader.Options, workers []admin.Presence, models []string) {
	for _, model := range models {
		var m grader.Model
		first := true
		for _, w := range workers {
			if w.Model != model || !w.Live() {
				continue
			}
			if w.ContextTokens > 0 && (m.ContextTokens == 0 || w.ContextTokens < m.ContextTokens) {
				m.ContextTokens = w.ContextTokens
			}
			if first {
				m.Digest = w.ModelDigest
			} else if m.Digest != w.ModelDigest {
				m.Digest = ""
			}
			first = false
		}
		o.Models[model] = m
	}
}

func decodes(workers []admin.Presence, model string) bool {
	for _, w := range workers {
		if w.Live() && w.Role == protocol.RoleDecode && w.Model == model {
			return true
		}
	}
	return false
}

// pipeline answers through the queue.
type pipeline struct{ client *client.Client }

// Submit puts a job into the intake, waiting while that is full.
func (p pipeline) Submit(ctx context.Context, j *jobs.Job, earlier bool) error {
	return p.client.SubmitWaiting(ctx, j, earlier)
}

// Await yields the results as they come.
func (p pipeline) Await(ctx context.Context, batch string, ids []string) iter.Seq2[*jobs.Result, error] {
	return p.client.AwaitBatch(ctx, batch, ids)
}
