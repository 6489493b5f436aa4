// Package tracing makes of a job's way one trace of OpenTelemetry: from the program that submits it to its result, across all processes.
//
// Spans go to the global tracer provider, so that a program that imports tandem/client, and has set OpenTelemetry up, has its jobs in its own traces.
// Where nobody has, nothing is recorded, and a trace that a job brings along is passed on as it came.
//
// A span has ids of jobs, names of models, streams and routes, counts, times and codes of errors: never a text, nor what names a user or a file.
package tracing

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // the last version that has the names for generative AI, which have moved since
	"go.opentelemetry.io/otel/trace"

	"tandem/jobs"
)

// Attributes of our own.
const (
	keyJob     = attribute.Key("tandem.job.id")
	keyStage   = attribute.Key("tandem.stage")
	keyAttempt = attribute.Key("tandem.attempt")
	keyWorker  = attribute.Key("tandem.worker")
	keyStatus  = attribute.Key("tandem.status")
	keyMethod  = attribute.Key("tandem.method")
	keyTokens  = attribute.Key("tandem.tokens.computed")
	keyCached  = attribute.Key("tandem.tokens.cached")
	keyBytes   = attribute.Key("tandem.state.bytes")
	keyMoved   = attribute.Key("tandem.state.moved_bytes")
	keyFailure = attribute.Key("tandem.handover.failure")
)

// Span is something that takes time. End must be called.
type Span struct{ trace.Span }

// start begins a span; at is when, if that was not now.
func start(ctx context.Context, name string, kind trace.SpanKind, at time.Time) (context.Context, Span) {
	tracer := otel.GetTracerProvider().Tracer("tandem", trace.WithSchemaURL(semconv.SchemaURL))
	ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(at)) // a zero time is now
	return ctx, Span{span}
}

// End ends the span. Of an error it has the code alone.
func (s Span) End(err error) { s.endAt(time.Time{}, err) }

func (s Span) endAt(at time.Time, err error) {
	if !s.IsRecording() {
		return
	}
	if err != nil {
		s.fail(codeOf(err))
	}
	s.Span.End(trace.WithTimestamp(at))
}

func (s Span) fail(code string) {
	s.SetStatus(codes.Error, code)
	s.SetAttributes(semconv.ErrorTypeKey.String(code))
}

// codeOf is that of an error.
func codeOf(err error) string {
	if e, ours := errors.AsType[*jobs.Error](err); ours {
		return string(e.Code)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return string(jobs.CodeCancelled)
	case errors.Is(err, context.DeadlineExceeded):
		return string(jobs.CodeTimeout)
	}
	return semconv.ErrorTypeOther.Value.AsString()
}

// Run is the span of a call that submits a job and waits for its result. Ended is to be called with what came.
func Run(ctx context.Context, j *jobs.Job) (_ context.Context, ended func(*jobs.Result, error)) {
	ctx, s := start(ctx, "run job", trace.SpanKindInternal, time.Time{})
	return ctx, func(r *jobs.Result, err error) {
		if s.IsRecording() {
			s.SetAttributes(keyJob.String(j.ID), semconv.GenAIRequestModel(j.Model))
		}
		if r != nil {
			s.SetAttributes(keyStatus.String(string(r.Status)), keyMethod.String(string(r.Method)))
			if r.Error != nil {
				s.fail(string(r.Error.Code))
			}
		}
		s.End(err)
	}
}

// Publish is the span of publishing a record of a job to a stream.
func Publish(ctx context.Context, stream, jobID string) (context.Context, Span) {
	ctx, s := start(ctx, "publish "+stream, trace.SpanKindProducer, time.Time{})
	if s.IsRecording() {
		s.SetAttributes(messaging(stream, jobID, "publish", semconv.MessagingOperationTypeSend)...)
	}
	return ctx, s
}

// PublishNext is Publish of what is a step of a trace, or not traced at all: none begins with it.
func PublishNext(ctx context.Context, stream, jobID string) (context.Context, Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, Span{trace.SpanFromContext(ctx)} // which does nothing
	}
	return Publish(ctx, stream, jobID)
}

// messaging are the attributes of what is done with a message. Its subject and its id name the user, and are left out.
func messaging(stream, jobID, operation string, kind attribute.KeyValue) []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.MessagingSystemKey.String("nats"), semconv.MessagingDestinationName(stream), semconv.MessagingMessageConversationID(jobID),
		semconv.MessagingOperationName(operation), kind,
	}
}

// Request is the span of a request to an HTTP API, by the route's pattern, in the trace that it brings along, if it does. The request returned has it in its context.
// The path itself may be anything, and is left out.
func Request(r *http.Request, pattern string) (_ *http.Request, answered func(status int)) {
	path := pattern[strings.IndexByte(pattern, ' ')+1:]
	ctx, s := start(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)), r.Method+" "+path, trace.SpanKindServer, time.Time{})
	if s.IsRecording() {
		s.SetAttributes(semconv.HTTPRequestMethodKey.String(r.Method), semconv.HTTPRoute(path))
	}
	return r.WithContext(ctx), func(status int) {
		s.SetAttributes(semconv.HTTPResponseStatusCode(status))
		if status >= http.StatusInternalServerError {
			s.fail(strconv.Itoa(status))
		}
		s.End(nil)
	}
}

// Log is the id of the trace, for lines of a log; the zero Attr, which is not logged, if nothing is recorded.
func Log(ctx context.Context) slog.Attr {
	if s := trace.SpanFromContext(ctx); s.IsRecording() {
		return slog.String("trace_id", s.SpanContext().TraceID().String())
	}
	return slog.Attr{}
}
