package telemetry

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace/noop"
)

// Traces are exported where an endpoint is named, and nothing says that they are not to be.
func TestStartTraces(t *testing.T) {
	var got atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	defer collector.Close()
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	const endpoint, traces = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	for name, tt := range map[string]struct {
		env  map[string]string
		want bool
		says string
	}{
		"nothing":           {nil, false, ""},
		"endpoint":          {map[string]string{endpoint: collector.URL}, true, ""},
		"of traces":         {map[string]string{traces: collector.URL + "/anywhere"}, true, ""},
		"disabled":          {map[string]string{endpoint: collector.URL, "OTEL_SDK_DISABLED": "True"}, false, ""},
		"no exporter":       {map[string]string{endpoint: collector.URL, "OTEL_TRACES_EXPORTER": "none"}, false, ""},
		"never sampled":     {map[string]string{endpoint: collector.URL, "OTEL_TRACES_SAMPLER": "always_off"}, false, ""},
		"no URL":            {map[string]string{endpoint: "localhost:4317"}, false, "is no URL"},
		"another protocol":  {map[string]string{endpoint: collector.URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, true, "over HTTP"},
		"malformed headers": {map[string]string{endpoint: collector.URL, "OTEL_EXPORTER_OTLP_HEADERS": "s3cret"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range []string{endpoint, traces, "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_HEADERS"} {
				t.Setenv(v, tt.env[v])
			}
			otel.SetTracerProvider(noop.NewTracerProvider())
			got.Store(0)
			var said strings.Builder
			stop := StartTraces("test", "v", slog.New(slog.NewTextHandler(&said, nil)))
			_, span := otel.GetTracerProvider().Tracer("test").Start(t.Context(), "a span")
			span.End()
			stop()
			if (got.Load() > 0) != tt.want {
				t.Errorf("the collector got %d requests", got.Load())
			}
			if !strings.Contains(said.String(), tt.says) || tt.says == "" && said.Len() > 0 || strings.Contains(said.String(), "s3cret") {
				t.Errorf("the log says %s", &said)
			}
		})
	}
}

func TestComplaintsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		c := &complaints{log: slog.New(slog.NewTextHandler(&said, nil))}
		for range 180 {
			c.Handle(errors.New("Post http://user:s3cret@collector: " + strings.Repeat("x", 1<<20)))
			time.Sleep(time.Second) // of the test's own clock
		}
		if n := strings.Count(said.String(), "\n"); n != 3 || said.Len() > 3*500 || strings.Contains(said.String(), "s3cret") {
			t.Errorf("%d lines of %d bytes: %.2000s", n, said.Len(), &said)
		}
	})
}
