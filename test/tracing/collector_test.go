package tracing

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// limit is how long anything may take that a test waits for, on a busy machine.
const limit = time.Minute

// span is one that the collector got, with the service that it is of.
type span struct {
	*tracepb.Span
	service, instance string
}

func (s span) trace() string  { return hex.EncodeToString(s.TraceId) }
func (s span) id() string     { return hex.EncodeToString(s.SpanId) }
func (s span) parent() string { return hex.EncodeToString(s.ParentSpanId) }

// attribute is an attribute of the span as text, "" if it has none of this name.
func (s span) attribute(name string) string { return text(s.Attributes, name) }

func text(list []*commonpb.KeyValue, name string) string {
	for _, a := range list {
		if a.Key != name {
			continue
		}
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			return v.StringValue
		case *commonpb.AnyValue_ArrayValue:
			var all []string
			for _, each := range v.ArrayValue.Values {
				all = append(all, each.GetStringValue())
			}
			return strings.Join(all, ",")
		case *commonpb.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_DoubleValue:
			return fmt.Sprint(v.DoubleValue)
		}
	}
	return ""
}

// collector is an OTLP/HTTP collector that keeps all that it gets.
type collector struct {
	*httptest.Server

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when there is more
	spans   []span
	bytes   bytes.Buffer
}

func startCollector(t *testing.T) *collector {
	c := &collector{changed: make(chan struct{})}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.take(r); err != nil {
			t.Errorf("the collector got %s %s: %v", r.Method, r.URL.Path, err)
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) take(r *http.Request) error {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		return fmt.Errorf("it is of type %q", r.Header.Get("Content-Type"))
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = unpacked
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var req collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &req); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes.Write(data)
	for _, from := range req.ResourceSpans {
		about := from.Resource.Attributes
		for _, scope := range from.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, span{s, text(about, "service.name"), text(about, "service.instance.id")})
			}
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
	return nil
}

// await returns the spans of a trace once there are so many.
func (c *collector) await(t *testing.T, trace string, n int) []span {
	t.Helper()
	return c.awaitOf(t, n, func(s span) bool { return s.trace() == trace })
}

// awaitOf returns those spans for which is, once there are so many.
func (c *collector) awaitOf(t *testing.T, n int, is func(span) bool) []span {
	t.Helper()
	late := time.After(limit)
	for {
		c.mu.Lock()
		all, changed := slices.Clone(c.spans), c.changed
		c.mu.Unlock()
		found := slices.DeleteFunc(slices.Clone(all), func(s span) bool { return !is(s) })
		if len(found) >= n {
			return found
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%d spans came, want %d; all that came:\n%s", len(found), n, tree(all))
		}
	}
}

// holdsNone fails the test if any of these words came, in whatever form.
func (c *collector) holdsNone(t *testing.T, words ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, word := range words {
		if word == "" || bytes.Contains(c.bytes.Bytes(), []byte(word)) {
			t.Errorf("the collector got %q", word)
		}
	}
}

// tree draws spans below their parents, as they began: service, kind and name, and the code of a failed one.
func tree(list []span) string {
	slices.SortStableFunc(list, func(a, b span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	known := map[string]bool{}
	for _, s := range list {
		known[s.id()] = true
	}
	var out strings.Builder
	var draw func(depth int, below func(span) bool)
	draw = func(depth int, below func(span) bool) {
		for _, s := range list {
			if !below(s) {
				continue
			}
			failed := ""
			if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
				failed = " failed: " + s.Status.Message
			}
			fmt.Fprintf(&out, "%s%s %s %s%s\n", strings.Repeat("  ", depth), s.service, strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_"), s.Name, failed)
			draw(depth+1, func(child span) bool { return child.parent() == s.id() })
		}
	}
	draw(0, func(s span) bool { return !known[s.parent()] })
	return out.String()
}
