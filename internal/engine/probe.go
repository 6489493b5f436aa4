package engine

import (
	"context"
	"time"

	"tandem/jobs"
)

const (
	mostFailures = 2                // jobs that fail in a row before an engine is probed
	probeLimit   = 30 * time.Second // for a small request
)

// Restarter is implemented by engines whose server may be ours.
type Restarter interface {
	// Restart ends the server, which is then started again. It reports whether it is ours.
	Restart() bool
}

// Succeeded notes a job that the engine has done.
func (m *Monitor) Succeeded() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed, m.last = 0, ""
}

// Failed notes a job that the engine has failed. After several in a row, of which one may be the cause by itself, it has the engine do a small request. If that
// fails, too, the engine fails everybody, though it says that it is well: it is started again if it is ours, is down until it has done a small request, and Failed
// returns why.
func (m *Monitor) Failed(ctx context.Context, job string, err error) (sick error) {
	defer m.Suspect()
	if jobs.CodeOf(err) != jobs.CodeEngineFailed {
		return nil
	}
	m.mu.Lock()
	if job != m.last {
		m.failed, m.last = m.failed+1, job
	}
	probe := m.failed >= mostFailures && m.sick == nil
	m.mu.Unlock()
	if probe {
		_ = m.probe(ctx)
	}
	return m.failsAll()
}

// failsAll is why the engine fails all requests; nil if it does not, as far as is known.
func (m *Monitor) failsAll() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sick
}

// probe has the engine do a small request, and returns why it cannot.
func (m *Monitor) probe(ctx context.Context) error {
	m.probing.Lock()
	defer m.probing.Unlock()
	limited, cancel := context.WithTimeoutCause(ctx, probeLimit, errSilent)
	defer cancel()
	one := 1
	var err error
	if e, can := m.engine.(Embedder); can && !m.Health().Description.Generates() {
		_, err = e.Embed(limited, Request{Embed: &jobs.Embed{Input: []string{"1, 1, 2, 3, 5, 8,"}}, Progress: func() {}})
	} else {
		_, err = m.engine.Generate(limited, Request{Prompt: "1, 1, 2, 3, 5, 8,", Options: jobs.Options{NumPredict: &one}, Progress: func() {}}, func(jobs.Chunk) error { return nil })
	}
	if err != nil && jobs.CodeOf(err) != jobs.CodeEngineFailed { // it is gone, or busy, which is seen otherwise
		return err
	}
	m.mu.Lock()
	before := m.sick
	m.sick = nil
	if err != nil {
		m.sick = jobs.Errorf(jobs.CodeEngineFailed, "the engine fails every request; restart it: %w", err)
	}
	after := m.sick
	m.mu.Unlock()
	if after != nil && before == nil {
		r, can := m.engine.(Restarter)
		m.log.Error("the engine fails every request", "error", err, "restarted", can && r.Restart())
	}
	return after
}
