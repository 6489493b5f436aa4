package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"tandem/jobs"
)

const (
	parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	secret = "what a student wrote"
)

var job = &jobs.Job{ID: "j1", Model: "m:latest", User: "kwyjibo", Prompt: secret}

// record has spans recorded until the test ends.
func record(t *testing.T) *tracetest.InMemoryExporter {
	t.Helper()
	to := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(to)))
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	return to
}

// shown are the spans as they ended: the name, the code of a failed one, how long it took if that is more than 100 ms, and its events.
func shown(to *tracetest.InMemoryExporter) (list []string) {
	for _, s := range to.GetSpans() {
		var line strings.Builder
		line.WriteString(s.Name)
		if s.Status.Code == codes.Error {
			line.WriteString(" failed: " + s.Status.Description)
		}
		if took := s.EndTime.Sub(s.StartTime); took > 100*time.Millisecond {
			line.WriteString(" " + took.Round(100*time.Millisecond).String())
		}
		for _, e := range s.Events {
			line.WriteString(" [" + e.Name + "]")
		}
		list = append(list, line.String())
	}
	return list
}

func TestDelivery(t *testing.T) {
	ended := &jobs.Result{Method: jobs.MethodDisaggregated, FinishReason: "stop"}
	tests := []struct {
		name string
		do   func(d *Delivery)
		want []string
	}{
		{"prefill", func(d *Delivery) {
			d.Runs()
			d.Event(&jobs.Event{Type: jobs.EventPrefillBegun})
			d.Event(&jobs.Event{Type: jobs.EventPrefillDone})
			d.Event(&jobs.Event{Type: jobs.EventSaved})
			d.Ran(nil, nil)
		}, []string{"prefill", "save", "process INTAKE 1s"}},
		{"prefill without a state", func(d *Delivery) {
			d.Event(&jobs.Event{Type: jobs.EventPrefillBegun})
			d.Event(&jobs.Event{Type: jobs.EventPrefillDone})
			d.Event(&jobs.Event{Type: jobs.EventHandoverFailed, Failure: jobs.FailBudget, Why: secret})
			d.Ran(nil, nil)
		}, []string{"prefill", "process INTAKE 1s [handover_failed]"}},
		{"prefill fails", func(d *Delivery) {
			d.Event(&jobs.Event{Type: jobs.EventPrefillBegun})
			err := jobs.Errorf(jobs.CodeEngineUnreachable, secret)
			d.Ran(nil, err)
			d.Fail(err)
			d.Event(&jobs.Event{Type: jobs.EventRetried, Why: secret})
		}, []string{"prefill failed: engine_unreachable", "process INTAKE failed: engine_unreachable 1s [retried]"}},
		{"decode of a state that was fetched ahead", func(d *Delivery) {
			d.Prepared()
			d.Runs()
			d.Event(&jobs.Event{Type: jobs.EventFetched, Seconds: 0.5})
			d.Event(&jobs.Event{Type: jobs.EventRestored})
			d.Event(&jobs.Event{Type: jobs.EventDecodeBegun})
			d.Event(&jobs.Event{Type: jobs.EventFirstToken})
			d.Ran(ended, nil)
		}, []string{"fetch 500ms", "restore", "text_completion m:latest", "process INTAKE 1s"}},
		{"a state that is not used", func(d *Delivery) {
			d.Runs()
			d.Event(&jobs.Event{Type: jobs.EventHandoverFailed, Failure: jobs.FailDigest, Why: secret})
			d.Event(&jobs.Event{Type: jobs.EventDecodeBegun})
			d.Ran(ended, nil)
		}, []string{"text_completion m:latest", "process INTAKE 1s [handover_failed]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to := record(t)
			d := Process(t.Context(), Message{Job: job, Header: map[string][]string{"traceparent": {parent}}, Stream: "INTAKE", Arrived: time.Now().Add(-time.Second)})
			tt.do(d)
			d.End(nil)
			if got := shown(to); !slices.Equal(got, tt.want) {
				t.Errorf("spans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			for _, s := range to.GetSpans() {
				if text := fmt.Sprintf("%+v", s); strings.Contains(text, secret) || strings.Contains(text, job.User) {
					t.Errorf("a span says what it must not: %s", text)
				}
				if !strings.HasPrefix(parent[3:], s.SpanContext.TraceID().String()) {
					t.Errorf("%s is of the trace %s", s.Name, s.SpanContext.TraceID())
				}
			}
		})
	}
}

// A state that was fetched ahead was fetched before what was done ahead had ended, whenever the event came that tells of it.
func TestFetchedAhead(t *testing.T) {
	to := record(t)
	d := Process(t.Context(), Message{Job: job})
	d.Prepared()
	d.ran = d.prepared.Add(time.Hour)
	d.Event(&jobs.Event{Type: jobs.EventFetched, Seconds: 0.5})
	if got := to.GetSpans()[0]; !got.EndTime.Equal(d.prepared) {
		t.Errorf("the fetch ended %s after what was done ahead", got.EndTime.Sub(d.prepared))
	}
}

func TestCodes(t *testing.T) {
	for want, err := range map[string]error{
		"queue_full": fmt.Errorf("x: %w", jobs.Errorf(jobs.CodeQueueFull, secret)), "cancelled": fmt.Errorf("x: %w", context.Canceled),
		"timeout": context.DeadlineExceeded, "_OTHER": errors.New(secret),
	} {
		if got := codeOf(err); got != want {
			t.Errorf("codeOf(%v) = %s, want %s", err, got, want)
		}
	}
}

func TestHeaders(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, tt := range map[string]struct {
		header map[string][]string
		known  bool
		state  string
	}{
		"ours":                  {map[string][]string{"traceparent": {parent}, "tracestate": {"v=1"}}, true, "v=1"},
		"as HTTP":               {map[string][]string{"Traceparent": {parent}, "TraceState": {"v=1"}}, true, "v=1"},
		"none":                  {nil, false, ""},
		"twice":                 {map[string][]string{"traceparent": {parent, parent}}, false, ""},
		"malformed":             {map[string][]string{"traceparent": {"00-" + secret}}, false, ""},
		"zero":                  {map[string][]string{"traceparent": {"00-00000000000000000000000000000000-00f067aa0ba902b7-01"}}, false, ""},
		"too long":              {map[string][]string{"traceparent": {parent + long}}, false, ""},
		"state that is long":    {map[string][]string{"traceparent": {parent}, "tracestate": {"v=" + long}}, true, ""},
		"state of many":         {map[string][]string{"traceparent": {parent}, "tracestate": {strings.Repeat("v=1,", 100) + "v=1"}}, true, ""},
		"baggage is left there": {map[string][]string{"traceparent": {parent}, "baggage": {"user=kwyjibo"}}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			passed := map[string][]string{}
			Inject(extract(t.Context(), tt.header), passed)
			if got := headers(passed).Get("traceparent"); (got == parent) != tt.known || (got == "") == tt.known {
				t.Errorf("traceparent = %.80q", got)
			}
			if got := headers(passed).Get("tracestate"); got != tt.state || len(passed) > 2 {
				t.Errorf("tracestate = %.80q, headers %d", got, len(passed))
			}
		})
	}
}

