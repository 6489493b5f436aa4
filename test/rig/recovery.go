package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"tandem/test/rig/check"
	"tandem/test/rig/history"
	"tandem/test/rig/host"
)

// Recovery is how long something takes that follows a fault.
type Recovery struct {
	What string
	Goal time.Duration // that it is not to take longer; 0: there is none
	Took []time.Duration
}

// Median is the middle of the times, the longer one of two.
func (r Recovery) Median() time.Duration {
	if len(r.Took) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(r.Took))[len(r.Took)/2]
}

// Max is the longest of the times.
func (r Recovery) Max() (longest time.Duration) {
	for _, d := range r.Took {
		longest = max(longest, d)
	}
	return longest
}

// Missed reports whether the longest time is beyond the goal.
func (r Recovery) Missed() bool { return r.Goal > 0 && r.Max() > r.Goal }

// WriteRecoveries writes a table, a line for each.
func WriteRecoveries(w io.Writer, list []Recovery) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tgoal\tmedian\tmax\trounds\t")
	for _, r := range list {
		goal, missed := "–", ""
		if r.Goal > 0 {
			goal = seconds(r.Goal)
		}
		if r.Missed() {
			missed = "goal missed"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\n", r.What, goal, seconds(r.Median()), seconds(r.Max()), len(r.Took), missed)
	}
	return t.Flush()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// The goals.
const (
	goalElsewhere = 13 * time.Second // AckWait, and a second
	goalTakenOver = 12 * time.Second
	goalAccepted  = 10 * time.Second
)

// Measure is a kind of fault, struck several times in a system of its own.
type Measure struct {
	Name  string
	rows  []Recovery // without times: what each round takes
	nodes int
	round round
	paced bool // one worker of each role, with paced engines whose states can be handed over; else two, with no-op engines
}

// Measures are all of them.
func Measures() []Measure {
	row := func(what string, goal time.Duration) Recovery { return Recovery{What: what, Goal: goal} }
	return []Measure{
		{"kill-decode", []Recovery{row("decode worker killed in a call, until the call begins at another", goalElsewhere)}, 1, struckIn("decode", killed), false},
		{"kill-prefill", []Recovery{row("prefill worker killed in a call, until the call begins at another", goalElsewhere)}, 1, struckIn("prefill", killed), false},
		{"freeze", []Recovery{row("decode worker frozen in a call, until the call begins at another", goalElsewhere)}, 1, struckIn("decode", frozen), false},
		{"prefill-killed", []Recovery{row("all prefill workers killed, until decode begins a job of the intake", goalTakenOver)}, 1, prefillGone(killed), false},
		{"prefill-stopped", []Recovery{row("all prefill workers stopped, until decode begins a job of the intake", goalTakenOver)}, 1, prefillGone(stopped), false},
		{"leader", []Recovery{row("leader of the intake killed, until a submit is accepted", goalAccepted)}, 3, leaderLost, false},
		{"nats", []Recovery{row("the only NATS server killed and started, until a job is done", 0)}, 1, natsLost, false},
		{"class-prefill", classRows("prefill"), 1, classStruck("prefill"), true},
		{"class-decode", classRows("decode"), 1, classStruck("decode"), true},
		{"drain", []Recovery{
			row("busy decode worker told to end, until its call ends", 0),
			row("  and then until it has ended, status 0", 0),
		}, 1, drained, false},
		{"abort", []Recovery{
			row("busy decode worker told to end twice, until it has ended, status 0", 0),
			row("  and until the call begins at another, uncounted", 0),
		}, 1, aborted, false},
	}
}

// Run strikes so many rounds and returns what they took, and what the judge says of the whole. Everything of it goes to dir.
func (m Measure) Run(ctx context.Context, dir string, p *host.Programs, rounds int, say func(format string, args ...any)) (rows []Recovery, v check.Verdict, err error) {
	o := Options{
		Dir: dir, Programs: p, Models: NoopStorm(0).Models[:1], Each: 2, Nodes: m.nodes, Slots: 1, NumCtx: 4096, PerToken: 25 * time.Millisecond, Say: say,
	}
	if m.paced {
		o.Each = 1
		if o.Fleet, err = writeFleet(dir, o.Models[0]); err != nil {
			return nil, v, err
		}
	}
	system, err := Start(ctx, o)
	if err != nil {
		return nil, v, err
	}
	defer func() { err = errors.Join(err, system.Stop()) }()
	s := &site{System: system, plan: &Plan{}}
	s.ctx, s.giveUp = context.WithCancelCause(system.ctx)
	defer s.helpers.Wait()
	defer s.callers.Wait()
	defer s.giveUp(nil)

	rows = slices.Clone(m.rows)
	for i := range rounds {
		took, err := m.round(s.ctx, s)
		if err == nil {
			err = s.rest()
		}
		if err != nil {
			return nil, v, errors.Join(fmt.Errorf("%s, round %d: %w", m.Name, i+1, err), system.Log.Flush())
		}
		for j, d := range took {
			rows[j].Took = append(rows[j].Took, d)
		}
		system.Say("%s, round %d: %v", m.Name, i+1, took)
	}
	if err := system.settle(s.ctx, s.plan); err != nil {
		return nil, v, err
	}
	return rows, check.Check(system.Log.Events()), errors.Join(system.sound(), system.Log.Flush())
}

// site is a system in which rounds are struck.
type site struct {
	*System
	ctx     context.Context // of the callers
	giveUp  context.CancelCauseFunc
	plan    *Plan // what was submitted so far
	jobs    int
	callers sync.WaitGroup
	helpers sync.WaitGroup // what else ends with ctx
}

const (
	recoveryLimit = time.Minute // for what a round waits for
	wordsOfCall   = 40          // of a prompt: its engine call takes more than a second
)

// submit has a caller submit so many jobs, and wait for their end.
func (s *site) submit(n int) {
	b := Batch{Name: fmt.Sprintf("recovery-%d", s.jobs), Single: n == 1}
	for range n {
		// Not greedy: how fast things go on is measured here, not whether engines say the right thing.
		j := Job{Marker: fmt.Sprintf("rig-0-%d", s.jobs), Model: s.Models[0], Tokens: 8, Temperature: 0.7, Seed: int64(s.jobs)}
		j.Prompt = prompt(rand.New(rand.NewPCG(uint64(s.jobs), 3)), j.Marker, wordsOfCall)
		b.Jobs = append(b.Jobs, j)
		s.jobs++
	}
	s.begin(b)
}

// begin has a caller submit a batch, and wait for its end.
func (s *site) begin(b Batch) {
	s.plan.Batches = append(s.plan.Batches, b)
	s.callers.Go(func() {
		if err := s.call(s.ctx, b); err != nil {
			s.giveUp(err)
		}
	})
}

// await waits until the history tells what is asked for.
func (s *site) await(what string, told func(story) (bool, error)) error {
	return s.until(recoveryLimit, what, func(context.Context) (bool, error) {
		if s.ctx.Err() != nil {
			return false, context.Cause(s.ctx)
		}
		return told(s.Log.Events())
	})
}

// event waits for the first event that is so from a position on.
func (s *site) event(what string, from int, is func(history.Event) bool) (e history.Event, err error) {
	err = s.await(what, func(all story) (bool, error) {
		at, found := all.next(from-1, is)
		if found {
			e = all[at]
		}
		return found, nil
	})
	return e, err
}

// fault notes a fault and returns its position.
func (s *site) fault(process, note string) int {
	s.Log.Add(history.Event{Kind: history.Fault, Process: process, Note: note})
	all := s.Log.Events()
	for i := len(all) - 1; ; i-- {
		if e := all[i]; e.Kind == history.Fault && e.Process == process && e.Note == note {
			return i
		}
	}
}

// rest waits until all is as it was before the round: every caller was told, every worker is there and idle.
func (s *site) rest() error {
	since := time.Now()
	for _, u := range s.workers {
		u.release()
	}
	s.callers.Wait()
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return s.idle(since)
}

// idle waits until every worker has said since a time that it is ready and does nothing.
func (s *site) idle(since time.Time) error {
	return s.until(startLimit, "every worker to be idle", func(ctx context.Context) (bool, error) {
		list, err := s.presences(ctx)
		idle := map[string]bool{}
		for _, p := range list {
			if p.said.After(since) && p.State == "ready" && p.Busy == 0 {
				idle[p.Machine] = true
			}
		}
		return len(idle) == len(s.workers), err
	})
}

// hold has the unit stay down once it has ended, until release is called.
func (u *unit) hold() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.held == nil {
		u.held = make(chan struct{})
	}
}

// release ends hold.
func (u *unit) release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.held != nil {
		close(u.held)
		u.held = nil
	}
}
