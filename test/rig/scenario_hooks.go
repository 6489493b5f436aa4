package rig

import (
	"context"
	"fmt"

	"tandem/test/rig/history"
	"tandem/test/rig/host"
	"tandem/test/rig/tap"
)

// hooks are where a scenario takes a hand in what passes. A storm has none. They are called from several goroutines.
type hooks struct {
	programs func(process string) *host.Programs                                            // that a worker or a caller is started from; nil: those of the system
	nats     *host.Programs                                                                 // that the only server of NATS is started from; nil: those of the system
	call     func(s *System, m *machine, e *tap.Exchange, marker string) (tap.Answer, bool) // about each request to an engine, once it is recorded; marker is empty if it computes for no job
	wire     func(s *System, process string, op *tap.Op) tap.Verdict                        // about each operation with NATS, before it is recorded; what does not pass is not
}

func (s *System) programs(process string) *host.Programs {
	if s.hooks.programs != nil {
		if p := s.hooks.programs(process); p != nil {
			return p
		}
	}
	return s.Programs
}

// hookedCalls is machine.on after the scenario's own.
func (s *System) hookedCalls(m *machine) func(*tap.Exchange) tap.Answer {
	on := m.on(s.r)
	return func(e *tap.Exchange) tap.Answer {
		a := on(e)
		if s.hooks.call == nil {
			return a
		}
		marker := ""
		if callPaths[e.Request.URL.Path] {
			marker = markerOf(e.Body)
		}
		if own, wanted := s.hooks.call(s, m, e, marker); wanted {
			own.Answered = a.Answered
			return own
		}
		return a
	}
}

// hookedWire is on after the scenario's own.
func (s *System) hookedWire(process string, on func(*tap.Op, int) tap.Verdict) func(*tap.Op, int) tap.Verdict {
	if s.hooks.wire == nil {
		return on
	}
	return func(op *tap.Op, node int) tap.Verdict {
		if v := s.hooks.wire(s, process, op); v != tap.Pass {
			return v
		}
		return on(op, node)
	}
}

// mayStart waits until the process may be started, and reports false when ctx ends first.
func (u *unit) mayStart(ctx context.Context) bool {
	u.mu.Lock()
	held := u.held
	u.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// stop ends the process as an operator does, and it stays so until start is called.
func (u *unit) stop(ctx context.Context) (start func(), err error) {
	held := make(chan struct{})
	u.mu.Lock()
	u.held = held
	p := u.process
	u.mu.Unlock()
	u.log.Add(history.Event{Kind: history.Fault, Process: u.name, Note: "stop: by its operator"})
	if err := p.Terminate(); err != nil {
		return nil, err
	}
	select {
	case <-p.Exited():
	case <-ctx.Done():
		return nil, fmt.Errorf("stop %s: %w", u.name, context.Cause(ctx))
	}
	return func() {
		u.mu.Lock()
		u.held = nil
		u.mu.Unlock()
		close(held)
	}, nil
}