func TestRequest(t *testing.T) {
	to := record(t)
	for _, status := range []int{http.StatusOK, http.StatusTooManyRequests, http.StatusBadGateway} {
		r := httptest.NewRequest(http.MethodPost, "/files/"+"kwyjibo", nil)
		r, answered := Request(r, "POST /files/{name}")
		if Log(r.Context()).Key != "trace_id" {
			t.Error("the trace has no id for the log")
		}
		answered(status)
	}
	if got, want := shown(to), []string{"POST /files/{name}", "POST /files/{name}", "POST /files/{name} failed: 502"}; !slices.Equal(got, want) {
		t.Errorf("spans %q, want %q", got, want)
	}
}

func TestRun(t *testing.T) {
	to := record(t)
	failed := &jobs.Result{Status: jobs.Failed, Error: &jobs.ErrorInfo{Code: jobs.CodeContextOverflow, Message: secret}}
	for _, end := range []struct {
		r   *jobs.Result
		err error
	}{{&jobs.Result{Status: jobs.Succeeded}, nil}, {failed, nil}, {nil, jobs.Errorf(jobs.CodeDecodeMissing, secret)}} {
		_, ended := Run(t.Context(), job)
		ended(end.r, end.err)
	}
	if got, want := shown(to), []string{"run job", "run job failed: context_overflow", "run job failed: decode_unavailable"}; !slices.Equal(got, want) {
		t.Errorf("spans %q, want %q", got, want)
	}
}

// Where nobody records, nothing is added, and no line of a log has more.
func TestOff(t *testing.T) {
	h := map[string][]string{}
	ctx, s := Publish(t.Context(), "INTAKE", "j1")
	Inject(ctx, h)
	s.End(nil)
	if len(h) > 0 || !Log(ctx).Equal(slog.Attr{}) {
		t.Errorf("headers %v, for the log %v", h, Log(ctx))
	}
}

// BenchmarkOff is all that a job costs its three programs together while tracing is off.
func BenchmarkOff(b *testing.B) {
	b.ReportAllocs()
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	deliver := func(h map[string][]string, from, to string, events ...jobs.EventType) {
		d := Process(b.Context(), Message{Job: job, Header: h, Stream: from})
		ctx := d.In(d.In(b.Context()))
		d.Runs()
		for _, e := range events {
			d.Event(&jobs.Event{Type: e})
		}
		d.Ran(nil, nil)
		ctx, s := PublishNext(ctx, to, job.ID)
		Inject(ctx, h)
		s.End(nil)
		Log(ctx)
		d.End(nil)
	}
	h := map[string][]string{"Nats-Msg-Id": {"x"}, "Nats-Expected-Stream": {"x"}}
	for b.Loop() {
		r, answered := Request(r, "POST /v1/chat/completions")
		ctx, ended := Run(r.Context(), job)
		ctx, s := Publish(ctx, "INTAKE", job.ID)
		Inject(ctx, h)
		s.End(nil)
		deliver(h, "INTAKE", "RELAY", jobs.EventPrefillBegun, jobs.EventPrefillDone, jobs.EventSaved, jobs.EventOffered)
		deliver(h, "RELAY", "RESULTS", jobs.EventFetched, jobs.EventRestored, jobs.EventDecodeBegun, jobs.EventFirstToken, jobs.EventEnded)
		ended(nil, nil)
		answered(http.StatusOK)
	}
}
