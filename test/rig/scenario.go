package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tandem/test/rig/check"
	"tandem/test/rig/history"
	"tandem/test/rig/host"
	"tandem/test/rig/tap"
)

// Scenario is a situation that a random storm does not bring about, on a small system of its own.
type Scenario struct {
	Name  string
	What  string // happens, in one sentence
	Quick bool   // it takes less than 20 s, needs no engine but the no-op one and no build of its own
	// arrange makes the act.
	arrange func(ctx context.Context, a *act) error
}

// act is what a scenario arranges: a system, the jobs, what strikes them, and what is expected of the end.
type act struct {
	Options                                           // of the system
	plan    *Plan                                     // of the jobs
	strike  func(ctx context.Context, s *scene) error // submits the jobs, does what goes wrong, and returns when their callers were told; unless set, it only submits them
	expect  func(s *scene)                            // asks what the judge does not
	after   func() error                              // ends what arrange began
}

// Run plays a scenario in the folder dir, which it makes, with everything of the run. The verdict is the judge's, and holds as well what was
// expected of this scenario and did not come, by the rule [Missed]. An error that is [ErrNotRun] says why it cannot be played on this machine.
func (sc Scenario) Run(ctx context.Context, dir string, p *host.Programs, say func(format string, args ...any)) (v check.Verdict, err error) {
	a := act{
		Options: Options{Dir: dir, Programs: p, Models: RealStorm(0).Models[:1], Each: 1, Nodes: 1, Slots: 1, NumCtx: 4096, Say: say}, // small, with no-op engines
		after:   func() error { return nil },
	}
	a.strike = func(ctx context.Context, s *scene) error { return s.begin(ctx, a.plan.Batches...)() }
	if err := sc.arrange(ctx, &a); err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, a.after()) }()
	return a.play(ctx)
}

// Missed is the rule by which a verdict holds that a scenario did not end as it should.
const Missed check.Rule = "expectation missed"

// ErrNotRun says that a scenario needs what this machine does not have.
var ErrNotRun = errors.New("not run")

// Scenarios are all of them.
func Scenarios() []Scenario {
	return slices.Concat(poisonScenarios(), engineScenarios(), endScenarios(), callerScenarios(), queueScenarios(), autoScenarios(), versionScenarios(), clockScenarios(), diskScenarios(), partitionScenarios())
}

const (
	sceneLimit = 6 * time.Minute // for all of a scenario but the start of its system
	eventLimit = 90 * time.Second
)

// scene is a scenario while it is played.
type scene struct {
	*System
	plan   *Plan
	missed []check.Violation
}

// sceneSeed is of the jobs of all scenarios: what is random in them matters to none.
const sceneSeed = 1

// scenePlan is a plan of so many jobs in one batch, with no fault.
func scenePlan(jobs int) *Plan {
	return NewPlan(sceneSeed, Shape{Jobs: jobs, Models: RealStorm(0).Models[:1], BatchSize: jobs, Callers: 1, PromptWords: [2]int{20, 40}, Tokens: [2]int{4, 12}})
}

// split makes batches of so many jobs each of the only batch of a plan.
func (p *Plan) split(sizes ...int) *Plan {
	all := p.Batches[0]
	p.Batches = nil
	for i, n := range sizes {
		p.Batches = append(p.Batches, Batch{Name: fmt.Sprintf("%s-%d", all.Name, i), Jobs: all.Jobs[:n]})
		all.Jobs = all.Jobs[n:]
	}
	return p
}

// play starts the system, has the act strike, looks into every stream, has the judge speak, and asks what else was expected.
func (a *act) play(ctx context.Context) (v check.Verdict, err error) {
	system, err := Start(ctx, a.Options)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, system.Stop()) }()
	s := &scene{System: system, plan: a.plan}
	s.Log.Add(history.Event{Kind: history.Began, Note: fmt.Sprintf("seed %d, %+v", a.plan.Seed, a.plan.Shape)})
	ctx, cancel := context.WithTimeoutCause(s.ctx, sceneLimit, errors.New("the scenario does not end"))
	defer cancel()
	if err := a.strike(ctx, s); err != nil {
		return v, err
	}
	if err := s.settle(ctx, a.plan); err != nil {
		return v, err
	}
	v = check.Check(s.Log.Events())
	a.expect(s)
	if err := s.sound(); err != nil {
		s.want(false, "", "%v", err)
	}
	v.Violations = append(v.Violations, s.missed...)
	return v, nil
}

