package telemetry

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Worker counts what happens in a worker.
type Worker struct {
	handler http.Handler

	ended, deliveries, prompt, generated, engineErrors        counters
	handovers, moved, states, rebuilt, slow, calls            counters
	job, delivery, waited, prefill, decode                    histograms
	saving, moving, restoring, duration, firstToken, perToken histograms
}

// Gauges are read when the metrics are.
type Gauges struct {
	Slots, Busy      func() int
	BusySeconds      func() float64
	EngineUp, NATSUp func() bool
	Queue            func(context.Context) ([]Depth, error)
	States           func() (states int, bytes int64) // held for decode, by a prefill worker
	StoppedPairs     func() int                       // machines from which a decode worker takes no states
}

// Depth counts the jobs of a model and class at a stage.
type Depth struct {
	Stage             jobs.Stage // prefill, or decode with fallback
	Class             jobs.Class
	Waiting, InFlight int
}

// NewWorker returns the metrics of a worker of the role for the model.
func NewWorker(role jobs.Stage, model, version string, g Gauges) *Worker {
	r := newRegistry(Service(role), model, version)
	number := func(f func() int) func() float64 { return func() float64 { return float64(f()) } }
	r.gauge("tandem_slots", number(g.Slots))
	r.gauge("tandem_slots_busy", number(g.Busy))
	r.gauge("tandem_slots_busy_seconds_total", g.BusySeconds)
	r.gauge("tandem_engine_up", truth(g.EngineUp))
	r.gauge("tandem_nats_up", truth(g.NATSUp))
	if role == protocol.RolePrefill {
		r.gauge("tandem_states_held", func() float64 { n, _ := g.States(); return float64(n) })
		r.gauge("tandem_states_held_bytes", func() float64 { _, n := g.States(); return float64(n) })
	} else {
		r.gauge("tandem_handover_pairs_stopped", number(g.StoppedPairs))
	}
	r.MustRegister(newDepths(r, g.Queue))
	w := &Worker{
		ended: r.counter("tandem_jobs_total"), deliveries: r.counter("tandem_deliveries_total"), prompt: r.counter("tandem_prompt_tokens_total"),
		generated: r.counter("tandem_generated_tokens_total"), engineErrors: r.counter("tandem_engine_errors_total"),
		handovers: r.counter("tandem_handovers_total"), moved: r.counter("tandem_handover_bytes_total"), states: r.counter("tandem_handover_state_bytes_total"),
		rebuilt: r.counter("tandem_handover_rebuilt_total"), slow: r.counter("tandem_slow_transfers_total"), calls: r.counter("tandem_http_requests_total"),
		job: r.histogram("tandem_job_seconds"), delivery: r.histogram("tandem_delivery_seconds"), waited: r.histogram("tandem_queue_wait_seconds"),
		prefill: r.histogram("tandem_prefill_seconds"), decode: r.histogram("tandem_decode_seconds"),
		saving: r.histogram("tandem_handover_save_seconds"), moving: r.histogram("tandem_handover_transfer_seconds"), restoring: r.histogram("tandem_handover_restore_seconds"),
		duration: r.histogram("gen_ai_server_request_duration_seconds"), firstToken: r.histogram("gen_ai_server_time_to_first_token_seconds"),
		perToken: r.histogram("gen_ai_server_time_per_output_token_seconds"),
	}
	w.handler = r.handler()
	return w
}

func truth(f func() bool) func() float64 {
	return func() float64 {
		if f() {
			return 1
		}
		return 0
	}
}

// Handler serves the metrics in Prometheus' text format.
func (w *Worker) Handler() http.Handler { return w.handler }

// Task counts one delivery that ran for d.
func (w *Worker) Task(t *protocol.Task, d time.Duration, o protocol.Outcome, err error) {
	outcome, delivery, stage := "hop", "first", string(t.Stage)
	if t.Redelivered {
		delivery = "redelivered"
	}
	switch {
	case err != nil:
		outcome = string(jobs.CodeOf(err))
		if slices.Contains(engineCodes, outcome) {
			w.engineErrors.add(1, outcome)
		}
	case o.Result != nil:
		outcome = string(o.Result.Status)
	}
	w.deliveries.add(1, stage, delivery, outcome)
	w.delivery.observe(d.Seconds(), stage)
	w.waited.observe(t.Waited.Seconds(), stage)
	if o.Next != nil && o.Next.Prefill != nil {
		w.computed(o.Next.Prefill.CachedTokens, o.Next.Prefill.ComputedTokens, o.Next.Prefill.Seconds)
	}
	r := o.Result
	if r == nil {
		return
	}
	if r.Timings.TransferSeconds > protocol.SlowTransferAfter.Seconds() {
		w.slow.add(1)
	}
	if r.Handover != nil && r.Handover.Failure == "" {
		w.handovers.add(1, "used")
	}
	if r.Method == jobs.MethodDisaggregated {
		w.computed(r.Usage.DecodeCached, r.Usage.DecodeComputed, r.Timings.DecodePrefillSeconds)
	} else {
		w.computed(r.Usage.PrefillCached, r.Usage.PrefillComputed, r.Timings.PrefillSeconds)
	}
	w.generated.add(float64(r.Usage.GeneratedTokens))
	if r.Timings.DecodeSeconds > 0 {
		w.decode.observe(r.Timings.DecodeSeconds)
	}
}

