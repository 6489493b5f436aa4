package submitter

import (
	"cmp"
	"slices"

	"tandem/internal/engine"
	"tandem/jobs"
)

// answerWeight is for how many bytes of a prompt a token of an answer counts in the order: for 25 tokens of four bytes, which is what it takes on a GPU, about.
const answerWeight = 100

// publishingOrder is the order in which jobs are done soonest, all of them; it depends on the jobs alone, so that a resumed batch has the same one.
//
// Of a model's jobs those that share a prefix come in a row, so that an engine computes it once. Of these the longest comes first, so that no long one is left for
// the end. With plan disaggregated decode waits for the first prompt, so a short one goes before them. The jobs of several models come by turns. What it is worth: docs/ARCHITECTURE.md,
// "The order".
func publishingOrder(list []*jobs.Job) []*jobs.Job {
	groups := map[string]*group{}
	var inOrder []*group
	for _, j := range list {
		prefix, w := weigh(j)
		key := j.Model + "\x00" + prefix
		g := groups[key]
		if g == nil {
			g = &group{model: j.Model}
			groups[key] = g
			inOrder = append(inOrder, g)
		}
		g.jobs, g.work = append(g.jobs, weighed{j, w}), g.work+w
	}
	slices.SortStableFunc(inOrder, func(a, b *group) int { return cmp.Compare(b.work, a.work) })
	byModel := map[string][]weighed{}
	for _, g := range inOrder {
		slices.SortStableFunc(g.jobs, func(a, b weighed) int { return cmp.Compare(b.work, a.work) })
		if n := len(g.jobs); byModel[g.model] == nil && n > 2 && g.jobs[n-1].job.EffectivePlan() == jobs.PlanDisaggregated {
			g.jobs = append([]weighed{g.jobs[n-1]}, g.jobs[:n-1]...)
		}
		byModel[g.model] = append(byModel[g.model], g.jobs...)
	}
	return byTurns(byModel, len(list))
}

// group is the jobs of a model that share a prefix.
type group struct {
	model string
	jobs  []weighed
	work  int
}

type weighed struct {
	job  *jobs.Job
	work int
}

// alike is with how many equal bytes texts begin that are taken to share more of it, if their jobs do not say what they share.
const alike = 1024

// weigh names what a job probably shares with others, and weighs the rest of it: its own text and its answer's limit, as far as they are known.
func weigh(j *jobs.Job) (prefix string, work int) {
	text := engine.TextOf(j)
	work = text.Bytes - text.Shared + answerWeight*max(0, text.Limit)
	if text.Key != "" {
		return text.Key, work
	}
	prefix = j.System[:min(len(j.System), alike)] + "\x00" + j.Prompt[:min(len(j.Prompt), alike)]
	for _, m := range j.Messages {
		prefix += "\x00" + m.Content[:min(len(m.Content), max(0, alike-len(prefix)))]
	}
	return prefix[:min(len(prefix), alike)], work
}

// byTurns takes of each model's jobs in turn, so many of each that all end together: a full queue then holds some of each.
func byTurns(byModel map[string][]weighed, n int) []*jobs.Job {
	type placed struct {
		job   *jobs.Job
		place float64 // share of the model's jobs before it
	}
	all := make([]placed, 0, n)
	for _, list := range byModel {
		for i, w := range list {
			all = append(all, placed{w.job, (float64(i) + 0.5) / float64(len(list))})
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.job.Model, b.job.Model))
	})
	list := make([]*jobs.Job, len(all))
	for i, p := range all {
		list[i] = p.job
	}
	return list
}
