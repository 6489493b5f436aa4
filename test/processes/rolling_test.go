package processes

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"tandem/internal/ollama/ollamatest"
	"tandem/jobs"
)

// All workers are stopped and replaced, one after the other and twice round, while a batch is done: every job succeeds, none is
// miscounted, and none is computed twice.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	const n, rounds = 200, 2
	type place struct {
		role   jobs.Stage
		engine *ollamatest.Server
		worker *process
	}
	var places []*place
	for _, role := range sides {
		for range 2 {
			places = append(places, &place{role: role, engine: s.engine(time.Millisecond)})
		}
	}
	generation := 0
	begin := func(p *place) {
		generation++
		p.worker = s.worker(p.role, fmt.Sprintf("%s-%d", p.role, generation), p.engine.URL())
	}
	for _, p := range places {
		begin(p)
	}
	dir := filepath.Join(s.home, "results")
	batch := s.submitter("batch", s.batchFile(n), "--plan", "disaggregated", "--out", dir)
	ended := s.publishing("results.>")
	for range rounds {
		for _, p := range places {
			ended(n / (2 * rounds * len(places))) // so that all of it happens while there is work
			old := p.worker
			old.terminate()
			begin(p)
			old.exits(0)
		}
	}
	if _, done := s.stored("RESULTS"); done >= n {
		t.Errorf("all %d jobs were done before the last worker was replaced", n)
	}
	batch.exits(0)

	for _, r := range s.results(dir, n) {
		wantAttempts(t, r, 1, 1)
		if r.Method != jobs.MethodDisaggregated {
			t.Errorf("job %s was done by %s: %s", r.JobID, r.Method, r.Decision)
		}
	}
	s.once(n)
	for _, role := range sides {
		calls := 0
		for _, p := range places {
			if p.role == role {
				calls += p.engine.Calls()
			}
		}
		if calls != n {
			t.Errorf("the engines of %s were asked %d times for %d jobs", role, calls, n)
		}
	}
}
