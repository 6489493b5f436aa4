package submitter

import (
	"context"
	"fmt"
	"os"
	"strings"

	"tandem/internal/app"
	"tandem/internal/grader"
	"tandem/internal/grading"
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
	o.Models = grading.Describe(workers, a.Models())
	s.say("grading through the pipeline")
	for _, m := range a.Models() {
		if !grading.Decodes(workers, m) {
			s.say("warning: no live decode worker serves %s; its jobs wait until one is started", m)
		}
	}
	return grading.Pipeline{Client: s.client.Client}, nil
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
	o.Models = grading.Describe(workers, a.Models())
	return nil, nil
}
