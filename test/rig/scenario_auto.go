package rig

import (
	"context"
	"sync"
	"time"

	"tandem/test/rig/history"
	"tandem/test/rig/tap"
)

// autoScenarios are of plan auto.
func autoScenarios() []Scenario {
	return []Scenario{{
		Name: "interactive job among whole ones", Quick: true, arrange: givenWay,
		What: "an interactive job comes while every slot of both sides is taken by a batch job that is done whole there and does not end",
	}}
}

// givenWay has the engines answer no batch job before the interactive one has ended. It ends only if they give way.
func givenWay(_ context.Context, a *act) error {
	const jobs = 12
	plan := scenePlan(jobs+1).split(jobs, 1)
	a.plan = plan
	batch, urgent := plan.Batches[0], plan.Batches[1].Jobs[0]
	plan.Batches[1].Single = true
	for i := range batch.Jobs {
		batch.Jobs[i].Plan = "auto"
	}
	a.Each = 1
	open := make(chan struct{})
	release := sync.OnceFunc(func() { close(open) })
	a.hooks.call = func(_ *System, _ *machine, e *tap.Exchange, marker string) (tap.Answer, bool) {
		if marker != "" && marker != urgent.Marker {
			select {
			case <-open:
			case <-e.Done: // its worker has given way
			}
		}
		return tap.Answer{}, false
	}
	a.strike = func(ctx context.Context, s *scene) error {
		defer release()
		told := s.begin(ctx, batch)
		if err := s.await(ctx, "a whole job at each engine", func() bool { return len(s.computing(batch)) == len(s.machine) }); err != nil {
			return err
		}
		toldUrgent := s.begin(ctx, plan.Batches[1])
		const limit = 30 * time.Second // before the workers' stall limit
		err := s.until(limit, "its end", func(context.Context) (bool, error) { return s.r.status(s.r.job(urgent.Marker)) != "", ctx.Err() })
		s.want(err == nil, urgent.Marker, "it waited for batch jobs: %v", err)
		release()
		if err := told(); err != nil {
			return err
		}
		return toldUrgent()
	}
	a.expect = func(s *scene) {
		s.wantEach("succeeded", plan.Batches...) // that none is miscounted is the judge's rule
		again := 0
		for _, j := range batch.Jobs {
			if len(s.events(j.Marker, history.Called)) > 1 {
				again++
			}
		}
		s.want(again >= len(s.machine), "", "want a job of each side begun again, got %d", again)
	}
	return nil
}

// computing are the engines that were called for jobs of a batch.
func (s *scene) computing(b Batch) map[string]bool {
	engines := map[string]bool{}
	for _, j := range b.Jobs {
		for _, e := range s.events(j.Marker, history.Called) {
			engines[e.Process] = true
		}
	}
	return engines
}
