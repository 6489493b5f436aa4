package tracing

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Message says which delivery of a job this is.
type Message struct {
	Job      *jobs.Job
	Header   map[string][]string // with the trace, if there is one
	Stream   string
	Consumer string
	Stage    jobs.Stage
	Attempt  int
	Worker   string // "machine/worker id"
	Arrived  time.Time
}

// Delivery is the span of one delivery of a job to a worker, from its arrival until it is settled. The spans of its steps are made of the events that tell of them.
type Delivery struct {
	Span
	ctx context.Context // with the span
	job *jobs.Job

	mu       sync.Mutex
	prepared time.Time // when what was done of it ahead was done; zero if nothing was
	ran      time.Time // when it began to run
	step     Span      // what its engine is at; nil Span if it is at nothing
	began    time.Time // the step
	done     time.Time // the step, if it has ended and may yet turn out to have been two
}

// Process begins the span of a delivery, in the trace of its job.
func Process(ctx context.Context, m Message) *Delivery {
	ctx, s := start(extract(ctx, m.Header), "process "+m.Stream, trace.SpanKindConsumer, m.Arrived)
	if s.IsRecording() {
		s.SetAttributes(append(messaging(m.Stream, m.Job.ID, "process", semconv.MessagingOperationTypeProcess),
			semconv.MessagingConsumerGroupName(m.Consumer), keyStage.String(string(m.Stage)), keyAttempt.Int(m.Attempt), keyWorker.String(m.Worker))...)
	}
	return &Delivery{Span: s, ctx: ctx, job: m.Job}
}

// In returns a context of what is done for the delivery.
func (d *Delivery) In(ctx context.Context) context.Context {
	return trace.ContextWithSpan(ctx, d.Span.Span)
}

// Prepared says that what can be done of the delivery before it has a slot is done.
func (d *Delivery) Prepared() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.prepared = time.Now()
}

// Runs says that it has a slot now.
func (d *Delivery) Runs() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ran = time.Now()
}

// Event makes a span of an event that ends a step, or notes it. A delivery that is handed back before anybody has looked at it is nil.
func (d *Delivery) Event(e *jobs.Event) {
	if d == nil || !d.IsRecording() {
		return
	}
	now, took := time.Now(), time.Duration(e.Seconds*float64(time.Second))
	d.mu.Lock()
	defer d.mu.Unlock()
	switch e.Type {
	case jobs.EventPrefillBegun:
		d.begin("prefill")
	case jobs.EventPrefillDone: // the engine may have saved the state as well, which the next event tells
		if d.step.Span != nil {
			d.done = now
			d.step.SetAttributes(semconv.GenAIRequestModel(d.job.Model), keyTokens.Int(e.Tokens), keyCached.Int(e.CachedTokens))
		}
	case jobs.EventSaved:
		saved := cmp.Or(d.done, now)
		d.done = saved.Add(-took)
		d.end("")
		d.past("save", saved, took, keyBytes.Int64(e.Bytes))
	case jobs.EventFetched:
		if now.Add(-took).Before(d.ran) && !d.prepared.IsZero() { // ahead
			now = d.prepared
		}
		d.past("fetch", now, took, keyBytes.Int64(e.Bytes), keyMoved.Int64(e.MovedBytes))
	case jobs.EventRestored:
		d.past("restore", now, took, keyBytes.Int64(e.Bytes))
	case jobs.EventDecodeBegun:
		operation := protocol.OperationOf(d.job)
		d.begin(operation + " " + d.job.Model)
		d.step.SetAttributes(semconv.GenAIOperationNameKey.String(operation), semconv.GenAIProviderNameKey.String(protocol.Provider), semconv.GenAIRequestModel(d.job.Model))
	case jobs.EventFirstToken:
		if d.step.Span != nil {
			d.step.SetAttributes(semconv.GenAIResponseTimeToFirstChunk(now.Sub(d.began).Seconds()))
		}
	case jobs.EventHandoverFailed:
		d.AddEvent(string(e.Type), trace.WithAttributes(keyFailure.String(string(e.Failure))))
	case jobs.EventRetried, jobs.EventRequeued, jobs.EventFellBack:
		d.AddEvent(string(e.Type))
	}
}

// Ran says what came of its steps: a result, if this stage made one, or an error.
func (d *Delivery) Ran(r *jobs.Result, err error) {
	if !d.IsRecording() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	code := ""
	if err != nil {
		code = string(jobs.CodeOf(err))
	}
	if r != nil && d.step.Span != nil {
		d.step.SetAttributes(semconv.GenAIUsageInputTokens(r.Usage.PromptTokens), semconv.GenAIUsageOutputTokens(r.Usage.GeneratedTokens),
			semconv.GenAIResponseFinishReasons(r.FinishReason), keyMethod.String(string(r.Method)))
	}
	d.end(code)
}

// Fail says that it fails, by the code that the job's records have.
func (d *Delivery) Fail(err error) { d.fail(string(jobs.CodeOf(err))) }

// begin begins a step of the engine, now. The lock must be held, as for the next two.
func (d *Delivery) begin(name string) {
	d.end("")
	_, d.step = start(d.ctx, name, trace.SpanKindClient, time.Time{})
	d.began = time.Now()
}

// end ends the step, if there is one, as failed if there is a code.
func (d *Delivery) end(code string) {
	if d.step.Span == nil {
		return
	}
	if code != "" {
		d.step.fail(code)
	}
	d.step.endAt(d.done, nil)
	d.step, d.done = Span{}, time.Time{}
}

// past makes a span of what took so long, and has ended.
func (d *Delivery) past(name string, ended time.Time, took time.Duration, attributes ...attribute.KeyValue) {
	_, s := start(d.ctx, name, trace.SpanKindInternal, ended.Add(-took))
	s.SetAttributes(attributes...)
	s.endAt(ended, nil)
}
