package grader

import (
	"slices"
	"time"

	"tandem/internal/batchstats"
	"tandem/internal/grader/report"
	"tandem/jobs"
)

// metrics are the figures of all answers of a grading, those of earlier runs as well.
type metrics struct {
	results []*jobs.Result // without their texts
	spans   []span         // while each was out
}

// span is the time from asking to the answer, on this machine's clock.
type span struct{ from, to time.Time }

func (m *metrics) add(a *attempt, r *jobs.Result) {
	light := *r
	light.Text, light.Thinking = "", ""
	m.results = append(m.results, &light)
	m.spans = append(m.spans, span{a.At, a.answer.At})
}

// report adds all up. Its wall time is the time in which at least one request was out: not that between two runs, unless requests were out then.
func (m *metrics) report(batch string) *batchstats.Report {
	t := batchstats.New(batch)
	for _, r := range m.results {
		t.Add(r)
	}
	t.Sum(busy(m.spans))
	return t
}

// busy is how long the union of the spans is.
func busy(spans []span) time.Duration {
	spans = slices.SortedFunc(slices.Values(spans), func(a, b span) int { return a.from.Compare(b.from) })
	var total time.Duration
	var until time.Time
	for _, s := range spans {
		if s.from.Before(until) {
			s.from = until
		}
		if s.to.After(s.from) {
			total += s.to.Sub(s.from)
			until = s.to
		}
	}
	return total
}

// prefixes says per model what became of its prompts.
func (m *metrics) prefixes() []report.Prefix {
	byModel := map[string]*report.Prefix{}
	for _, r := range m.results {
		if r.Status != jobs.Succeeded {
			continue
		}
		p := byModel[r.Model]
		if p == nil {
			p = &report.Prefix{Model: r.Model}
			byModel[r.Model] = p
		}
		p.Jobs++
		p.Tokens += r.Usage.PromptTokens
		p.Computed += r.Usage.PrefillComputed
		p.Cached += r.Usage.PrefillCached
	}
	var list []report.Prefix
	for _, model := range sortedKeys(byModel) {
		list = append(list, *byModel[model])
	}
	return list
}

// pair is the seconds of a submission's two requests, one after the other and side by side; ok is false if there are not two, or if they were not made side by side,
// as one Ollama by itself does not.
func pair(s *report.Student) (sequential, parallel float64, ok bool) {
	if s.Code == nil || s.Feedback == nil || s.Code.Method == jobs.MethodDirect || s.Feedback.Method == jobs.MethodDirect {
		return 0, 0, false
	}
	a, b := batchstats.Computing(s.Code.Timings), batchstats.Computing(s.Feedback.Timings)
	return a + b, max(a, b), a > 0 && b > 0
}

func speedUp(sequential, parallel float64) float64 {
	if parallel == 0 {
		return 0
	}
	return sequential / parallel
}
