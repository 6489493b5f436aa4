package rig

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"

	"tandem/internal/rig/check"
	"tandem/internal/rig/history"
	"tandem/internal/rig/host"
	"tandem/internal/rig/tap"
)

// queueScenarios have a queue that takes no more.
func queueScenarios() []Scenario {
	return []Scenario{{
		Name: "full queue", Quick: true, Run: fullQueue,
		What: "the intake holds 40 jobs, and a batch of 120 comes while no worker runs, with single jobs beside it",
	}}
}

// refusal is what submitter submit --json says of a job that was not taken.
type refusal struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	RetryAfter float64 `json:"retry_after_seconds"`
}

func fullQueue(ctx context.Context, dir string, p *host.Programs, say func(string, ...any)) (check.Verdict, error) {
	const jobs, limit = 120, 40
	plan := scenePlan(jobs+3).split(jobs, 1, 1, 1)
	for i := range plan.Batches[1:] {
		plan.Batches[1+i].Single = true
	}
	open := make(chan struct{})
	release := sync.OnceFunc(func() { close(open) })
	o := sceneOptions(dir, p, say, 2)
	o.hooks.call = func(_ *System, _ *machine, e *tap.Exchange, marker string) (tap.Answer, bool) {
		if marker != "" { // nothing is done before the queue was seen full
			select {
			case <-open:
			case <-e.Done:
			}
		}
		return tap.Answer{}, false
	}
	var refused [2]refusal // without workers, and with
	var codes [2]int
	script := func(ctx context.Context, s *scene) error {
		defer release()
		stream, err := s.js.Stream(ctx, "INTAKE")
		if err != nil {
			return err
		}
		config := stream.CachedInfo().Config
		config.MaxMsgs = limit
		if _, err := s.js.UpdateStream(ctx, config); err != nil {
			return err
		}
		s.Log.Add(history.Event{Kind: history.Fault, Process: s.nodes[0].Name(), Note: "limit: the intake holds 40 jobs"})
		start, err := s.stopAll(ctx, "prefill", "decode")
		if err != nil {
			return err
		}
		if err := os.MkdirAll(s.path("single"), 0o700); err != nil {
			return err
		}
		told := s.begin(ctx, plan.Batches[0])
		err = s.await(ctx, "a full intake", func() bool {
			for _, j := range plan.Batches[0].Jobs {
				if len(s.events(j.Marker, history.Refused)) > 0 {
					return true
				}
			}
			return false
		})
		if err != nil {
			return err
		}
		for i := range refused {
			if i == 1 {
				start()
				if err := s.awaitWorkers(); err != nil {
					return err
				}
			}
			c, err := s.caller("single", s.path("single"))
			if err != nil {
				return err
			}
			code, out, err := c.run(ctx, "--quiet", "submit", "--json", "--model", s.Models[0], plan.Batches[1+i].Jobs[0].Prompt)
			if err := errors.Join(err, c.nats.close()); err != nil {
				return err
			}
			codes[i] = code
			for line := range strings.Lines(out) {
				_ = json.Unmarshal([]byte(line), &refused[i]) // what else it prints is for people
			}
		}
		release()
		if err := told(); err != nil {
			return err
		}
		return s.begin(ctx, plan.Batches[1:]...)()
	}
	return play(ctx, o, plan, script, func(s *scene) {
		s.wantUnblamed(plan.Batches...)
		for i, r := range refused {
			s.want(codes[i] == 1 && r.Error.Code == "queue_full", "", "want submit %d refused with code 1 and queue_full, got %d and %+v", i, codes[i], r)
			s.want((r.RetryAfter > 0) == (i == 1), "", "submit %d: a time to try again is due when a worker lives, got %v s: %s", i, r.RetryAfter, r.Error.Message)
		}
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
	})
}
