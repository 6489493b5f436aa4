package rig

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"tandem/test/rig/history"
	"tandem/test/rig/tap"
)

// callerScenarios have callers that die, and callers and workers that start before there is anybody to talk to.
func callerScenarios() []Scenario {
	return []Scenario{
		{
			Name: "submitter killed", Quick: true, arrange: killedCallers,
			What: "submitters are killed after the manifest and before the first publish, in the middle of publishing, between the last publish and the first result, and with half of the results, and resumed",
		},
		{
			Name: "NATS away at the start", Quick: true, arrange: natsAway,
			What: "workers and submitters start before NATS does, and while it does not answer",
		},
	}
}

// deaths are when a submitter of a batch dies, told by what passed on its wire.
var deaths = []struct {
	when string
	now  func(published, results, jobs int) bool // published and results count what passes now as well
}{
	{"before the first publish", func(published, _, _ int) bool { return published == 1 }},
	{"in the middle of publishing", func(published, _, jobs int) bool { return published == jobs/2 }},
	{"between the last publish and the first result", func(published, results, jobs int) bool { return published == jobs && results == 1 }},
	{"with half of the results", func(_, results, jobs int) bool { return results == jobs/2+1 }},
}

func killedCallers(_ context.Context, a *act) error {
	const jobs = 10
	plan := scenePlan(jobs*len(deaths)).split(jobs, jobs, jobs, jobs)
	a.plan = plan
	a.Each = 2
	a.PerToken = time.Millisecond
	type progress struct {
		published, results int
		dead               bool
		manifest           bool // was on the disk when the submitter died
		files              int  // results
	}
	var mu sync.Mutex
	seen := map[string]*progress{} // by caller
	of := map[string]int{}
	for i, b := range plan.Batches {
		seen[callerPrefix+b.Name], of[callerPrefix+b.Name] = &progress{}, i
	}
	a.hooks.wire = func(s *System, process string, op *tap.Op) tap.Verdict {
		mu.Lock()
		defer mu.Unlock()
		at := seen[process]
		if at == nil || at.dead {
			return tap.Pass
		}
		switch {
		case op.FromClient && strings.HasPrefix(op.Subject, "jobs.prefill."):
			at.published++
		case !op.FromClient && strings.HasPrefix(op.Subject, "results.") && op.Verb != "SUB":
			at.results++
		default:
			return tap.Pass
		}
		death := deaths[of[process]]
		if !death.now(at.published, at.results, jobs) {
			return tap.Pass
		}
		s.callersMu.Lock()
		dying := s.callers[process]
		s.callersMu.Unlock()
		if dying == nil {
			return tap.Pass
		}
		at.dead = true
		s.Log.Add(history.Event{Kind: history.Fault, Process: process, Note: Caller + ": " + death.when})
		dying.Kill()
		list, _ := os.ReadDir(s.path("callers", strings.TrimPrefix(process, callerPrefix), "out")) // none, if it is not there
		for _, f := range list {
			if f.Name() == "batch.manifest.json" {
				at.manifest = true
			} else if strings.HasSuffix(f.Name(), ".json") {
				at.files++
			}
		}
		return tap.Cut
	}
	a.expect = func(s *scene) {
		s.wantUnblamed(plan.Batches...)
		for i, b := range plan.Batches {
			at, first := seen[callerPrefix+b.Name], b.Jobs[0].Marker
			s.want(at.dead, first, "its submitter was not killed %s", deaths[i].when)
			s.want(at.manifest, first, "its submitter had published without a manifest on the disk")
			most := 0
			if i == len(deaths)-1 {
				most = jobs - 1
			}
			s.want(at.files <= most && (most == 0 || at.files > 0), first, "its submitter had %d results when it died", at.files)
			for _, j := range b.Jobs {
				s.want(len(s.events(j.Marker, history.Told)) == 1, j.Marker, "told %d times", len(s.events(j.Marker, history.Told)))
			}
		}
	}
	return nil
}

func natsAway(_ context.Context, a *act) error {
	const jobs = 12
	plan := scenePlan(jobs+1).split(jobs, 1)
	a.plan = plan
	plan.Batches[1].Single = true
	var codes []string
	a.strike = func(ctx context.Context, s *scene) error {
		start, err := s.stopAll(ctx, "prefill", "decode")
		if err != nil {
			return err
		}
		node := s.nodes[0]
		s.Log.Add(history.Event{Kind: history.Fault, Process: node.Name(), Note: Stop + ": before the others start"})
		if err := node.Stop(ctx); err != nil {
			return err
		}
		for _, u := range []*unit{s.workers[0], s.workers[len(s.workers)-1]} {
			w, err := u.launch()
			if err != nil {
				return err
			}
			select {
			case <-w.Exited():
			case <-ctx.Done():
				w.Kill()
				return context.Cause(ctx)
			}
			codes = append(codes, fmt.Sprintf("%s: %d: %s", u.name, w.Code(), lastLine(w.Output())))
		}
		c, err := s.caller("early", s.path("early"))
		if err != nil {
			return err
		}
		defer c.nats.close()
		if err := os.MkdirAll(c.dir, 0o700); err != nil {
			return err
		}
		code, out, err := c.run(ctx, "submit", "--model", s.Models[0], plan.Batches[1].Jobs[0].Prompt)
		if err != nil {
			return err
		}
		codes = append(codes, fmt.Sprintf("submit: %d: %s", code, lastLine(out)))
		start() // as a service manager does, again and again
		err = s.await(ctx, "workers that try again", func() bool {
			tried := 0
			for _, e := range s.Log.Events() {
				if e.Kind == history.Healed && e.Process == s.workers[0].name {
					tried++
				}
			}
			return tried >= 3
		})
		if err != nil {
			return err
		}
		if err := node.Start(ctx); err != nil {
			return err
		}
		s.Log.Add(history.Event{Kind: history.Healed, Process: node.Name(), Note: "started again"})
		if err := s.begin(ctx, plan.Batches[0])(); err != nil {
			return err
		}

		// A server that takes connections and says nothing is waited for.
		s.Log.Add(history.Event{Kind: history.Fault, Process: node.Name(), Note: Freeze + ": before a submitter starts"})
		if err := node.Process().Freeze(); err != nil {
			return err
		}
		told := s.begin(ctx, plan.Batches[1])
		select {
		case <-time.After(2 * time.Second): // less than a client waits for a connection
		case <-ctx.Done():
		}
		if err := node.Process().Thaw(); err != nil {
			return err
		}
		s.Log.Add(history.Event{Kind: history.Healed, Process: node.Name(), Note: "thawed"})
		return told()
	}
	a.expect = func(s *scene) {
		s.wantEach("succeeded", plan.Batches...)
		s.want(len(codes) == 3, "", "want 3 programs that ended, got %d", len(codes))
		for _, text := range codes {
			s.want(strings.Contains(text, ": 4: ") && strings.Contains(text, "NATS"), "", "want a program that ends with code 4 and names NATS, got %s", text)
		}
	}
	return nil
}
