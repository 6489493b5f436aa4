package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"tandem/jobs"
)

// State is whether an engine can work.
type State string

// The states of an engine.
const (
	Loading State = "loading" // it answers, but the model is not in memory yet
	Ready   State = "ready"
	Down    State = "down" // it does not answer, or cannot serve the model
)

const (
	describeLimit = 15 * time.Second // for an engine to say what it is
	loadLimit     = 15 * time.Minute // for a model to be in memory: a hundred gigabytes off a slow disk
)

var errNotLoaded = jobs.Errorf(jobs.CodeEngineUnreachable, "the engine did not load the model within %v; look at its log and restart it", loadLimit)

var errSilent = jobs.Errorf(jobs.CodeEngineUnreachable, "the engine did not answer within %v; look at its log and restart it", describeLimit)

// Health is what a [Monitor] knows of its engine.
type Health struct {
	State       State
	Description Description // the last one that the engine gave
	Problem     string      // why it is down, with the remedy
}

// Monitor watches one engine, loads the model when it is not in memory, and lets others wait until
// the engine can work.
type Monitor struct {
	engine  Engine
	every   time.Duration
	log     *slog.Logger
	suspect chan struct{}

	probing sync.Mutex // one at a time

	mu      sync.Mutex
	failed  int    // jobs in a row
	last    string // of these
	sick    error  // why the engine fails all requests; nil if it does not
	health  Health
	since   time.Time     // of its state
	changed chan struct{} // closed and replaced at each change of state
}

// NewMonitor returns a monitor that asks the engine every so often; it begins in state loading.
func NewMonitor(e Engine, every time.Duration, log *slog.Logger) *Monitor {
	return &Monitor{
		engine: e, every: every, log: log, suspect: make(chan struct{}, 1),
		health: Health{State: Loading}, since: time.Now(), changed: make(chan struct{}),
	}
}

// Run watches until the context ends.
func (m *Monitor) Run(ctx context.Context) {
	ticker := time.NewTicker(m.every)
	defer ticker.Stop()
	for {
		m.Check(ctx)
		select {
		case <-ticker.C:
		case <-m.suspect:
		case <-ctx.Done():
			return
		}
	}
}

// Check asks the engine now, loads the model if need be, and returns why it cannot work, if so.
func (m *Monitor) Check(ctx context.Context) error {
	d, err := m.describe(ctx)
	if err == nil && !d.Loaded {
		m.set(Health{State: Loading, Description: d})
		m.log.Info("loading model")
		start := time.Now()
		if err = m.load(ctx); err == nil {
			d, err = m.describe(ctx)
			m.log.Info("model loaded", "seconds", time.Since(start).Seconds())
		}
	}
	if err == nil && m.failsAll() != nil {
		err = m.probe(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		m.set(Health{State: Ready, Description: d})
	case jobs.CodeOf(err) == jobs.CodeEngineBusy && m.loadingFor() < loadLimit: // or so busy that it did not answer
		m.set(Health{State: Loading, Description: m.Health().Description, Problem: err.Error()})
	default:
		m.set(Health{State: Down, Description: m.Health().Description, Problem: err.Error()})
	}
	return err
}

// describe asks the engine, and does not wait for ever for one that hangs.
func (m *Monitor) describe(ctx context.Context) (Description, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, describeLimit, errSilent)
	defer cancel()
	return m.engine.Describe(ctx)
}

// load has the model loaded, and does not wait for ever either.
func (m *Monitor) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, loadLimit, errNotLoaded)
	defer cancel()
	return m.engine.Load(ctx)
}

// loadingFor is how long the engine has been loading.
func (m *Monitor) loadingFor() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.health.State != Loading {
		return 0
	}
	return time.Since(m.since)
}

// Suspect makes the monitor ask at once, for example because a request failed.
func (m *Monitor) Suspect() {
	select {
	case m.suspect <- struct{}{}:
	default:
	}
}

func (m *Monitor) set(h Health) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.health
	m.health = h
	if before.State == h.State {
		return
	}
	m.since = time.Now()
	if h.State == Down {
		m.log.Error("engine is down", "problem", h.Problem)
	} else {
		m.log.Info("engine is "+string(h.State), "engine", h.Description.Engine, "version", h.Description.Version)
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// Health is what is known now.
func (m *Monitor) Health() Health {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.health
}

// Changed returns a channel that is closed at the next change of state.
func (m *Monitor) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Ready waits until the engine can work.
func (m *Monitor) Ready(ctx context.Context) error {
	for {
		m.mu.Lock()
		state, changed := m.health.State, m.changed
		m.mu.Unlock()
		if state == Ready {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
