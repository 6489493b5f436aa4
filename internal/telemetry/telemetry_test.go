package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
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

func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	return w.Body.String()
}

func holds(t *testing.T, text string, series ...string) {
	t.Helper()
	for _, want := range series {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestWorkerCountsWhatHappened(t *testing.T) {
	w := telemetry.NewWorker(protocol.RoleDecode, "m:latest", "v1", telemetry.Gauges{
		Slots: func() int { return 2 }, Busy: func() int { return 1 }, BusySeconds: func() float64 { return 7.5 }, StoppedPairs: func() int { return 1 },
		EngineUp: func() bool { return true }, NATSUp: func() bool { return false },
		Queue: func(context.Context) ([]telemetry.Depth, error) {
			return []telemetry.Depth{{Stage: jobs.StagePrefill, Class: jobs.Batch, Waiting: 20, InFlight: 2}}, nil
		},
	})
	job := &jobs.Job{ID: jobs.NewID(), Prompt: "a student's text"}
	slow := &protocol.Task{Stage: jobs.StageDecode, Job: job, Waited: time.Second, Redelivered: true}
	accepted := time.Now()
	result := &jobs.Result{
		Handover: &jobs.HandoverReport{Bytes: 7}, Timings: jobs.Timings{TransferSeconds: 2, DecodeSeconds: 0.8, TotalSeconds: 5}, Status: jobs.Succeeded, Method: jobs.MethodDisaggregated,
		Usage:    jobs.Usage{PrefillComputed: 99, DecodeCached: 3, DecodeComputed: 4, GeneratedTokens: 5},
		Timeline: []jobs.Moment{{Type: jobs.EventAccepted, At: accepted}, {Type: jobs.EventFirstToken, At: accepted.Add(time.Second)}, {Type: jobs.EventFirstToken, At: accepted.Add(3 * time.Second)}},
	}
	w.Task(slow, time.Second, protocol.Outcome{Result: result}, nil)
	w.Ended(job, result)
	w.Ended(&jobs.Job{Messages: []jobs.Message{{}}}, &jobs.Result{Status: jobs.Failed, Error: &jobs.ErrorInfo{Code: "of another version"}, Timings: jobs.Timings{TotalSeconds: 2}})
	w.Task(&protocol.Task{Stage: jobs.StagePrefill, Job: job}, time.Second, protocol.Outcome{Next: &jobs.Handover{Prefill: &jobs.Prefill{CachedTokens: 10, ComputedTokens: 20}}}, nil)
	w.Task(&protocol.Task{Stage: jobs.StageFallback, Job: job}, time.Second, protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineFailed, "no"))
	for _, e := range []jobs.Event{
		{Type: jobs.EventSaved, Seconds: 0.027},
		{Type: jobs.EventFetched, Bytes: 2e9, MovedBytes: 1e9, Seconds: 0.8, Rebuilt: true},
		{Type: jobs.EventFetched, Bytes: 1e9, MovedBytes: 15e8, Seconds: 0.4, RebuildLost: true},
		{Type: jobs.EventRestored, Seconds: 0.012},
		{Type: jobs.EventHandoverFailed, Failure: jobs.FailDigest},
		{Type: jobs.EventHandoverFailed, Failure: "of another version"},
	} {
		w.Event(&e)
	}
	w.HTTP("/health", 200)

	text := scrape(t, w.Handler())
	const who, gen = `model="m:latest",`, `gen_ai_provider_name="tandem",gen_ai_request_model="m:latest"`
	holds(t, text,
		`tandem_jobs_total{method="disaggregated",`+who+`outcome="succeeded",role="decode"} 1`,
		`tandem_jobs_total{method="none",`+who+`outcome="failed",role="decode"} 1`,
		`tandem_jobs_total{method="none",`+who+`outcome="cancelled",role="decode"} 0`,
		`tandem_deliveries_total{delivery="redelivered",`+who+`outcome="succeeded",role="decode",stage="decode"} 1`,
		`tandem_deliveries_total{delivery="first",`+who+`outcome="hop",role="decode",stage="prefill"} 1`,
		`tandem_deliveries_total{delivery="first",`+who+`outcome="engine_failed",role="decode",stage="fallback"} 1`,
		`tandem_engine_errors_total{code="engine_failed",`+who+`role="decode"} 1`,
		`tandem_prompt_tokens_total{`+who+`role="decode",source="cached"} 13`,
		`tandem_prompt_tokens_total{`+who+`role="decode",source="computed"} 24`,
		`tandem_generated_tokens_total{`+who+`role="decode"} 5`,
		`tandem_slow_transfers_total{`+who+`role="decode"} 1`,
		`tandem_http_requests_total{code="200",`+who+`path="/health",role="decode"} 1`,
		`tandem_handovers_total{`+who+`outcome="used",role="decode"} 1`,
		`tandem_handovers_total{`+who+`outcome="digest",role="decode"} 1`,
		`tandem_handovers_total{`+who+`outcome="other",role="decode"} 1`,
		`tandem_handovers_total{`+who+`outcome="fingerprint",role="decode"} 0`,
		`tandem_handover_bytes_total{`+who+`role="decode"} 2.5e+09`,
		`tandem_handover_state_bytes_total{`+who+`role="decode"} 3e+09`,
		`tandem_handover_rebuilt_total{`+who+`outcome="used",role="decode"} 1`,
		`tandem_handover_rebuilt_total{`+who+`outcome="failed",role="decode"} 1`,
		`tandem_handover_save_seconds_count{`+who+`role="decode"} 1`,
		`tandem_handover_transfer_seconds_count{`+who+`role="decode"} 2`,
		`tandem_handover_restore_seconds_count{`+who+`role="decode"} 1`,
		`tandem_handover_pairs_stopped{`+who+`role="decode"} 1`,
		`tandem_engine_up{`+who+`role="decode"} 1`,
		`tandem_nats_up{`+who+`role="decode"} 0`,
		`tandem_slots{`+who+`role="decode"} 2`,
		`tandem_slots_busy{`+who+`role="decode"} 1`,
		`tandem_slots_busy_seconds_total{`+who+`role="decode"} 7.5`,
		`tandem_queue_waiting{class="batch",`+who+`role="decode",stage="prefill"} 20`,
		`tandem_queue_in_flight{class="batch",`+who+`role="decode",stage="prefill"} 2`,
		`tandem_job_seconds_sum{`+who+`role="decode"} 7`,
		`gen_ai_server_request_duration_seconds_sum{error_type="",gen_ai_operation_name="text_completion",`+gen+`} 5`,
		`gen_ai_server_request_duration_seconds_sum{error_type="other",gen_ai_operation_name="chat",`+gen+`} 2`,
		`gen_ai_server_time_to_first_token_seconds_sum{gen_ai_operation_name="text_completion",`+gen+`} 3`,
		`gen_ai_server_time_per_output_token_seconds_sum{gen_ai_operation_name="text_completion",`+gen+`} 0.2`,
	)
	if strings.Contains(text, "student") || strings.Contains(text, job.ID) {
		t.Error("metrics hold text or an id of a job")
	}
}

func TestGatewayCountsWhatHappened(t *testing.T) {
	g := telemetry.NewGateway("v1")
	job := &jobs.Job{Model: "m", Messages: []jobs.Message{{}}}
	g.Job(&jobs.Job{Model: "whatever is asked for"}, nil, "error", jobs.CodeNATS, time.Second, 0)
	g.Job(job, &jobs.Result{Model: "m:latest", Status: jobs.Succeeded, Usage: jobs.Usage{PromptTokens: 10, GeneratedTokens: 5}}, "", "", 2*time.Second, time.Second)
	g.Job(job, nil, "gone", jobs.CodeCancelled, time.Second, 0)
	g.Request()("POST /api/chat", 200, "")
	g.Request()("other", 429, "streams")
	g.Request()
	const chat = `gen_ai_operation_name="chat",gen_ai_provider_name="tandem",gen_ai_request_model="m:latest"`
	holds(t, scrape(t, g.Handler()),
		`tandem_gateway_jobs_total{model="other",outcome="error",role="gateway"} 1`,
		`tandem_gateway_jobs_total{model="m:latest",outcome="succeeded",role="gateway"} 1`,
		`tandem_gateway_jobs_total{model="m:latest",outcome="gone",role="gateway"} 1`,
		`tandem_gateway_refused_total{limit="streams",role="gateway"} 1`,
		`tandem_gateway_streams{role="gateway"} 1`,
		`tandem_http_requests_total{code="200",path="POST /api/chat",role="gateway"} 1`,
		`gen_ai_client_operation_duration_seconds_sum{error_type="",`+chat+`} 2`,
		`gen_ai_client_operation_duration_seconds_sum{error_type="cancelled",`+chat+`} 1`,
		`gen_ai_client_operation_time_to_first_chunk_seconds_sum{`+chat+`} 1`,
		`gen_ai_client_token_usage_sum{`+chat+`,gen_ai_token_type="input"} 10`,
		`gen_ai_client_token_usage_sum{`+chat+`,gen_ai_token_type="output"} 5`,
	)
}

// All codes and failures that there are have series of their own.
func TestClosedSetsAreWhole(t *testing.T) {
	for file, metric := range map[string]string{"errors.go Code": "tandem_deliveries_total", "state.go Failure": "tandem_handovers_total"} {
		name, kind, _ := strings.Cut(file, " ")
		source, err := os.ReadFile("../../jobs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(telemetry.Metrics(), func(m telemetry.Metric) bool { return m.Name == metric })
		labels := telemetry.Metrics()[i].Labels
		found := regexp.MustCompile(kind+` += "([a-z_]+)"`).FindAllSubmatch(source, -1)
		for _, f := range found {
			if !slices.Contains(labels[len(labels)-1].Values, string(f[1])) {
				t.Errorf("%s has no %s", metric, f[1])
			}
		}
		if len(found) < 10 {
			t.Errorf("jobs/%s has %d of type %s: is it read as it should be?", name, len(found), kind)
		}
	}
}
