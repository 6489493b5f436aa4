package submitter

import (
	"sync"
	"time"

	"tandem/client/admin"
	"tandem/internal/engine"
	"tandem/internal/forecast"
	"tandem/jobs"
)

// foresight knows what is left of a batch, and foresees when that will be done. It is safe for concurrent use.
type foresight struct {
	class  jobs.Class
	models []string
	plans  map[string]jobs.Plan
	order  map[string][]string // ids by model, as they are published

	mu   sync.Mutex
	left map[string]engine.Text // by id: jobs without a result
}

func newForesight(list []*jobs.Job) *foresight {
	f := &foresight{class: list[0].Class, models: models(list), plans: map[string]jobs.Plan{}, order: map[string][]string{}, left: map[string]engine.Text{}}
	of := map[string][]*jobs.Job{}
	for _, j := range publishingOrder(list) {
		f.order[j.Model] = append(f.order[j.Model], j.ID)
		f.left[j.ID] = engine.TextOf(j)
		of[j.Model] = append(of[j.Model], j)
	}
	for model, list := range of {
		f.plans[model] = askedPlan(list)
	}
	return f
}

// done takes the id of a job that has a result.
func (f *foresight) done(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.left, id)
}

// until foresees when the rest will be done; ok is false if that cannot be told.
func (f *foresight) until(o *admin.Overview) (left time.Duration, ok bool) {
	for _, model := range f.models {
		l := forecast.Look(o, model, f.class)
		rest, ok := l.Until(l.Sizes(f.texts(model)), f.plans[model])
		if !ok {
			return 0, false
		}
		left = max(left, rest)
	}
	return left, true
}

// texts are those of a model's jobs without a result, as they were published.
func (f *foresight) texts(model string) (texts []engine.Text) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.order[model] {
		if t, left := f.left[id]; left {
			texts = append(texts, t)
		}
	}
	return texts
}
