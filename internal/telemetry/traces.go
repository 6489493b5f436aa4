package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"tandem/internal/protocol"
	"tandem/jobs"
)

const (
	flushLimit   = 2 * time.Second // for what was not exported yet when a program ends
	complainEach = time.Minute     // about a collector that is away
	complaint    = 300             // bytes of such an error
)

// StartTraces has this process export its spans (package tracing) over OTLP/HTTP, as the environment variables of OpenTelemetry say, if one of them names an
// endpoint; else it does nothing. Spans that nobody takes are dropped: a collector that is away costs no job anything. Stop must be called; it exports what is
// left, for two seconds at most. The service is named tandem-… unless a variable names it.
func StartTraces(service, version string, log *slog.Logger) (stop func()) {
	nothing := func() {}
	endpoint := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if endpoint == "" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nothing
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		log.Warn("no traces: OTEL_EXPORTER_OTLP_ENDPOINT is no URL as http://localhost:4318")
		return nothing
	}
	if p := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")); p != "" && !strings.HasPrefix(p, "http/") {
		log.Warn("traces are exported over HTTP; give the collector's port for that, usually 4318", "OTEL_EXPORTER_OTLP_PROTOCOL", p)
	}
	ctx := context.Background()
	otel.SetLogger(logr.Discard()) // it would write to stderr, also what stands in variables that hold keys
	otel.SetErrorHandler(&complaints{log: log})
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		log.Warn("no traces", "error", err)
		return nothing
	}
	// Nothing of the host or the command line, which may hold a prompt.
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("tandem-"+service), semconv.ServiceVersion(version), semconv.ServiceInstanceID(jobs.NewID())),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		otel.Handle(err)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))
	otel.SetTracerProvider(provider)
	return func() {
		ctx, cancel := context.WithTimeout(ctx, flushLimit)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			otel.Handle(err)
		}
	}
}

// complaints logs what goes wrong with exporting, now and then.
type complaints struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
}

// Handle implements [otel.ErrorHandler].
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.last.IsZero() || now.Sub(c.last) >= complainEach {
		c.last = now
		text := err.Error() // with all that a collector answered
		text = protocol.RedactText(text[:min(len(text), 10*complaint)])
		c.log.Warn("traces are not exported", "error", text[:min(len(text), complaint)])
	}
}
