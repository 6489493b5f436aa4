package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
)

// Inject puts the trace that a record belongs to into the headers of its message, as W3C Trace Context has it; nothing if there is none.
func Inject(ctx context.Context, h map[string][]string) {
	propagation.TraceContext{}.Inject(ctx, headers(h))
}

// extract takes the trace out of the headers of a message. One that is not as it must be is none.
func extract(ctx context.Context, h map[string][]string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, headers(h))
}

// headers are those of a NATS message, in which case counts. Ours are written as the standard does; those of others may be written as in HTTP.
type headers map[string][]string

// Get returns a header that is there once, or nothing.
func (h headers) Get(key string) string {
	values, there := h[key]
	for name, other := range h {
		if !there && strings.EqualFold(name, key) {
			values = other
		}
	}
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// Set implements [propagation.TextMapCarrier], as Keys does.
func (h headers) Set(key, value string) { h[key] = []string{value} }

// Keys lists the names.
func (h headers) Keys() (names []string) {
	for name := range h {
		names = append(names, name)
	}
	return names
}