// computed counts a prompt.
func (w *Worker) computed(cached, computed int, seconds float64) {
	w.prompt.add(float64(cached), "cached")
	w.prompt.add(float64(computed), "computed")
	if computed > 0 {
		w.prefill.observe(seconds)
	}
}

// Event counts what happens to KV states.
func (w *Worker) Event(e *jobs.Event) {
	switch e.Type {
	case jobs.EventSaved:
		w.saving.observe(e.Seconds)
	case jobs.EventFetched:
		w.states.add(float64(e.Bytes))
		w.moved.add(float64(e.MovedBytes))
		w.moving.observe(e.Seconds)
		if e.Rebuilt {
			w.rebuilt.add(1, "used")
		}
		if e.RebuildLost {
			w.rebuilt.add(1, "failed")
		}
	case jobs.EventRestored:
		w.restoring.observe(e.Seconds)
	case jobs.EventHandoverFailed:
		w.handovers.add(1, string(e.Failure))
	}
}

// Ended counts a job whose result was published here.
func (w *Worker) Ended(j *jobs.Job, r *jobs.Result) {
	method, code, operation := string(r.Method), "", protocol.OperationOf(j)
	if method == "" {
		method = none
	}
	if r.Error != nil {
		code = string(r.Error.Code)
	}
	w.ended.add(1, string(r.Status), method)
	total := r.Timings.TotalSeconds
	if total > 0 { // else nobody had begun it
		w.job.observe(total)
		w.duration.observe(total, operation, code)
	}
	if r.Status != jobs.Succeeded {
		return
	}
	var accepted, first time.Time
	for _, m := range r.Timeline {
		switch m.Type {
		case jobs.EventAccepted:
			accepted = m.At
		case jobs.EventFirstToken: // the last one's text is the result
			first = m.At
		}
	}
	if !accepted.IsZero() && !first.IsZero() {
		w.firstToken.observe(first.Sub(accepted).Seconds(), operation)
	}
	if n := r.Usage.GeneratedTokens; n > 1 && r.Timings.DecodeSeconds > 0 {
		w.perToken.observe(r.Timings.DecodeSeconds/float64(n-1), operation)
	}
}

// HTTP counts one request to the HTTP API; path is one of its routes.
func (w *Worker) HTTP(path string, code int) {
	w.calls.add(1, path, strconv.Itoa(code))
}

// depths asks how much there is to do when the metrics are read. While NATS does not answer, they lack it.
type depths struct {
	waiting, inFlight *prometheus.Desc
	ask               func(context.Context) ([]Depth, error)

	mu    sync.Mutex
	known []Depth
	asked time.Time
}

const (
	askLimit = 2 * time.Second // well below the usual limit of a scrape
	askEvery = time.Second     // whoever reads more often gets what is known
)

func newDepths(r *registry, ask func(context.Context) ([]Depth, error)) *depths {
	desc := func(name string) *prometheus.Desc {
		m, labels := r.metric(name)
		return prometheus.NewDesc(m.Name, m.Help, m.names(), labels)
	}
	return &depths{waiting: desc("tandem_queue_waiting"), inFlight: desc("tandem_queue_in_flight"), ask: ask}
}

// Describe implements [prometheus.Collector].
func (d *depths) Describe(to chan<- *prometheus.Desc) { to <- d.waiting; to <- d.inFlight }

// Collect implements [prometheus.Collector].
func (d *depths) Collect(to chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.asked) >= askEvery {
		ctx, cancel := context.WithTimeout(context.Background(), askLimit)
		defer cancel()
		var err error
		if d.known, err = d.ask(ctx); err != nil {
			d.known = nil
		}
		d.asked = time.Now()
	}
	for _, k := range d.known {
		to <- prometheus.MustNewConstMetric(d.waiting, prometheus.GaugeValue, float64(k.Waiting), string(k.Stage), string(k.Class))
		to <- prometheus.MustNewConstMetric(d.inFlight, prometheus.GaugeValue, float64(k.InFlight), string(k.Stage), string(k.Class))
	}
}
