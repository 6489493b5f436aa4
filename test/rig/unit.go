package rig

import (
	"context"
	"slices"
	"sync"
	"time"

	"tandem/test/rig/history"
	"tandem/test/rig/host"
	"tandem/test/rig/tap"
)

// restartPause is how long a service manager waits before it starts a service again.
const restartPause = 200 * time.Millisecond

// unit is a worker as a service manager runs it: started again whenever it ends. Its connection to NATS goes over a tap, so that it can be struck at
// an exact step.
type unit struct {
	name   string
	log    *history.Log
	launch func() (*host.Process, error)
	wire   *wire
	nats   link

	mu      sync.Mutex
	process *host.Process
	armed   []*strike
	held    chan struct{} // not nil: it is closed when the process may be started again
	err     error         // that it could not be started
}

// strike is what happens to a unit when it reaches a step.
type strike struct {
	step Step
	do   func(Step) tap.Verdict // once, with where the unit is then; it may block
}

// keep starts the process, and again whenever it ends, until ctx ends; then it is killed.
func (u *unit) keep(ctx context.Context) {
	for u.mayStart(ctx) {
		p, err := u.launch()
		u.mu.Lock()
		u.process, u.err = p, err
		u.mu.Unlock()
		if err != nil {
			return
		}
		select {
		case <-p.Exited():
		case <-ctx.Done():
			p.Kill()
			return
		}
		select {
		case <-time.After(restartPause):
		case <-ctx.Done():
		}
		u.log.Add(history.Event{Kind: history.Healed, Process: u.name, Note: "started again"})
	}
}

// current is the process that runs now, or ran last; nil before the first.
func (u *unit) current() *host.Process {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.process
}

// running is the process if it runs, else nil.
func (u *unit) running() *host.Process {
	p := u.current()
	if p == nil {
		return nil
	}
	select {
	case <-p.Exited():
		return nil
	default:
		return p
	}
}

// awaitRunning waits until the process runs, since who strikes one that was struck a moment ago strikes nobody. It reports false if ctx ends first.
func (u *unit) awaitRunning(ctx context.Context) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for u.running() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// kill ends the process at once, if it runs.
func (u *unit) kill(step Step) {
	if p := u.running(); p != nil {
		u.log.Add(history.Event{Kind: history.Fault, Process: u.name, Note: Kill + ": " + string(step)})
		p.Kill()
	}
}

// freeze stops the process for a time, and returns at once, with what is closed when it goes on.
func (u *unit) freeze(ctx context.Context, wg *sync.WaitGroup, step Step, d time.Duration) <-chan struct{} {
	p := u.current()
	if p == nil {
		thawed := make(chan struct{})
		close(thawed)
		return thawed
	}
	return freeze(ctx, wg, u.log, p, u.name, Freeze+": "+string(step), d)
}

// freezer is what can be frozen.
type freezer interface {
	Freeze() error
	Thaw() error
}

// freeze stops it for a time, and returns at once, with what is closed when it goes on.
func freeze(ctx context.Context, wg *sync.WaitGroup, log *history.Log, p freezer, name, note string, d time.Duration) <-chan struct{} {
	thawed := make(chan struct{})
	if p.Freeze() != nil { // it has just ended
		close(thawed)
		return thawed
	}
	log.Add(history.Event{Kind: history.Fault, Process: name, Note: note + ", for " + d.String()})
	wg.Go(func() {
		defer close(thawed)
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		_ = p.Thaw() // it may have been killed meanwhile
		log.Add(history.Event{Kind: history.Healed, Process: name, Note: "thawed"})
	})
	return thawed
}

// arm has do happen when the unit reaches the step, or, as it may never get there, wherever it is when limit has passed.
func (u *unit) arm(ctx context.Context, wg *sync.WaitGroup, step Step, limit time.Duration, do func(Step) tap.Verdict) {
	done := make(chan struct{})
	s := &strike{step: step, do: func(at Step) tap.Verdict { defer close(done); return do(at) }}
	u.mu.Lock()
	u.armed = append(u.armed, s)
	u.mu.Unlock()
	wg.Go(func() {
		select {
		case <-done:
		case <-time.After(limit):
			if u.awaitRunning(ctx) && u.disarm(s) {
				s.do(Anywhere)
			}
		case <-ctx.Done():
		}
		if !u.disarm(s) {
			<-done // it has happened, or does so just now
		}
	})
}

// disarm reports whether the strike had not happened yet.
func (u *unit) disarm(s *strike) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := slices.Index(u.armed, s)
	if i >= 0 {
		u.armed = slices.Delete(u.armed, i, i+1)
	}
	return i >= 0
}

// reached strikes if the unit is armed for the step, and returns what becomes of the operation by which it was reached.
func (u *unit) reached(step Step) tap.Verdict {
	if step == "" {
		return tap.Pass
	}
	u.mu.Lock()
	i := slices.IndexFunc(u.armed, func(s *strike) bool { return s.step == step })
	var hit *strike
	if i >= 0 {
		hit = u.armed[i]
		u.armed = slices.Delete(u.armed, i, i+1)
	}
	u.mu.Unlock()
	if hit == nil {
		return tap.Pass
	}
	return hit.do(step)
}

// on reads an operation of the unit's connection, and strikes at its step. What a kill interrupts is not passed on: the process neither sends nor
// receives it.
func (u *unit) on(op *tap.Op, node int) tap.Verdict { return u.reached(u.wire.read(op, node).step) }
