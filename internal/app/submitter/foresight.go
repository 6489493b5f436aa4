package submitter

import (
	"math"
	"sync"
	"time"

	"tandem/client/admin"
	"tandem/internal/engine"
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
		l := lookAt(o, model, f.class)
		rest, ok := l.until(l.sizes(f.texts(model)), f.plans[model])
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

// mostForeseen is for how many jobs of a model it takes no time worth mentioning to foresee their end.
const mostForeseen = 20_000

// until foresees when jobs will be done that were published in this order and have no result. As many of the first ones as the workers are at, or as
// wait for a decode worker, are taken to be those; the others wait, behind jobs of others if there are more of them.
func (l *lookout) until(sizes []engine.Size, plan jobs.Plan) (left time.Duration, ok bool) {
	switch {
	case len(sizes) == 0:
		return 0, true
	case l.missing != "" || len(sizes) > mostForeseen:
		return 0, false
	}
	waiting := sizes[min(len(sizes), l.running()+l.relay):]
	f := l.outlook(waiting, sizes, max(0, l.waiting-len(waiting))).Scene().Forecast(planOf(plan))
	return seconds(f.End), !math.IsInf(f.End, 1)
}
