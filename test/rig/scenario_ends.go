package rig

import (
	"context"
	"time"

	"tandem/test/rig/history"
	"tandem/test/rig/tap"
)

// endScenarios have jobs that are to end before they are done.
func endScenarios() []Scenario {
	return []Scenario{
		{
			Name: "cancelled at each stage", Quick: true, arrange: early("cancelled"),
			What: "jobs are cancelled while they wait for prefill, are in its call, wait for decode, and are in its call",
		},
		{
			Name: "expired at each stage", Quick: true, arrange: early("expired"),
			What: "the deadline of jobs passes while they wait for prefill, are in its call, wait for decode, and are in its call",
		},
	}
}

// early ends jobs at each stage. For each side one job's call is not answered, and behind it another job waits.
func early(status string) func(context.Context, *act) error {
	return func(ctx context.Context, a *act) error {
		const jobs = 2 // the one in its call, and the one behind it
		plan := scenePlan(2*jobs).split(jobs, jobs)
		a.plan = plan
		sides := []string{"prefill", "decode"}
		if status == "expired" {
			for i := range plan.Batches {
				plan.Batches[i].Deadline = 3 * time.Second
			}
		}
		held := map[string]string{} // marker → the side whose call is not answered
		for i, side := range sides {
			list := plan.Batches[i].Jobs
			held[list[0].Marker] = side
			list[0].Tokens, list[1].Tokens = 24, 1 // the longest one is published first
		}
		a.Each = 1
		a.hooks.call = func(_ *System, m *machine, _ *tap.Exchange, marker string) (tap.Answer, bool) {
			return lost, marker != "" && held[marker] == role(m.Name())
		}
		a.strike = func(ctx context.Context, s *scene) error {
			for i, b := range plan.Batches {
				told := s.begin(ctx, b)
				if status == "cancelled" {
					if err := s.cancelAt(ctx, sides[i], b); err != nil {
						return err
					}
				}
				if err := told(); err != nil {
					return err
				}
			}
			return nil
		}
		a.expect = func(s *scene) {
			s.wantEach(status, plan.Batches...)
			for i, b := range plan.Batches {
				for k, calls := range []int{1 + i, i} { // the one in its call was called there, the one behind it was not
					n := len(s.events(b.Jobs[k].Marker, history.Called))
					s.want(n == calls, b.Jobs[k].Marker, "want %d calls to engines, got %d: it was not at the stage where it was to end", calls, n)
				}
			}
		}
		return nil
	}
}

// cancelAt cancels the second job of a batch while it waits for a side, then the first in that side's call.
func (s *scene) cancelAt(ctx context.Context, side string, b Batch) error {
	in, behind := b.Jobs[0], b.Jobs[1]
	err := s.await(ctx, "a job in the call of "+side+" and one that waits for it", func() bool {
		called := 0
		for _, e := range s.events(in.Marker, history.Called) {
			if role(e.Process) == side {
				called++
			}
		}
		want := history.Accepted
		if side == "decode" {
			want = history.Stored
		}
		return called > 0 && len(s.events(behind.Marker, want)) > 0
	})
	if err != nil {
		return err
	}
	s.cancelJob(ctx, behind)
	s.cancelJob(ctx, in)
	return nil
}
