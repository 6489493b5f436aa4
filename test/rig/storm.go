package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tandem/test/rig/check"
	"tandem/test/rig/history"
	"tandem/test/rig/host"
	"tandem/test/rig/tap"
)

const (
	armLimit   = 15 * time.Second // for a worker to come to a step; then it is struck wherever it is
	stallLimit = 2 * time.Minute  // without one job that ends, after which the callers give up: longer than a worker is patient with an engine that hangs
	stormLimit = 30 * time.Minute
)

// errStalled says that jobs do not end which should. The streams and the judge say why.
var errStalled = errors.New("no job ends any more")

// Storm submits the jobs of a plan while its faults strike, waits until every caller was told, looks into every stream, and has the judge speak.
func (s *System) Storm(p *Plan) (check.Verdict, error) {
	s.Log.Add(history.Event{Kind: history.Began, Note: fmt.Sprintf("seed %d, %+v", p.Seed, p.Shape)})
	ctx, cancel := context.WithTimeoutCause(s.ctx, stormLimit, errors.New("the storm does not end"))
	defer cancel()
	faults, stopFaults := context.WithCancel(ctx)
	var striking sync.WaitGroup
	striking.Go(func() { s.strike(faults, &striking, p.Actions) })

	err := s.callAll(ctx, p)
	stopFaults()
	striking.Wait()
	if err != nil && !errors.Is(err, errStalled) {
		return check.Verdict{}, err
	}
	if err := s.settle(ctx, p); err != nil {
		return check.Verdict{}, err
	}
	v := check.Check(s.Log.Events())
	if len(v.Violations) > 0 { // which also say why jobs did not end
		err = nil
	}
	return v, errors.Join(err, s.sound(), s.Log.Flush())
}

// callAll has so many callers at a time submit the batches.
func (s *System) callAll(ctx context.Context, p *Plan) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, told atomic.Int64
	var wg, watching sync.WaitGroup
	watching.Go(func() { s.watch(ctx, cancel) })
	defer watching.Wait()
	defer cancel(nil)
	for range p.Shape.Callers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(p.Batches) || ctx.Err() != nil {
					return
				}
				if err := s.call(ctx, p.Batches[i]); err != nil {
					cancel(err)
					return
				}
				ended, _ := s.r.now()
				s.Say("%d of %d batches told, %d jobs ended", told.Add(1), len(p.Batches), ended)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// watch gives up when no job has ended for too long.
func (s *System) watch(ctx context.Context, giveUp context.CancelCauseFunc) {
	stalled := time.NewTimer(stallLimit)
	defer stalled.Stop()
	for last := -1; ; {
		ended, change := s.r.now()
		if ended != last {
			last = ended
			stalled.Reset(stallLimit)
		}
		select {
		case <-change:
		case <-stalled.C:
			s.Say("%v; the callers give up", errStalled)
			giveUp(errStalled)
			return
		case <-ctx.Done():
			return
		}
	}
}

// strike does the actions, each when its number of jobs has ended, until ctx ends, which is when all have.
func (s *System) strike(ctx context.Context, wg *sync.WaitGroup, actions []Action) {
	for _, a := range actions {
		for {
			ended, change := s.r.now()
			if ended >= a.After {
				break
			}
			select {
			case <-change:
			case <-ctx.Done():
				return
			}
		}
		s.act(ctx, wg, a)
	}
}

// act does one action. What takes time ends by itself, and wg waits for it.
func (s *System) act(ctx context.Context, wg *sync.WaitGroup, a Action) {
	m := s.machineOf(a)
	u := m.worker
	switch a.What {
	case Kill:
		s.at(ctx, wg, u, a.Step, func(step Step) tap.Verdict { u.kill(step); return tap.Cut })
	case Freeze:
		s.at(ctx, wg, u, a.Step, func(step Step) tap.Verdict {
			thawed := u.freeze(ctx, wg, step, a.For)
			if step == BeforePublish || step == BeforeAck { // which leaves when the process goes on
				<-thawed
			}
			return tap.Pass
		})
	case Engine:
		s.at(ctx, wg, u, a.Step, func(step Step) tap.Verdict {
			wg.Go(func() { s.killEngine(ctx, m, step) })
			return tap.Pass
		})
	case Stun:
		s.stun(ctx, wg, a, m)
	case NATS, Stop, Quorum:
		if s.cluster == nil {
			s.loseNodes(ctx, a)
			break
		}
		wg.Go(func() { s.loseNodes(ctx, a) }) // the others are to go on meanwhile
	case Power:
		s.losePower(ctx)
	case Caller:
		s.killCaller(a.Target)
	case Wire:
		spoil := func(Step) tap.Verdict {
			if w, near := s.wireOf(a, m); w != nil {
				s.spoilWire(ctx, wg, a, w, near)
			}
			return tap.Pass
		}
		if a.Step != "" {
			u.arm(ctx, wg, a.Step, armLimit, spoil)
		} else {
			spoil(Anywhere)
		}
	case Answer:
		m.spoil(a.How)
	}
}

