package rig

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tandem/test/rig/history"
	"tandem/test/rig/tap"
)

// engineScenarios have engines that are away for a while.
func engineScenarios() []Scenario {
	return []Scenario{
		{
			Name: "model unloaded, then loading", Quick: true, arrange: unloaded,
			What: "the model leaves every engine's memory in the middle of a batch, and two engines answer 503 for some seconds while they load it again",
		},
		{
			Name: "engine frozen", arrange: frozenEngine,
			What: "an engine of each side stops in the middle of a call for longer than its worker's stall limit, and goes on later",
		},
	}
}

func unloaded(_ context.Context, a *act) error {
	const loading = 4 * time.Second
	plan := scenePlan(40)
	a.plan = plan
	a.Each = 2
	a.PerToken = time.Millisecond
	var until sync.Map // engine name → when it has loaded
	var refused atomic.Int64
	a.hooks.call = func(_ *System, m *machine, _ *tap.Exchange, marker string) (tap.Answer, bool) {
		end, _ := until.Load(m.Name())
		busy := end != nil && marker != "" && time.Now().Before(end.(time.Time))
		if busy {
			refused.Add(1)
		}
		return answers["503 loading"], busy
	}
	a.strike = func(ctx context.Context, s *scene) error {
		told := s.begin(ctx, plan.Batches...)
		if err := s.await(ctx, "the first jobs", func() bool { return s.ended() >= 5 }); err != nil {
			return err
		}
		for i, m := range s.machine {
			s.Log.Add(history.Event{Kind: history.Fault, Process: m.Name(), Note: "unload"})
			if err := m.Unload(ctx); err != nil {
				return err
			}
			if i%2 == 0 { // one of each side
				s.Log.Add(history.Event{Kind: history.Fault, Process: m.Name(), Note: "loading: for " + loading.String()})
				until.Store(m.Name(), time.Now().Add(loading))
			}
		}
		return told()
	}
	a.expect = func(s *scene) {
		s.wantUnblamed(plan.Batches...)
		s.want(refused.Load() > 0, "", "no engine was asked while it loaded its model")
	}
	return nil
}

func frozenEngine(ctx context.Context, a *act) error {
	const jobs, freezes = 12, 80 * time.Second // a worker takes 60 s of silence for a sign that nothing will come
	plan := scenePlan(jobs)
	a.plan = plan
	a.Each = 2
	var struck [2]atomic.Bool // prefill, decode
	a.hooks.call = func(s *System, m *machine, _ *tap.Exchange, marker string) (tap.Answer, bool) {
		side := 0
		if role(m.Name()) == "decode" {
			side = 1
		}
		if marker == "" || s.r.job(plan.Batches[0].Jobs[3+side].Marker) != s.r.job(marker) || struck[side].Swap(true) {
			return tap.Answer{}, false
		}
		s.Log.Add(history.Event{Kind: history.Fault, Process: m.Name(), Note: Freeze + ": in the engine call, for " + freezes.String()})
		err := m.Freeze()
		if err == nil {
			err = atRest(s.ctx, m.Pid()) // or it might still answer this call, and stand still in the next one
		}
		if err != nil {
			s.Log.Add(history.Event{Kind: history.Healed, Process: m.Name(), Note: "not frozen: " + err.Error()})
			return tap.Answer{}, false
		}
		s.wg.Go(func() {
			select {
			case <-time.After(freezes):
			case <-s.ctx.Done():
			}
			_ = m.Thaw() // it may have been ended with the system
			s.Log.Add(history.Event{Kind: history.Healed, Process: m.Name(), Note: "thawed"})
		})
		return tap.Answer{}, false
	}
	thawed := func(s *scene) func() bool {
		return func() bool {
			n := 0
			for _, e := range s.Log.Events() {
				if e.Kind == history.Healed && e.Note == "thawed" {
					n++
				}
			}
			return n == len(struck)
		}
	}
	a.strike = func(ctx context.Context, s *scene) error {
		if err := s.begin(ctx, plan.Batches...)(); err != nil {
			return err
		}
		return s.await(ctx, "the engines to go on", thawed(s)) // what they still had to say must do no harm
	}
	a.expect = func(s *scene) {
		s.wantEach("succeeded", plan.Batches...)
		for side := range struck {
			s.want(struck[side].Load(), plan.Batches[0].Jobs[3+side].Marker, "its engine was not frozen")
		}
		for i, j := range plan.Batches[0].Jobs {
			if i != 3 && i != 4 {
				a := s.end(j.Marker).Attempts
				s.want(a.Prefill == 1 && a.Decode == 1, j.Marker, "a job beside the frozen engines was tried %d and %d times", a.Prefill, a.Decode)
			}
		}
	}
	return nil
}
