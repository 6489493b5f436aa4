package tracing

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"tandem/client"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
	"tandem/test/paperworker"
)

// A program that imports the client and has set OpenTelemetry up has its jobs in its own traces: here one whose worker fails at first, is handed the job again, and
// one that becomes a dead letter.
func TestProgramAndRetries(t *testing.T) {
	c := startCollector(t)
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(c.URL+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	otel.SetTracerProvider(provider)
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })

	url := natstest.Start(t, natsembed.Options{}).URL()
	var tries atomic.Int64
	at := queue.Config{URL: url}
	paperworker.Start(t, at, at, model, "paper", 1, func(_ context.Context, task *protocol.Task) (protocol.Outcome, error) {
		task.Event(jobs.Event{Type: jobs.EventDecodeBegun})
		switch {
		case strings.HasPrefix(task.Job.Prompt, "wrong"):
			return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineRefused, secret)
		case tries.Add(1) == 1:
			return protocol.Outcome{}, fmt.Errorf("%s failed because of: %s", task.Job.User, secret)
		}
		r := jobs.NewResult(task.Job, jobs.Succeeded)
		r.Text, r.FinishReason, r.Method = secret, "stop", jobs.MethodLocal
		return protocol.Outcome{Result: r}, nil
	})
	to, err := client.Dial(t.Context(), client.Options{URL: url, User: user})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(to.Close)

	for _, tt := range []struct {
		prompt string
		spans  int
		want   string
	}{
		{prompt("right"), 8, `
unknown CLIENT my own
  unknown INTERNAL run job
    unknown PRODUCER publish INTAKE
      unknown CONSUMER process INTAKE failed: engine_failed
        unknown CLIENT text_completion qwen3-coder:30b failed: engine_failed
      unknown CONSUMER process INTAKE
        unknown CLIENT text_completion qwen3-coder:30b
        unknown PRODUCER publish RESULTS
`},
		{prompt("wrong"), 7, `
unknown CLIENT my own
  unknown INTERNAL run job failed: engine_refused
    unknown PRODUCER publish INTAKE
      unknown CONSUMER process INTAKE failed: engine_refused
        unknown CLIENT text_completion qwen3-coder:30b failed: engine_refused
        unknown PRODUCER publish RESULTS
        unknown PRODUCER publish DLQ
`},
	} {
		ctx, own := provider.Tracer("mine").Start(t.Context(), "my own", api.WithSpanKind(api.SpanKindClient))
		if _, err := to.Run(ctx, &jobs.Job{Model: model, Prompt: tt.prompt, Plan: jobs.PlanLocal}); err != nil {
			t.Fatal(err)
		}
		own.End()
		spans := c.await(t, own.SpanContext().TraceID().String(), tt.spans)
		for i := range spans {
			spans[i].service, _, _ = strings.Cut(spans[i].service, "_")
		}
		if got := tree(spans); got != strings.TrimPrefix(tt.want, "\n") {
			t.Errorf("the trace is\n%swant%s", got, tt.want)
		}
		var attempts strings.Builder
		for _, s := range spans {
			if strings.HasPrefix(s.Name, "process") {
				attempts.WriteString(s.attribute("tandem.attempt") + s.attribute("error.type") + " ")
			}
		}
		if want := map[int]string{8: "1engine_failed 2 ", 7: "1engine_refused "}[tt.spans]; attempts.String() != want {
			t.Errorf("attempts %q, want %q", attempts.String(), want)
		}
	}
	c.holdsNone(t, secret, user)
}