// machineOf is the one that an action is for: at a step of a KV state, one that gets to it.
func (s *System) machineOf(a Action) *machine {
	model, n := a.Target%len(s.Models), a.Target/len(s.Models)%s.Each
	switch a.Step {
	case InSave, InRestore: // a llama-server's: of the first model are Ollamas
		model = 1 + a.Target%(len(s.Models)-1)
	case InSend, InFetch:
	default:
		return s.machine[a.Target%len(s.machine)]
	}
	i := 2*s.Each*model + n
	if a.Step == InFetch || a.Step == InRestore {
		i += s.Each
	}
	return s.machine[i]
}

// at strikes a unit at a step.
func (s *System) at(ctx context.Context, wg *sync.WaitGroup, u *unit, step Step, do func(Step) tap.Verdict) {
	if step == Anywhere {
		if u.awaitRunning(ctx) {
			do(step)
		}
		return
	}
	seen := u
	if step == InFetch { // on the wire of the sender, the same of the model's prefill workers
		seen = s.workers[slices.Index(s.workers, u)-s.Each]
	}
	seen.arm(ctx, wg, step, armLimit, do)
}

// killEngine ends an engine with all its children, and starts it again.
func (s *System) killEngine(ctx context.Context, m *machine, step Step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return // all jobs have ended while it waited for its turn
	}
	s.Log.Add(history.Event{Kind: history.Fault, Process: m.Name(), Note: Engine + ": " + string(step)})
	m.Kill()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	if err := m.Restart(ctx); err != nil {
		s.Log.Add(history.Event{Kind: history.Healed, Process: m.Name(), Note: "does not start again: " + err.Error()})
		return
	}
	s.Log.Add(history.Event{Kind: history.Healed, Process: m.Name(), Note: "started again"})
}

// killCaller ends one of the submitters that run.
func (s *System) killCaller(target int) {
	if p := s.running(target); p != nil {
		s.Log.Add(history.Event{Kind: history.Fault, Process: p.Name(), Note: Caller + ": " + string(Anywhere)})
		p.Kill()
	}
}

// running is one of the submitters that run, nil if there is none.
func (s *System) running(target int) *host.Process {
	s.callersMu.Lock()
	defer s.callersMu.Unlock()
	names := sortedKeys(s.callers)
	if len(names) == 0 {
		return nil
	}
	return s.callers[names[target%len(names)]]
}

// stun freezes somebody who is no worker. An engine or a node is not killed or started meanwhile.
func (s *System) stun(ctx context.Context, wg *sync.WaitGroup, a Action, m *machine) {
	note := Stun + ": " + a.Where
	switch a.Where {
	case stunCaller:
		if p := s.running(a.Target); p != nil {
			freeze(ctx, wg, s.Log, p, p.Name(), note, a.For)
		}
	case stunEngine:
		wg.Go(func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			<-freeze(ctx, wg, s.Log, m, m.Name(), note, a.For)
		})
	case stunNATS:
		wg.Go(func() {
			s.natsMu.Lock()
			defer s.natsMu.Unlock()
			n := s.nodes[a.Target%len(s.nodes)]
			<-freeze(ctx, wg, s.Log, n.Process(), n.Name(), note, a.For)
		})
	}
}

// wireTap is the tap, or the taps, on a wire.
type wireTap interface {
	Set(tap.Conditions)
	Cut()
	Reset()
}

// wireOf is the wire that an action is for, and the name of who is at its near end; nil if nobody is there now.
func (s *System) wireOf(a Action, m *machine) (wireTap, string) {
	switch a.Where {
	case EngineWire:
		return m.tap, m.Name()
	case RouteWire:
		i := a.Target % len(s.nodes)
		return s.cluster.Route(i), s.nodes[i].Name()
	case StateWire:
		return m.states, m.worker.name
	case CallerWire:
		s.callersMu.Lock()
		defer s.callersMu.Unlock()
		names := sortedKeys(s.links)
		if len(names) == 0 {
			return nil, ""
		}
		name := names[a.Target%len(names)]
		return s.links[name], name
	}
	return m.worker.nats, m.worker.name
}

// spoilWire makes a wire bad for a time.
func (s *System) spoilWire(ctx context.Context, wg *sync.WaitGroup, a Action, w wireTap, near string) {
	note := Wire + ": " + a.Where + ": " + a.How
	s.Log.Add(history.Event{Kind: history.Fault, Process: near, Note: note + ", for " + a.For.String()})
	var c tap.Conditions
	switch a.How {
	case "cut":
		w.Cut()
		return
	case "reset":
		w.Reset()
		return
	case "delay":
		c.Delay = 100 * time.Millisecond
	case "narrow":
		c.BytesPerSecond = 20_000
	case "drop":
		c.Drop = true
	case "refuse":
		c.Refuse = true
	}
	w.Set(c)
	if c.Refuse {
		w.Reset() // after which nobody gets in again
	}
	wg.Go(func() {
		select {
		case <-time.After(a.For):
		case <-ctx.Done():
		}
		w.Set(tap.Conditions{})
		s.Log.Add(history.Event{Kind: history.Healed, Process: near, Note: note})
	})
}
