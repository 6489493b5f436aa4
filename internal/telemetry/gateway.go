package telemetry

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Door counts what happens at a gateway.
type Door struct {
	handler http.Handler
	open    atomic.Int64
	models  sync.Map // of which a result came: what is asked for may be anything

	calls, refused, ended      counters
	duration, firstChunk, used histograms
}

// NewGateway returns the metrics of a gateway.
func NewGateway(version string) *Door {
	r := newRegistry(Gateway, "", version)
	d := &Door{
		calls: r.counter("tandem_http_requests_total"), refused: r.counter("tandem_gateway_refused_total"), ended: r.counter("tandem_gateway_jobs_total"),
		duration: r.histogram("gen_ai_client_operation_duration_seconds"), firstChunk: r.histogram("gen_ai_client_operation_time_to_first_chunk_seconds"),
		used: r.histogram("gen_ai_client_token_usage"),
	}
	r.gauge("tandem_gateway_streams", func() float64 { return float64(d.open.Load()) })
	d.handler = r.handler()
	return d
}

// Handler serves the metrics in Prometheus' text format.
func (d *Door) Handler() http.Handler { return d.handler }

// Request counts a request that begins, and then its answer: by its route, and by the limit that refused it, if one did.
func (d *Door) Request() (answered func(route string, status int, limit string)) {
	d.open.Add(1)
	return func(route string, status int, limit string) {
		d.open.Add(-1)
		d.calls.add(1, route, strconv.Itoa(status))
		if limit != "" {
			d.refused.add(1, limit)
		}
	}
}

// Job counts a job that ended for whoever asked, with its result if there is one, else with an outcome and the code of an error. It took so
// long, and so long to the first piece of a stream; 0 if that is not known.
func (d *Door) Job(j *jobs.Job, r *jobs.Result, outcome string, code jobs.Code, took, first time.Duration) {
	model, operation := other, protocol.OperationOf(j)
	if r != nil {
		model, outcome = r.Model, string(r.Status)
		d.models.Store(model, true)
	} else if name, err := jobs.CanonicalModel(j.Model); err == nil {
		if _, known := d.models.Load(name); known {
			model = name
		}
	}
	d.ended.add(1, model, outcome)
	if took > 0 {
		d.duration.observe(took.Seconds(), operation, model, string(code))
	}
	if first > 0 {
		d.firstChunk.observe(first.Seconds(), operation, model)
	}
	if r != nil && r.Status == jobs.Succeeded {
		d.used.observe(float64(r.Usage.PromptTokens), operation, model, "input")
		d.used.observe(float64(r.Usage.GeneratedTokens), operation, model, "output")
	}
}
