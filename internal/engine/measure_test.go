package engine_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// timed is an engine that takes as long as it is told: prompts have a token for four bytes, and while several requests generate, each is slower by as
// many times as slower says. It remembers what it was asked.
type timed struct {
	engine.Engine
	prefill, decode float64          // tokens per second
	slower          map[int]float64  // by requests at once
	dir             string           // of KV states
	fail            map[string]error // by call

	mu       sync.Mutex
	running  int
	requests []engine.Request
	calls    []string
}

func (e *timed) begin(call string, req engine.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests, e.calls = append(e.requests, req), append(e.calls, call)
	return e.fail[call]
}

// pass takes time, in a bubble's clock.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func perSecond(n int, rate float64) time.Duration {
	return time.Duration(float64(n) / rate * float64(time.Second))
}

func (e *timed) generate(ctx context.Context, req engine.Request, computed int) (c engine.Completion, err error) {
	c.PromptTokens, c.ComputedTokens = len(req.Prompt)/4, computed
	c.PrefillDuration = perSecond(computed, e.prefill)
	if err := pass(ctx, c.PrefillDuration); err != nil {
		return c, err
	}
	e.mu.Lock()
	e.running++
	e.mu.Unlock()
	if err := pass(ctx, time.Microsecond); err != nil { // in which others whose prompts are as long begin
		return c, err
	}
	e.mu.Lock()
	factor := max(1, e.slower[e.running])
	e.mu.Unlock()
	c.GeneratedTokens = *req.Options.NumPredict
	c.DecodeDuration = perSecond(c.GeneratedTokens-1, e.decode/factor) // the first token is the prompt's
	err = pass(ctx, c.DecodeDuration)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running--
	return c, err
}

func (e *timed) Generate(ctx context.Context, req engine.Request, _ engine.Emit) (engine.Completion, error) {
	if err := e.begin("generate", req); err != nil {
		return engine.Completion{}, err
	}
	return e.generate(ctx, req, len(req.Prompt)/4)
}

// stateRate is in bytes per second; a token has 1,000 bytes.
const stateRate = 1e9

func (e *timed) Prefill(ctx context.Context, req engine.Request) (engine.Prefilled, error) {
	if err := e.begin("prefill", req); err != nil {
		return engine.Prefilled{}, err
	}
	n := len(req.Prompt) / 4
	p := engine.Prefilled{PromptTokens: n, ComputedTokens: n, Duration: perSecond(n, e.prefill)}
	p.State = &engine.StateFile{Path: filepath.Join(e.dir, "state"), Bytes: int64(n) * 1000, Tokens: n, Saved: perSecond(n*1000, stateRate)}
	return p, errors.Join(os.WriteFile(p.State.Path, []byte("state"), 0o600), pass(ctx, p.Duration+p.State.Saved))
}

func (e *timed) Decode(ctx context.Context, req engine.Request, from engine.Prefilled, _ engine.Emit) (engine.Completion, error) {
	if err := e.begin("decode", req); err != nil {
		return engine.Completion{}, err
	}
	c, err := e.generate(ctx, req, 1)
	c.Imported = &engine.Imported{Tokens: from.State.Tokens, Restored: perSecond(int(from.State.Bytes), stateRate/2), Checked: 20 * time.Millisecond}
	return c, err
}

func about(e *timed) engine.Description {
	return engine.Description{ContextTokens: 8192, KVTransfer: &engine.KVTransfer{Dir: e.dir}}
}

// near reports whether a figure is within a hundredth of what it should be.
func near(got, want float64) bool { return math.Abs(got-want) <= want/100 }

func TestMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &timed{prefill: 2000, decode: 50, slower: map[int]float64{4: 2.5}, dir: t.TempDir()}
		var r engine.Rates
		if r.Known(1) {
			t.Error("nothing was measured, and all is known")
		}
		start := time.Now()
		if err := r.Measure(t.Context(), e, about(e), 4); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 8*time.Second {
			t.Errorf("it took %v", took)
		}
		s := engine.SpeedsOf("m", protocol.RolePrefill, r.Snapshot())
		for name, c := range map[string]struct {
			got  engine.Speed
			want float64
		}{
			"a short prompt": {s.Prefill(362, 0), 2000}, "a long prompt": {s.Prefill(1448, 0), 2000}, "alone": {s.Decode(362), 50}, "after a long prompt": {s.Decode(1448), 50},
			"with three others": {s.DecodeBusy(362, 4), 20}, "save": {s.Save(), stateRate}, "restore": {s.Restore(), stateRate / 2}, "check": {s.Check(100), 0.02},
			"state": {s.StateBytes(2000, ""), 2e6},
		} {
			if !c.got.Measured || !near(c.got.Value, c.want) {
				t.Errorf("%s: %+v, want %v", name, c.got, c.want)
			}
		}
		now := r.Snapshot()
		if now.GeneratedTokens != 0 || now.JobSeconds != 0 || now.PromptBytesPerToken != 0 {
			t.Errorf("requests of its own were taken for jobs: %+v", now)
		}
		if !r.Known(4) || engine.SpeedsOf("m", protocol.RolePrefill, now).Generated("", -1).Measured {
			t.Error("not all is known that was measured")
		}
		if left, _ := os.ReadDir(e.dir); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		if got := strings.Join(e.calls, " "); got != "generate generate generate generate generate generate prefill decode" {
			t.Errorf("asked for %s", got)
		}
		seen := map[string]bool{}
		for _, req := range e.requests {
			if head := req.Prompt[:10]; seen[head] && req.Prompt != e.requests[len(e.requests)-2].Prompt {
				t.Errorf("two prompts begin with %q, so that the second is cached in part", head)
			} else {
				seen[head] = true
			}
			if n := len(req.Prompt) / 4; n > 2100 || *req.Options.NumPredict > 32 {
				t.Errorf("a prompt of %d tokens, answer of %d", n, *req.Options.NumPredict)
			}
		}
	})
}

// The slower an engine is, the less of it is measured, and never for longer than is allowed.
func TestMeasureSlowEngines(t *testing.T) {
	for name, c := range map[string]struct {
		prefill, decode float64
		context, slots  int
		calls           string
		within          time.Duration
	}{
		"fast":                {50_000, 500, 8192, 1, "generate generate prefill decode", time.Second},
		"small context":       {50_000, 500, 550, 1, "generate prefill decode", 150 * time.Millisecond},
		"slow":                {80, 10, 8192, 1, "generate prefill decode", 8 * time.Second},
		"no state of a short": {200, 20, 8192, 1, "generate prefill decode", 6 * time.Second},
		"a processor":         {30, 3, 8192, 2, "generate generate generate", 12 * time.Second},
		"hardly running":      {1, 1, 8192, 1, "generate", 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &timed{prefill: c.prefill, decode: c.decode, dir: t.TempDir()}
				d := about(e)
				d.ContextTokens = c.context
				var r engine.Rates
				start := time.Now()
				err := r.Measure(t.Context(), e, d, c.slots)
				if took := time.Since(start); took > c.within {
					t.Errorf("it took %v, want at most %v", took, c.within)
				}
				if got := strings.Join(e.calls, " "); got != c.calls {
					t.Errorf("asked for %s, want %s", got, c.calls)
				}
				known := r.Known(c.slots)
				if c.prefill > 1 && (err != nil || !known) || c.prefill == 1 && (jobs.CodeOf(err) != jobs.CodeTimeout || known) {
					t.Errorf("known %t, error %v", known, err)
				}
				s := engine.SpeedsOf("m", protocol.RolePrefill, r.Snapshot())
				if p, d := s.Prefill(362, 0), s.Decode(362); known && (!near(p.Value, c.prefill) || !near(d.Value, c.decode)) {
					t.Errorf("measured %+v and %+v", p, d)
				}
			})
		})
	}
}

// What fails ends the measurement, with what there is by then.
func TestMeasureThatFails(t *testing.T) {
	bad := errors.New("out of memory")
	for call, want := range map[string]bool{"generate": false, "prefill": true, "decode": true} {
		synctest.Test(t, func(t *testing.T) {
			e := &timed{prefill: 5000, decode: 50, dir: t.TempDir(), fail: map[string]error{call: bad}}
			var r engine.Rates
			if err := r.Measure(t.Context(), e, about(e), 2); !errors.Is(err, bad) || r.Known(2) != want {
				t.Errorf("%s: error %v, known %t", call, err, r.Known(2))
			}
			if left, _ := os.ReadDir(e.dir); len(left) > 0 {
				t.Errorf("%s: left behind: %v", call, left)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("the worker is being stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stop) })
		e, start := &timed{prefill: 30, decode: 3, dir: t.TempDir()}, time.Now()
		var r engine.Rates
		if err := r.Measure(ctx, e, about(e), 1); !errors.Is(err, stop) || time.Since(start) != time.Second {
			t.Errorf("stopped after a second: %v after %v", err, time.Since(start))
		}
	})
}
