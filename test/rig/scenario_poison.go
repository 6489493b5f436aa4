package rig

import (
	"context"

	"tandem/test/rig/history"
	"tandem/test/rig/tap"
)

// Attempts that a job has before it is given up: 2 of prefill, then 3 as a whole on the decode machine.
const (
	prefillTries = 2
	decodeTries  = 3
)

// poisonScenarios have one job that ends whoever works for it.
func poisonScenarios() []Scenario {
	return []Scenario{
		poison("poison kills its engine", "each engine that computes for one job dies of it", true, Engine,
			func(s *System, m *machine) { s.wg.Go(func() { s.killEngine(s.ctx, m, InCall) }) }),
		poison("poison kills its worker", "each worker that has one job computed dies of it", false, Kill,
			func(_ *System, m *machine) { m.worker.kill(InCall) }),
	}
}

func poison(name, what string, quick bool, fault string, strike func(*System, *machine)) Scenario {
	return Scenario{Name: name, What: what, Quick: quick, arrange: func(ctx context.Context, a *act) error {
		plan := scenePlan(16)
		a.plan = plan
		bad := plan.Batches[0].Jobs[5].Marker
		a.Each = 2
		a.hooks.call = func(s *System, m *machine, _ *tap.Exchange, marker string) (tap.Answer, bool) {
			if marker != bad {
				return tap.Answer{}, false
			}
			strike(s, m)
			return tap.Answer{Verdict: tap.Cut}, true
		}
		a.expect = func(s *scene) {
			for _, j := range plan.Batches[0].Jobs {
				e := s.end(j.Marker)
				if j.Marker != bad {
					s.want(e.Status == "succeeded", j.Marker, "a job beside the poison ended as %q (%s)", e.Status, e.Error.Message)
					continue
				}
				s.want(e.Status == "failed" && e.Error.Code == "attempts_exhausted", j.Marker, "want the poison failed with attempts_exhausted, got %q with %q", e.Status, e.Error.Code)
				s.want(e.Attempts.Prefill == prefillTries && e.Attempts.Decode == decodeTries, j.Marker, "want %d and %d attempts, got %+v", prefillTries, decodeTries, e.Attempts)
				letters := 0
				for _, found := range s.events(j.Marker, history.Found) {
					if found.Stream == "DLQ" {
						letters++
					}
				}
				s.want(letters == 1, j.Marker, "want one dead letter, got %d", letters)
				s.want(s.faults(fault) <= prefillTries+decodeTries, j.Marker, "%d deaths: want at most %d", s.faults(fault), prefillTries+decodeTries)
			}
		}
		return nil
	}}
}
