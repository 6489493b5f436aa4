package submitter

import (
	"tandem/client/admin"
	"tandem/internal/engine"
	"tandem/internal/forecast"
	"tandem/jobs"
)

// askedPlan is the plan that jobs have, or, of several, the one that rules who does what.
func askedPlan(list []*jobs.Job) jobs.Plan {
	has := map[jobs.Plan]bool{}
	for _, j := range list {
		has[j.EffectivePlan()] = true
	}
	for _, p := range []jobs.Plan{jobs.PlanAuto, jobs.PlanDisaggregated} {
		if has[p] {
			return p
		}
	}
	return jobs.PlanLocal
}

// estimateBatch estimates a batch that nobody has submitted; without an overview by published figures.
func estimateBatch(o *admin.Overview, list []*jobs.Job) *forecast.Estimate {
	e := new(forecast.Estimate)
	order := publishingOrder(list)
	for _, model := range models(list) {
		var texts []engine.Text
		var of []*jobs.Job
		for _, j := range order {
			if j.Model == model {
				of, texts = append(of, j), append(texts, engine.TextOf(j))
			}
		}
		l := forecast.Look(o, model, list[0].Class)
		e.Add(l.Estimate(l.Sizes(texts), askedPlan(of)))
	}
	return e
}
