package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"tandem/test/rig/history"
	"tandem/test/rig/tap"
)

// queueScenarios have a queue that takes no more.
func queueScenarios() []Scenario {
	return []Scenario{{
		Name: "full queue", Quick: true, arrange: fullQueue,
		What: "an operator lets the intake hold 40 jobs, and larger batches come, with single jobs beside them: once while the workers are busy, once while there are none",
	}}
}

// refusal is what submitter submit --json says of a job that was not taken.
type refusal struct {
	code  int // of its exit
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	RetryAfter float64 `json:"retry_after_seconds"`
}

func fullQueue(_ context.Context, a *act) error {
	const limit = 40
	plan := scenePlan(120 + 60 + 4)
	a.plan = plan
	plan.split(120, 1, 60, 1, 1, 1)
	no := plan.Batches[4:] // these are never accepted
	plan.Batches = plan.Batches[:4]
	plan.Batches[1].Single, plan.Batches[3].Single = true, true
	open := make(chan struct{})
	release := sync.OnceFunc(func() { close(open) })
	a.Each = 2
	a.hooks.call = func(_ *System, _ *machine, e *tap.Exchange, marker string) (tap.Answer, bool) {
		if marker != "" { // nothing is done before the queue was seen full
			select {
			case <-open:
			case <-e.Done:
			}
		}
		return tap.Answer{}, false
	}
	var busy, alone refusal
	a.strike = func(ctx context.Context, s *scene) error {
		defer release()
		normal, err := s.limitIntake(ctx, limit)
		if err != nil {
			return err
		}
		told := s.begin(ctx, plan.Batches[0])
		if err := s.await(ctx, "an intake with nine tenths of what it holds", func() bool { // more one user may not have, and workers say so to who asks
			stream, err := s.js.Stream(ctx, "INTAKE")
			return err == nil && stream.CachedInfo().State.Msgs >= limit*9/10
		}); err != nil {
			return err
		}
		if busy, err = s.refused(ctx, no[0].Jobs[0]); err != nil {
			return err
		}
		release()
		if err := errors.Join(told(), s.begin(ctx, plan.Batches[1])()); err != nil {
			return err
		}

		start, err := s.stopAll(ctx, "prefill", "decode")
		if err != nil {
			return err
		}
		told = s.begin(ctx, plan.Batches[2])
		if err := s.await(ctx, "a full intake", func() bool {
			return slices.ContainsFunc(plan.Batches[2].Jobs, func(j Job) bool { return len(s.events(j.Marker, history.Refused)) > 0 })
		}); err != nil {
			return err
		}
		if alone, err = s.refused(ctx, no[1].Jobs[0]); err != nil {
			return err
		}
		start()
		if err := told(); err != nil { // by workers that take the limit as the operator's choice
			return err
		}
		if _, err := s.limitIntake(ctx, normal); err != nil {
			return err
		}
		return s.begin(ctx, plan.Batches[3])()
	}
	a.expect = func(s *scene) {
		s.wantUnblamed(plan.Batches...)
		for _, r := range []refusal{busy, alone} {
			s.want(r.code == 1 && r.Error.Code == "queue_full", "", "want a submit refused with code 1 and queue_full, got %+v", r)
		}
		s.want(busy.RetryAfter >= 1, "", "want a time to try again while workers live, got %v s: %s", busy.RetryAfter, busy.Error.Message)
		s.want(alone.RetryAfter == 0 && strings.Contains(alone.Error.Message, "start one"), "", "want no time to try again while no worker lives, got %v s: %s", alone.RetryAfter, alone.Error.Message)
		for _, b := range plan.Batches {
			for _, j := range b.Jobs {
				hops := map[history.Kind]int{}
				for _, e := range s.events(j.Marker, history.Published, history.Stored) {
					if strings.HasPrefix(e.Subject, "jobs.") {
						hops[e.Kind]++
					}
				}
				s.want(hops[history.Published] == 1 && hops[history.Stored] == 1, j.Marker, "want one hop, taken at once, got %d published and %d taken", hops[history.Published], hops[history.Stored])
			}
		}
	}
	return nil
}

// limitIntake has the intake take so many jobs, as an operator does, and returns how many it took before.
func (s *scene) limitIntake(ctx context.Context, jobs int64) (before int64, err error) {
	stream, err := s.js.Stream(ctx, "INTAKE")
	if err != nil {
		return 0, err
	}
	config := stream.CachedInfo().Config
	before, config.MaxMsgs = config.MaxMsgs, jobs
	s.Log.Add(history.Event{Kind: history.Fault, Process: s.nodes[0].Name(), Note: fmt.Sprintf("limit: the intake holds %d jobs", jobs)})
	_, err = s.js.UpdateStream(ctx, config)
	return before, err
}

// refused submits a single job that is to be refused.
func (s *scene) refused(ctx context.Context, j Job) (r refusal, err error) {
	dir := s.path("refused-" + j.Marker)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return r, err
	}
	c, err := s.caller("refused-"+j.Marker, dir)
	if err != nil {
		return r, err
	}
	defer c.nats.close()
	code, out, err := c.run(ctx, "--quiet", "submit", "--json", "--model", j.Model, j.Prompt)
	for line := range strings.Lines(out) {
		_ = json.Unmarshal([]byte(line), &r) // what else it prints is for people
	}
	r.code = code
	return r, err
}
