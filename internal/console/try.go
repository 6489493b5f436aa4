package console

import (
	"maps"
	"net/http"
	"slices"

	"tandem/internal/people"
	"tandem/jobs"
)

// try has the page where a person asks a model. Its script asks the gateway, which answers as it does a program.
func (c *Console) try(mux *http.ServeMux) {
	mux.HandleFunc("GET "+home+"/try", func(w http.ResponseWriter, r *http.Request) {
		s := c.shell(r, "Try it")
		s.Scripts = []string{"try.js"}
		c.watch.refresh(r.Context())
		page(w, http.StatusOK, "try.html", struct {
			shell
			May    bool
			Models []string
			Plans  []jobs.Plan
		}{s, s.Person.Role.May(people.Grader), c.watch.known(), []jobs.Plan{jobs.PlanAuto, jobs.PlanDisaggregated, jobs.PlanLocal}})
	})
}

// known are the models that somebody serves, or served.
func (w *watch) known() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := map[string]bool{}
	for _, m := range w.models {
		names[m.Model] = true
	}
	for _, one := range w.workers {
		names[one.Model] = true
	}
	return slices.Sorted(maps.Keys(names))
}
