package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"tandem/test/rig/history"
	"tandem/test/rig/host"
	"tandem/test/rig/tap"
)

// versionScenarios have programs that differ: in what they know, and in what time they think it is.
func versionScenarios() []Scenario {
	return []Scenario{
		{
			Name: "two versions", arrange: twoVersions,
			What: "on both sides a worker of a newer version runs beside one of ours, with a newer and an old submitter; the newer ones add a field to each record",
		},
		{
			Name: "clocks that jump", arrange: jumpingClocks,
			What: "in the middle of a batch with a deadline the clocks of workers jump two hours ahead and back, then the submitter's",
		},
	}
}

// newer is what a later version changes: each record that it makes has a field that ours does not know.
func newer() []host.Edit {
	const file = "jobs/open.go"
	return []host.Edit{
		{File: file, Old: "plainHandover(h), h.Extra", New: "plainHandover(h), next(h.Extra)"},
		{File: file, Old: "plainResult(r), r.Extra", New: "plainResult(r), next(r.Extra)"},
		{File: file, Old: "func (j *Job) extra() *Extra { return &j.Extra }", New: `func (j *Job) extra() *Extra { return &j.Extra }

func next(e Extra) Extra {
	all := Extra{"x_next": json.RawMessage("2")}
	for name, value := range e {
		all[name] = value
	}
	return all
}`},
		{
			File: "internal/app/submitter/batch.go",
			Old:  "Class: c.Class, SubmittedAt: now}",
			New:  `Class: c.Class, SubmittedAt: now, Extra: jobs.Extra{"x_next": []byte("{\"deep\":[1]}")}}`,
		},
	}
}

// hop is a hand-over as it was on the wire, as far as matters.
type hop struct {
	by   string          // who published it
	Next json.RawMessage `json:"x_next"`
	Job  struct {
		ID   string          `json:"id"`
		Next json.RawMessage `json:"x_next"`
	} `json:"job"`
}

func twoVersions(ctx context.Context, a *act) error {
	const jobs, ofJob, ofRecord = 30, `{"deep":[1]}`, "2"
	plan := scenePlan(2*jobs).split(jobs, jobs)
	a.plan = plan
	later, err := host.Build(ctx, filepath.Join(a.Dir, "bin"), host.BuildOptions{Edits: newer(), Only: []string{"prefill-worker", "decode-worker", "submitter"}})
	if err != nil {
		return err
	}
	laterCaller := callerPrefix + plan.Batches[0].Name
	isLater := func(process string) bool { return strings.HasSuffix(process, "-a2") || process == laterCaller }
	a.Each = 2
	a.PerToken = time.Millisecond // so that both workers of a side get some
	a.hooks.programs = func(process string) *host.Programs {
		if isLater(process) {
			return later
		}
		return nil
	}
	var mu sync.Mutex
	hops := map[string]hop{} // by job
	a.hooks.wire = func(_ *System, process string, op *tap.Op) tap.Verdict {
		if op.FromClient && strings.HasPrefix(op.Subject, "jobs.decode.") {
			h := hop{by: process}
			_ = json.Unmarshal(op.Payload, &h) // what is none has no field
			mu.Lock()
			defer mu.Unlock()
			hops[h.Job.ID] = h
		}
		return tap.Pass
	}
	a.expect = func(s *scene) {
		s.wantUnblamed(plan.Batches...)
		pairs := map[[2]bool]int{} // whose prefill and whose decode worker had the job
		for i, b := range plan.Batches {
			for _, j := range b.Jobs {
				h, e := hops[s.r.job(j.Marker)], s.end(j.Marker)
				want := ""
				if i == 0 {
					want = ofJob
				}
				s.want(string(h.Job.Next) == want, j.Marker, "the job's field in the hop is %q, want %q", h.Job.Next, want)
				want = ""
				if isLater(h.by) {
					want = ofRecord
				}
				s.want(string(h.Next) == want, j.Marker, "the hop's own field is %q, want %q", h.Next, want)
				var by string
				for _, published := range s.events(j.Marker, history.Published) {
					if strings.HasPrefix(published.Subject, "results.") {
						by = published.Process
					}
				}
				want = ""
				if isLater(by) {
					want = ofRecord
				}
				s.want(string(e.Next) == want, j.Marker, "the result's field is %q, want %q", e.Next, want)
				for _, told := range s.events(j.Marker, history.Told) {
					s.want(want == "" || bytes.Contains(told.Record, []byte(`"x_next":2`)), j.Marker, "the caller was told a result without the field")
				}
				pairs[[2]bool{isLater(h.by), isLater(by)}]++
			}
		}
		s.want(len(pairs) == 4, "", "want each pair of versions to have had jobs, got %v", pairs)
	}
	return nil
}

func jumpingClocks(ctx context.Context, a *act) error {
	const jump = 2 * time.Hour
	plan := scenePlan(60+6).split(60, 6)
	a.plan = plan
	plan.Batches[0].Deadline, plan.Batches[1].Deadline = 10*time.Minute, 4*time.Second
	short := map[string]bool{}
	for _, j := range plan.Batches[1].Jobs {
		short[j.Marker] = true
	}
	moving, err := host.Build(ctx, filepath.Join(a.Dir, "bin"), host.BuildOptions{Clock: true, Only: []string{"prefill-worker", "decode-worker", "submitter"}})
	if err != nil {
		return err
	}
	a.Each = 2
	a.PerToken = time.Millisecond
	a.hooks.programs = func(string) *host.Programs { return moving }
	a.hooks.call = func(_ *System, m *machine, _ *tap.Exchange, marker string) (tap.Answer, bool) {
		return lost, short[marker] // it can only expire
	}
	a.strike = func(ctx context.Context, s *scene) error {
		move := func(p *host.Process, by time.Duration) error {
			s.Log.Add(history.Event{Kind: history.Fault, Process: p.Name(), Note: "clock: moved by " + by.String()})
			return p.MoveClock(by)
		}
		moveWorkers := func(one, other time.Duration) error {
			for _, u := range s.workers {
				by := one
				if strings.HasSuffix(u.name, "2") {
					by = other
				}
				if err := move(u.current(), by); err != nil {
					return err
				}
			}
			return nil
		}
		told := s.begin(ctx, plan.Batches[0])
		if err := s.await(ctx, "the first jobs", func() bool { return s.ended() >= 8 }); err != nil {
			return err
		}
		if err := moveWorkers(jump, -jump); err != nil {
			return err
		}
		if err := s.await(ctx, "more jobs", func() bool { return s.ended() >= 24 }); err != nil {
			return err
		}
		s.callersMu.Lock()
		submitter := s.callers[callerPrefix+plan.Batches[0].Name]
		s.callersMu.Unlock()
		if err := move(submitter, jump); err != nil {
			return err
		}
		if err := told(); err != nil {
			return err
		}
		if err := moveWorkers(-jump, -jump); err != nil {
			return err
		}
		return s.begin(ctx, plan.Batches[1])()
	}
	a.expect = func(s *scene) {
		s.wantUnblamed(plan.Batches[0])
		s.wantEach("expired", plan.Batches[1])
		s.want(s.faults("clock") == 9, "", "want 9 clocks moved, got %d", s.faults("clock"))
		for _, j := range plan.Batches[1].Jobs { // not by a caller that came to it first, nor late
			submitted, done := s.events(j.Marker, history.Submitted), s.events(j.Marker, history.Told)
			s.want(len(submitted) > 0 && len(done) > 0 && done[0].At-submitted[0].At < 15*time.Second, j.Marker, "it was to expire 4 s after it was submitted")
		}
	}
	return nil
}
