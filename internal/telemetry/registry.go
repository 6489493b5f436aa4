package telemetry

import (
	"net/http"
	"runtime"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tandem/internal/protocol"
)

// registry makes the metrics of one service, as the table has them.
type registry struct {
	*prometheus.Registry
	service Service
	model   string // of a worker
	made    []string
}

// newRegistry returns the metrics of a service that all have.
func newRegistry(s Service, model, version string) *registry {
	r := &registry{Registry: prometheus.NewRegistry(), service: s, model: model}
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m, labels := r.metric("tandem_build_info")
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help, ConstLabels: labels}, m.names())
	info.WithLabelValues(version, runtime.Version()).Set(1)
	r.MustRegister(info)
	return r
}

// handler serves the metrics in Prometheus' text format. That all of the table are there is sure from the start.
func (r *registry) handler() http.Handler {
	for _, m := range Metrics() {
		if slices.Contains(m.At, r.service) && !slices.Contains(r.made, m.Name) {
			panic("metric " + m.Name + " is in the table, and nobody counts it") // a bug
		}
	}
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// metric finds a metric in the table, and the labels that it always has.
func (r *registry) metric(name string) (Metric, prometheus.Labels) {
	for _, m := range Metrics() {
		if m.Name != name || !slices.Contains(m.At, r.service) {
			continue
		}
		r.made = append(r.made, name)
		return m, m.Always(r.service, r.model)
	}
	panic("metric " + name + " of " + string(r.service) + " is not in the table") // a bug
}

// Always are the labels that a metric has at a service, whatever it counts, and their values.
func (m Metric) Always(s Service, model string) map[string]string {
	labels := map[string]string{"role": string(s)}
	name := "model"
	if m.genAI() {
		labels, name = map[string]string{"gen_ai_provider_name": protocol.Provider}, "gen_ai_request_model"
	}
	if s != Gateway {
		labels[name] = model
	}
	return labels
}

// genAI reports whether a metric has its name and labels from OpenTelemetry's conventions.
func (m Metric) genAI() bool { return m.Name[:7] == "gen_ai_" }

func (m Metric) names() []string {
	var list []string
	for _, l := range m.Labels {
		list = append(list, l.Name)
	}
	return list
}

// mostZeros is up to how many series of a metric are there from the start, so that rates know when they begin.
const mostZeros = 32

// zeros calls f with each combination of labels, unless there are too many or they are not known.
func (m Metric) zeros(f func(values ...string)) {
	list := [][]string{nil}
	for _, l := range m.Labels {
		var longer [][]string
		for _, values := range list {
			for _, v := range l.Values {
				longer = append(longer, append(slices.Clone(values), v))
			}
		}
		list = longer
	}
	if len(list) <= mostZeros {
		for _, values := range list {
			f(values...)
		}
	}
}

// counters are the series of a counter.
type counters struct {
	m   Metric
	vec *prometheus.CounterVec
}

func (r *registry) counter(name string) counters {
	m, labels := r.metric(name)
	c := counters{m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help, ConstLabels: labels}, m.names())}
	m.zeros(func(values ...string) { c.add(0, values...) })
	r.MustRegister(c.vec)
	return c
}

func (c counters) add(n float64, values ...string) {
	c.vec.WithLabelValues(c.m.closed(values)...).Add(n)
}

// histograms are the series of a histogram.
type histograms struct {
	m   Metric
	vec *prometheus.HistogramVec
}

func (r *registry) histogram(name string) histograms {
	m, labels := r.metric(name)
	h := histograms{m, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, ConstLabels: labels, Buckets: m.Buckets}, m.names())}
	m.zeros(func(values ...string) { h.vec.WithLabelValues(values...) })
	r.MustRegister(h.vec)
	return h
}

func (h histograms) observe(v float64, values ...string) {
	h.vec.WithLabelValues(h.m.closed(values)...).Observe(v)
}

// other stands for what is not in the table: a record of another version may say anything.
const other = "other"

func (m Metric) closed(values []string) []string {
	for i, v := range values {
		if set := m.Labels[i].Values; set != nil && !slices.Contains(set, v) {
			values[i] = other
		}
	}
	return values
}

// gauge is read when the metrics are; so is a counter of this kind.
func (r *registry) gauge(name string, f func() float64) {
	m, labels := r.metric(name)
	if m.Kind == Counter {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: m.Name, Help: m.Help, ConstLabels: labels}, f))
		return
	}
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: m.Name, Help: m.Help, ConstLabels: labels}, f))
}
