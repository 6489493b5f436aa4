// Package grading has classes graded through the queue: it is what `submitter grade` and the console share, and the folder in which the console keeps its classes.
package grading

import (
	"context"
	"iter"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/grader"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// DefaultPlan is the plan of the jobs of a class that name none: on no fleet of make bench-plans is another much faster. The help of batch and grade
// says which it is.
const DefaultPlan = jobs.PlanAuto

// StandIns is what a reader must know of grades by models with random weights.
const StandIns = "The models' answers are gibberish: stand-ins with random weights wrote them. Their judgements moved the points all the same, within the bounds; this is a test of the program, and no grade."

// Describe is what the workers say of the models: the smallest context, and the digest if all have the same.
func Describe(workers []admin.Presence, models []string) map[string]grader.Model {
	described := map[string]grader.Model{}
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
		described[model] = m
	}
	return described
}

// Decodes reports whether a live worker generates for a model.
func Decodes(workers []admin.Presence, model string) bool {
	for _, w := range workers {
		if w.Live() && w.Role == protocol.RoleDecode && w.Model == model {
			return true
		}
	}
	return false
}

// Pipeline answers through the queue.
type Pipeline struct{ Client *client.Client }

// Submit puts a job into the intake, waiting while that is full.
func (p Pipeline) Submit(ctx context.Context, j *jobs.Job, earlier bool) error {
	return p.Client.SubmitWaiting(ctx, j, earlier)
}

// Await yields the results as they come.
func (p Pipeline) Await(ctx context.Context, batch string, ids []string) iter.Seq2[*jobs.Result, error] {
	return p.Client.AwaitBatch(ctx, batch, ids)
}
