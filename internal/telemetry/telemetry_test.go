package telemetry_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/internal/telemetry"
	"tandem/jobs"
)

func TestLogFormats(t *testing.T) {
	for format, isJSON := range map[string]bool{"json": true, "text": false, "auto": true} { // a buffer is no terminal
		var b bytes.Buffer
		log, err := telemetry.NewLogger(&b, format, slog.LevelInfo)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("hidden")
		log.Info("shown", "job", "x")
		if line := b.Bytes(); json.Valid(line) != isJSON || !bytes.Contains(line, []byte("shown")) || bytes.Contains(line, []byte("hidden")) || bytes.Contains(line, []byte{0x1b}) {
			t.Errorf("%s: %q", format, line)
		}
	}
	if _, err := telemetry.NewLogger(nil, "xml", slog.LevelInfo); err == nil || !strings.Contains(err.Error(), "auto, text or json") {
		t.Errorf("format xml: %v", err)
	}
}

func TestMetricsCountWhatHappened(t *testing.T) {
	m := telemetry.NewMetrics(protocol.RoleDecode, "m:latest", telemetry.Gauges{
		Slots: func() int { return 2 }, Busy: func() int { return 1 },
		States: func() (int, int64) { return 3, 4e9 }, StoppedPairs: func() int { return 1 },
	})
	job := &jobs.Job{ID: jobs.NewID(), Prompt: "a student's text"}
	slow := &protocol.Task{Stage: jobs.StageDecode, Job: job, Waited: time.Second}
	m.Task(slow, time.Second, protocol.Outcome{Result: &jobs.Result{
		Handover: &jobs.HandoverReport{Bytes: 7}, Timings: jobs.Timings{TransferSeconds: 2}, Status: jobs.Succeeded, Method: jobs.MethodDisaggregated, Usage: jobs.Usage{PrefillComputed: 99, DecodeCached: 3, DecodeComputed: 4, GeneratedTokens: 5},
	}}, nil)
	m.Task(&protocol.Task{Stage: jobs.StagePrefill, Job: job}, time.Second, protocol.Outcome{Next: &jobs.Handover{Prefill: &jobs.Prefill{CachedTokens: 10, ComputedTokens: 20}}}, nil)
	m.Task(&protocol.Task{Stage: jobs.StageFallback, Job: job}, time.Second, protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineFailed, "no"))
	for _, e := range []jobs.Event{
		{Type: jobs.EventSaved, Seconds: 0.027},
		{Type: jobs.EventFetched, Bytes: 2e9, MovedBytes: 1e9, Seconds: 0.8, Rebuilt: true},
		{Type: jobs.EventFetched, Bytes: 1e9, MovedBytes: 15e8, Seconds: 0.4, RebuildLost: true},
		{Type: jobs.EventRestored, Seconds: 0.012},
		{Type: jobs.EventHandoverFailed, Failure: jobs.FailDigest},
		{Type: jobs.EventHandoverFailed, Failure: jobs.FailFingerprint},
	} {
		m.Event(&e)
	}
	m.HTTP("/health", 200)
	m.EngineUp(true)

	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	const who = `model="m:latest",`
	for _, want := range []string{
		`tandem_tasks_total{` + who + `outcome="succeeded",role="decode",stage="decode"} 1`,
		`tandem_tasks_total{` + who + `outcome="hop",role="decode",stage="prefill"} 1`,
		`tandem_tasks_total{` + who + `outcome="engine_failed",role="decode",stage="fallback"} 1`,
		`tandem_prompt_tokens_total{` + who + `role="decode",source="cached"} 13`,
		`tandem_prompt_tokens_total{` + who + `role="decode",source="computed"} 24`,
		`tandem_generated_tokens_total{` + who + `role="decode"} 5`,
		`tandem_slow_transfers_total{` + who + `role="decode"} 1`,
		`tandem_http_requests_total{code="200",` + who + `path="/health",role="decode"} 1`,
		`tandem_handovers_total{` + who + `outcome="used",role="decode"} 1`,
		`tandem_handovers_total{` + who + `outcome="digest",role="decode"} 1`,
		`tandem_handovers_total{` + who + `outcome="fingerprint",role="decode"} 1`,
		`tandem_handover_bytes_total{` + who + `role="decode"} 2.5e+09`,
		`tandem_handover_state_bytes_total{` + who + `role="decode"} 3e+09`,
		`tandem_handover_rebuilt_total{` + who + `outcome="used",role="decode"} 1`,
		`tandem_handover_rebuilt_total{` + who + `outcome="failed",role="decode"} 1`,
		`tandem_handover_save_seconds_count{` + who + `role="decode"} 1`,
		`tandem_handover_transfer_seconds_count{` + who + `role="decode"} 2`,
		`tandem_handover_restore_seconds_count{` + who + `role="decode"} 1`,
		`tandem_states_held{` + who + `role="decode"} 3`,
		`tandem_states_held_bytes{` + who + `role="decode"} 4e+09`,
		`tandem_handover_pairs_stopped{` + who + `role="decode"} 1`,
		`tandem_engine_up{` + who + `role="decode"} 1`,
		`tandem_slots{` + who + `role="decode"} 2`,
		`tandem_slots_busy{` + who + `role="decode"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(text, "student") || strings.Contains(text, job.ID) {
		t.Error("metrics hold text or an id of a job")
	}
}
