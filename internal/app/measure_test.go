package app_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"tandem/internal/app"
	"tandem/internal/ollama/ollamatest"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

// measuring has a worker measure its engine, and keep in a folder what it measures.
func measuring(slots int, dir string) func(*app.WorkerFlags) {
	return func(f *app.WorkerFlags) { f.Measure, f.Slots, f.StateDir = "auto", slots, dir }
}

// measured waits until a worker has told others of its engine's speed, and gives its slots back.
func (s *system) measured(w *running) (rates protocol.Rates) {
	s.t.Helper()
	s.waitForWorkers(func(list []queue.Presence) bool {
		for _, p := range list {
			if rates = p.Rates; p.Worker == w.ID() && rates.DecodeTokensPerSecond > 0 && p.Busy == 0 {
				return true
			}
		}
		return false
	})
	return rates
}

func TestEngineIsMeasuredOnce(t *testing.T) {
	s, dir := newSystem(t), t.TempDir()
	d := ollamatest.Start(t, ollamatest.Options{Model: model, Slots: 4, PerToken: 100 * time.Microsecond})
	w := s.worker(protocol.RoleDecode, d.URL(), measuring(4, dir))
	rates, calls := s.measured(w), d.Calls()
	if len(rates.PrefillByLength) != 2 || len(rates.DecodeByLength) != 2 || rates.DecodeByBusy["4"] <= 0 || rates.GeneratedTokens != 0 {
		t.Errorf("measured %+v", rates)
	}
	if calls != 7 || d.Peak() != 4 {
		t.Errorf("the engine was asked %d times, by %d at once; want 7 and 4", calls, d.Peak())
	}
	w.stop()

	w = s.worker(protocol.RoleDecode, d.URL(), measuring(4, dir))
	if again := s.measured(w); again.DecodeByBusy["4"] != rates.DecodeByBusy["4"] {
		t.Errorf("the next run knows %+v, want %+v", again, rates)
	}
	w.stop()
	s.worker(protocol.RoleDecode, d.URL(), measuring(1, t.TempDir()), func(f *app.WorkerFlags) { f.Measure = "never" }).stop()
	if got := d.Calls(); got != calls {
		t.Errorf("the engine was asked %d times more by a worker that knows it, or is not to measure", got-calls)
	}
}

// What comes meanwhile waits, and a worker that is stopped stops measuring.
func TestJobsWaitForTheMeasurement(t *testing.T) {
	s, dir := newSystem(t), t.TempDir()
	d := ollamatest.Start(t, ollamatest.Options{Model: model, Slots: 2})
	d.Fail(ollamatest.HangMid, 1)
	p := s.worker(protocol.RolePrefill, fake(t).URL())
	decode := s.worker(protocol.RoleDecode, d.URL(), measuring(2, dir))
	if err := d.WaitRunning(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	j := s.submit(s.job("waits"))
	if _, err := post(t.Context(), "http://"+p.Addr()+"/prefill", `{"prompt": "x <- 1"}`); err != nil {
		t.Errorf("a worker that does not measure: %v", err)
	}
	brief, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := post(brief, "http://"+decode.Addr()+"/generate", `{"prompt": "x <- 1"}`); err == nil {
		t.Error("a call over HTTP was served by an engine that is being measured")
	}
	if d.Calls() != 1 {
		t.Errorf("the engine was asked %d times, want once", d.Calls())
	}
	start := time.Now()
	decode.stop()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("a worker that measures took %v to stop", took)
	}
	s.measured(s.worker(protocol.RoleDecode, d.URL(), measuring(2, dir)))
	if r := s.await(j); r.Status != jobs.Succeeded || r.Attempts.Decode != 1 {
		t.Errorf("%s after %d attempts", r.Status, r.Attempts.Decode)
	}
}

// An engine that fails to be measured is used all the same.
func TestEngineThatCannotBeMeasured(t *testing.T) {
	s, d := newSystem(t), fake(t)
	d.Fail(ollamatest.OutOfMemory, 1)
	s.worker(protocol.RolePrefill, fake(t).URL())
	s.worker(protocol.RoleDecode, d.URL(), measuring(1, t.TempDir()))
	if r := s.await(s.submit(s.job("done all the same"))); r.Status != jobs.Succeeded || r.Attempts.Decode != 1 {
		t.Errorf("%s after %d attempts", r.Status, r.Attempts.Decode)
	}
}

// Real engines that move KV states write and read one, so that plan auto rests on what was measured but for the link.
func TestRealEnginesAreMeasured(t *testing.T) {
	m := newMachines(t)
	prefill := m.worker(protocol.RolePrefill, "", on(m.prefill), measuring(1, t.TempDir()))
	decode := m.worker(protocol.RoleDecode, "", on(m.decode), measuring(1, t.TempDir()))
	here, there := m.measured(prefill), m.measured(decode)
	if here.SaveBytesPerSecond <= 0 || here.StateBytesPerToken <= 0 || there.RestoreBytesPerSecond <= 0 || there.CheckSeconds <= 0 {
		t.Errorf("measured %+v and %+v", here, there)
	}
	if a, b := states(t, m.prefill), states(t, m.decode); len(a)+len(b) > 0 {
		t.Errorf("left behind: %v, %v", a, b)
	}
	j := m.job(long("a"))
	j.Plan = jobs.PlanAuto
	r := m.await(m.submit(j))
	if r.Status != jobs.Succeeded || strings.Contains(r.Decision, "not measured yet: prefill") || strings.Contains(r.Decision, "not measured yet: decode") {
		t.Errorf("%s, decision %s", r.Status, r.Decision)
	}
}