// begin has each batch submitted by a caller of its own, and returns what waits until all were told.
func (s *scene) begin(ctx context.Context, batches ...Batch) (told func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	for _, b := range batches {
		wg.Go(func() {
			if err := s.call(ctx, b); err != nil {
				cancel(err)
			}
		})
	}
	return func() error {
		wg.Wait()
		defer cancel(nil)
		return context.Cause(ctx)
	}
}

// await waits until the history, or what it shows, is so.
func (s *scene) await(ctx context.Context, what string, there func() bool) error {
	return s.until(eventLimit, what, func(context.Context) (bool, error) { return there(), ctx.Err() })
}

// ended is how many jobs have.
func (s *scene) ended() int {
	n, _ := s.r.now()
	return n
}

// end is a job's result as the stream holds it.
type end struct {
	Status string `json:"status"`
	Error  struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Attempts struct {
		Prefill int `json:"prefill"`
		Decode  int `json:"decode"`
	} `json:"attempts"`
	Method   string   `json:"method"`
	Warnings []string `json:"warnings"`
	Usage    struct {
		HandedOver int `json:"handed_over"`
	} `json:"usage"`
	Handover struct {
		Failure string `json:"failure"`
		Message string `json:"message"`
	} `json:"handover"`
	Next json.RawMessage `json:"x_next"` // what a newer version adds
}

// end is how the job with a marker ended; the zero value if it did not.
func (s *scene) end(marker string) (e end) {
	for _, found := range s.events(marker, history.Found) {
		if found.Stream == "RESULTS" {
			_ = json.Unmarshal(found.Record, &e) // what is no record is no end, which the judge sees
		}
	}
	return e
}

// events are those of the job with a marker, of some kinds, or all if none is named.
func (s *scene) events(marker string, kinds ...history.Kind) []history.Event {
	id := s.r.job(marker)
	return slices.DeleteFunc(s.Log.Events(), func(e history.Event) bool {
		return e.Job != id || id == "" || len(kinds) > 0 && !slices.Contains(kinds, e.Kind)
	})
}

// faults counts those whose note begins so.
func (s *scene) faults(prefix string) (n int) {
	for _, e := range s.Log.Events() {
		if e.Kind == history.Fault && strings.HasPrefix(e.Note, prefix) {
			n++
		}
	}
	return n
}

// want notes it if a thing did not come as expected of the job with a marker, or, without one, of the run.
func (s *scene) want(is bool, marker, format string, args ...any) {
	if is {
		return
	}
	v := check.Violation{Rule: Missed, Job: s.r.job(marker), What: fmt.Sprintf(format, args...)}
	if marker != "" {
		v.Slice = s.events(marker)
	}
	s.missed = append(s.missed, v)
}

// wantEach asks for an end of each job of some batches.
func (s *scene) wantEach(status string, batches ...Batch) {
	for _, b := range batches {
		for _, j := range b.Jobs {
			e := s.end(j.Marker)
			s.want(e.Status == status, j.Marker, "want status %s, got %q (%s)", status, e.Status, e.Error.Message)
		}
	}
}

// wantUnblamed asks that each job of some batches succeeded at the first attempt of either side.
func (s *scene) wantUnblamed(batches ...Batch) {
	s.wantEach("succeeded", batches...)
	for _, b := range batches {
		for _, j := range b.Jobs {
			a := s.end(j.Marker).Attempts
			s.want(a.Prefill == 1 && a.Decode == 1, j.Marker, "want one attempt of each side, got %d of prefill and %d of decode", a.Prefill, a.Decode)
		}
	}
}

// role is that of an engine or a worker, by its name.
func role(name string) string {
	if strings.Contains(name, "decode") {
		return "decode"
	}
	return "prefill"
}

// engine is the first of a role.
func (s *scene) engine(of string) *machine {
	return s.machine[slices.IndexFunc(s.machine, func(m *machine) bool { return role(m.Name()) == of })]
}

// stopAll stops all workers of some roles, and returns what starts them again.
func (s *scene) stopAll(ctx context.Context, roles ...string) (start func(), err error) {
	var starts []func()
	for _, u := range s.workers {
		if slices.Contains(roles, role(u.name)) {
			one, err := u.stop(ctx)
			if err != nil {
				return nil, err
			}
			starts = append(starts, one)
		}
	}
	return func() {
		for _, one := range starts {
			one()
		}
	}, nil
}

// lost has a call never answered, until the worker gives up on it.
var lost = tap.Answer{Verdict: tap.Lose}
