package engine_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/engine"
	"tandem/jobs"
)

// patient is an engine that can be told how it is.
type patient struct {
	engine.Engine
	mu     sync.Mutex
	err    error
	loaded bool
	loads  int
	hangs  atomic.Bool
}

func (p *patient) be(err error, loaded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.loaded = err, loaded
}

func (p *patient) Describe(ctx context.Context) (engine.Description, error) {
	if p.hangs.Load() {
		<-ctx.Done()
		return engine.Description{}, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return engine.Description{Model: "m", Loaded: p.loaded}, p.err
}

func (p *patient) Load(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loads++
	p.loaded = true
	return nil
}

func TestMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &patient{}
		m := engine.NewMonitor(p, 5*time.Second, slog.New(slog.DiscardHandler))
		if got := m.Health().State; got != engine.Loading {
			t.Errorf("state %s before the first check, want loading", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go m.Run(ctx)
		if err := m.Ready(ctx); err != nil || p.loads != 1 {
			t.Fatalf("ready: %v after %d loads; want nil after one", err, p.loads)
		}

		p.be(jobs.Errorf(jobs.CodeEngineUnreachable, "gone; start it"), false)
		m.Suspect()
		synctest.Wait()
		if h := m.Health(); h.State != engine.Down || h.Problem != "gone; start it" || h.Description.Model != "m" {
			t.Errorf("a suspected engine that is gone: %+v", h)
		}

		p.be(nil, false)
		start := time.Now()
		if err := m.Ready(ctx); err != nil || p.loads != 2 {
			t.Errorf("ready again: %v after %d loads; want the model loaded again", err, p.loads)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("noticed after %v that it is back, want 5 s at most", d)
		}

		p.hangs.Store(true)
		m.Suspect()
		for m.Health().State != engine.Down {
			<-m.Changed()
		}
		if h := m.Health(); !strings.Contains(h.Problem, "did not answer") {
			t.Errorf("an engine that hangs is down because %q", h.Problem)
		}
		p.hangs.Store(false)

		p.be(jobs.Errorf(jobs.CodeEngineBusy, "loading"), true)
		m.Suspect()
		for m.Health().State == engine.Down {
			<-m.Changed()
		}
		if got := m.Health().State; got != engine.Loading {
			t.Errorf("a busy engine is %s, want loading", got)
		}
		start = time.Now()
		for m.Health().State == engine.Loading {
			<-m.Changed()
		}
		if d := time.Since(start); d < 14*time.Minute || d > 16*time.Minute {
			t.Errorf("an engine that loads for ever is down after %v, want a quarter of an hour", d)
		}
	})
}
