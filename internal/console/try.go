package console

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"tandem/internal/people"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// try has the page where a person asks a model. Its script asks the gateway, which answers as it does a program.
func (c *Console) try(mux *http.ServeMux) {
	mux.HandleFunc("GET "+home+"/try", func(w http.ResponseWriter, r *http.Request) {
		s := c.shell(r, "Try it")
		s.Scripts = []string{"try.js"}
		c.watch.refresh(context.WithoutCancel(r.Context())) // others see what comes of it, too
		page(w, http.StatusOK, "try.html", struct {
			shell
			May    bool
			Models []string
			Plans  []jobs.Plan
		}{s, s.Person.Role.May(people.Grader), c.watch.known(), []jobs.Plan{jobs.PlanAuto, jobs.PlanDisaggregated, jobs.PlanLocal}})
	})
}

// known are the models that somebody serves, or served: first those for which text can be generated now.
func (w *watch) known() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	generated := map[string]bool{}
	for _, m := range w.models {
		generated[m.Model] = false
	}
	for _, one := range w.workers {
		generated[one.Model] = generated[one.Model] || !one.gone && one.Live() && one.Role == protocol.RoleDecode
	}
	names := slices.Sorted(maps.Keys(generated))
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case generated[a] == generated[b]:
			return 0
		case generated[a]:
			return -1
		}
		return 1
	})
	return names
}
