package telemetry

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Metrics are the metrics of one worker, in a registry of their own. Every name is in [NewMetrics].
type Metrics struct {
	registry   *prometheus.Registry
	tasks      *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	waited     *prometheus.HistogramVec
	prompt     *prometheus.CounterVec
	generated  prometheus.Counter
	slow       prometheus.Counter
	handovers  *prometheus.CounterVec
	moved      prometheus.Counter
	states     prometheus.Counter
	rebuilt    *prometheus.CounterVec
	saving     prometheus.Histogram
	moving     prometheus.Histogram
	restoring  prometheus.Histogram
	httpCalls  *prometheus.CounterVec
	engineUp   prometheus.Gauge
	slotsBusy  prometheus.GaugeFunc
	slotsTotal prometheus.GaugeFunc
}

// Gauges are read when the metrics are. Those of KV states may be nil.
type Gauges struct {
	Slots, Busy  func() int
	States       func() (states int, bytes int64) // held for decode, by a prefill worker
	StoppedPairs func() int                       // machines from which a decode worker takes no states
}

// NewMetrics returns the metrics of a worker of the role for the model.
func NewMetrics(role jobs.Stage, model string, g Gauges) *Metrics {
	labels := prometheus.Labels{"role": string(role), "model": model}
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "tandem", Name: name, Help: help, ConstLabels: labels}
	}
	histogram := func(name, help string, by ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "tandem", Name: name, Help: help, ConstLabels: labels,
			Buckets: prometheus.ExponentialBuckets(0.01, 2.5, 12), // 10 ms to 4 minutes
		}, by)
	}
	span := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "tandem", Name: name, Help: help, ConstLabels: labels,
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 11), // 1 ms to a minute
		})
	}
	gauge := func(name, help string, f func() int) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help)), func() float64 { return float64(f()) })
	}
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		tasks:      prometheus.NewCounterVec(prometheus.CounterOpts(opts("tasks_total", "Deliveries of jobs by stage and what became of them.")), []string{"stage", "outcome"}),
		seconds:    histogram("task_seconds", "Time in the engine per delivery, by stage.", "stage"),
		waited:     histogram("queue_wait_seconds", "Time in the stream before a delivery, by stage, off the NATS server's clock.", "stage"),
		prompt:     prometheus.NewCounterVec(prometheus.CounterOpts(opts("prompt_tokens_total", "Prompt tokens by whether the engine had them cached.")), []string{"source"}),
		generated:  prometheus.NewCounter(prometheus.CounterOpts(opts("generated_tokens_total", "Tokens generated."))),
		slow:       prometheus.NewCounter(prometheus.CounterOpts(opts("slow_transfers_total", "Hand-overs that took longer than a second."))),
		handovers:  prometheus.NewCounterVec(prometheus.CounterOpts(opts("handovers_total", "KV states that were meant to be handed over, by what came of it: used, or why not. Those that were never offered show at the prefill worker, the others at the decode worker.")), []string{"outcome"}),
		moved:      prometheus.NewCounter(prometheus.CounterOpts(opts("handover_bytes_total", "Bytes of KV states that went over the network."))),
		states:     prometheus.NewCounter(prometheus.CounterOpts(opts("handover_state_bytes_total", "Sizes of the KV states fetched: more than went over the network if rows of shared prefixes were here."))),
		rebuilt:    prometheus.NewCounterVec(prometheus.CounterOpts(opts("handover_rebuilt_total", "KV states that were put together from rows that were here and the rest, by what came of it: used; or failed, and then the whole was fetched.")), []string{"outcome"}),
		saving:     span("handover_save_seconds", "Time in which the engine wrote a KV state."),
		moving:     span("handover_transfer_seconds", "Time in which a KV state was fetched and verified."),
		restoring:  span("handover_restore_seconds", "Time in which the engine read a KV state."),
		httpCalls:  prometheus.NewCounterVec(prometheus.CounterOpts(opts("http_requests_total", "Requests to the worker's HTTP API.")), []string{"path", "code"}),
		engineUp:   prometheus.NewGauge(prometheus.GaugeOpts(opts("engine_up", "1 if the engine answers and has the model loaded."))),
		slotsTotal: gauge("slots", "Requests the worker runs at once.", g.Slots),
		slotsBusy:  gauge("slots_busy", "Slots in use now.", g.Busy),
	}
	if f := g.States; f != nil {
		m.registry.MustRegister(
			gauge("states_held", "KV states that wait to be fetched.", func() int { n, _ := f(); return n }),
			gauge("states_held_bytes", "Bytes of KV states that wait to be fetched.", func() int { _, n := f(); return int(n) }),
		)
	}
	if g.StoppedPairs != nil {
		m.registry.MustRegister(gauge("handover_pairs_stopped", "Machines from which no KV states are taken, until an operator clears it.", g.StoppedPairs))
	}
	m.registry.MustRegister(m.tasks, m.seconds, m.waited, m.prompt, m.generated, m.slow, m.httpCalls, m.engineUp, m.slotsTotal, m.slotsBusy,
		m.handovers, m.moved, m.states, m.rebuilt, m.saving, m.moving, m.restoring,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the metrics in Prometheus' text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Task counts one delivery that ran for d. Outcome is hop, a result's status, or the code of an error.
func (m *Metrics) Task(t *protocol.Task, d time.Duration, o protocol.Outcome, err error) {
	outcome := "hop"
	switch {
	case err != nil:
		outcome = string(jobs.CodeOf(err))
	case o.Result != nil:
		outcome = string(o.Result.Status)
	}
	stage := string(t.Stage)
	m.tasks.WithLabelValues(stage, outcome).Inc()
	m.seconds.WithLabelValues(stage).Observe(d.Seconds())
	m.waited.WithLabelValues(stage).Observe(t.Waited.Seconds())
	if r := o.Result; r != nil && r.Timings.TransferSeconds > protocol.SlowTransferAfter.Seconds() {
		m.slow.Inc()
	}
	if o.Next != nil && o.Next.Prefill != nil {
		m.promptTokens(o.Next.Prefill.CachedTokens, o.Next.Prefill.ComputedTokens)
	}
	if r := o.Result; r != nil && r.Handover != nil && r.Handover.Failure == "" {
		m.handovers.WithLabelValues("used").Inc()
	}
	if r := o.Result; r != nil {
		if r.Method == jobs.MethodDisaggregated {
			m.promptTokens(r.Usage.DecodeCached, r.Usage.DecodeComputed)
		} else {
			m.promptTokens(r.Usage.PrefillCached, r.Usage.PrefillComputed)
		}
		m.generated.Add(float64(r.Usage.GeneratedTokens))
	}
}

func (m *Metrics) promptTokens(cached, computed int) {
	m.prompt.WithLabelValues("cached").Add(float64(cached))
	m.prompt.WithLabelValues("computed").Add(float64(computed))
}

// Event counts what happens to KV states.
func (m *Metrics) Event(e *jobs.Event) {
	switch e.Type {
	case jobs.EventSaved:
		m.saving.Observe(e.Seconds)
	case jobs.EventFetched:
		m.states.Add(float64(e.Bytes))
		m.moved.Add(float64(e.MovedBytes))
		m.moving.Observe(e.Seconds)
		if e.Rebuilt {
			m.rebuilt.WithLabelValues("used").Inc()
		}
		if e.RebuildLost {
			m.rebuilt.WithLabelValues("failed").Inc()
		}
	case jobs.EventRestored:
		m.restoring.Observe(e.Seconds)
	case jobs.EventHandoverFailed:
		m.handovers.WithLabelValues(string(e.Failure)).Inc()
	}
}

// HTTP counts one request to the HTTP API; path is one of its routes.
func (m *Metrics) HTTP(path string, code int) {
	m.httpCalls.WithLabelValues(path, strconv.Itoa(code)).Inc()
}

// EngineUp says whether the engine can work.
func (m *Metrics) EngineUp(up bool) {
	v := 0.0
	if up {
		v = 1
	}
	m.engineUp.Set(v)
}
