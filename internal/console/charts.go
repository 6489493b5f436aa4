package console

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"tandem/internal/units"
	"tandem/jobs"
)

const (
	stepTime  = 10 * time.Second
	stepsKept = 360        // an hour
	averageOf = 6          // steps: each point of a rate is the mean of a minute
	mostOnce  = 10_000_000 // tokens of which one event can tell
	rowsShown = 30         // in the table, each of a minute
	hour      = stepsKept * stepTime
)

// step is what happened in ten seconds, and what waited and ran at their end.
type step struct{ ended, generated, computed, waiting, running int }

// history is the last hour, step by step.
type history struct {
	steps            [stepsKept]step
	first, last      int64 // numbers of steps since 1970
	waiting, running int
}

// at is the step of a moment that is not before the one that was asked for last.
func (h *history) at(now time.Time) *step {
	n := now.UnixNano() / int64(stepTime)
	if h.first == 0 {
		h.first, h.last = n, n-1
	}
	h.last = max(h.last, n-stepsKept)
	for ; h.last < n; h.last++ {
		h.steps[(h.last+1)%stepsKept] = step{waiting: h.waiting, running: h.running}
	}
	return &h.steps[h.last%stepsKept]
}

// load notes what waits and runs now.
func (h *history) load(now time.Time, waiting, running int) {
	s := h.at(now)
	h.waiting, h.running = waiting, running
	s.waiting, s.running = waiting, running
}

// said are the tokens of which a request's events have told so far.
type said struct{ generated, computed int }

// add notes what of an event is new, beside what those before it said.
func (h *history) add(now time.Time, e *jobs.Event, before *said) {
	s := h.at(now)
	more := func(sum, before *int, total int) {
		total = min(total, mostOnce)
		*sum += max(0, total-*before)
		*before = max(*before, total)
	}
	switch e.Type {
	case jobs.EventPrefillDone:
		more(&s.computed, &before.computed, e.Tokens)
	case jobs.EventProgress:
		more(&s.generated, &before.generated, e.Tokens)
	case jobs.EventEnded:
		if s.ended++; e.Usage != nil {
			more(&s.generated, &before.generated, e.Usage.GeneratedTokens)
			more(&s.computed, &before.computed, min(e.Usage.PrefillComputed, mostOnce)+min(e.Usage.DecodeComputed, mostOnce))
		}
	}
}

// chart is a picture of the last hour, as charts.js draws it, and in words.
type chart struct {
	Name, Unit string
	Now, Most  string // with all lines added up
	Lines      []string
	Data       string // JSON
	Says       string
}

// chartRow is a minute of all charts.
type chartRow struct{ Ago, Requests, Waiting, Running, Generated, Computed string }

type charts struct {
	All  []chart
	Rows []chartRow
}

// mean is what a rate was over the minute that ends with a step, so many times a second, and at the last step with this moment.
func (h *history) mean(now time.Time, n int64, of func(step) int) float64 {
	sum, from := 0, max(n-averageOf+1, h.first, h.last-stepsKept+1)
	for i := from; i <= n; i++ {
		sum += of(h.steps[i%stepsKept])
	}
	took := time.Duration(averageOf) * stepTime
	if n == h.last {
		took += now.Sub(time.Unix(0, (n+1)*int64(stepTime)))
	}
	return float64(sum) / max(took, stepTime).Seconds()
}

// draw makes the charts of this moment.
func (h *history) draw(now time.Time) charts {
	h.at(now)
	from := max(h.first, h.last-stepsKept+1)
	perMinute := func(n int64) float64 { return 60 * h.mean(now, n, func(s step) int { return s.ended }) }
	generated := func(n int64) float64 { return h.mean(now, n, func(s step) int { return s.generated }) }
	computed := func(n int64) float64 { return h.mean(now, n, func(s step) int { return s.computed }) }
	waiting := func(n int64) float64 { return float64(h.steps[n%stepsKept].waiting) }
	running := func(n int64) float64 { return float64(h.steps[n%stepsKept].running) }
	one := func(name, unit string, lines []string, values ...func(int64) float64) chart {
		most, last, data := 0.0, 0.0, make([][]float64, len(values))
		for n := from; n <= h.last; n++ {
			last = 0
			for i, value := range values {
				v := rounded(value(n))
				data[i], last = append(data[i], v), last+v
			}
			most = max(most, last)
		}
		text, _ := json.Marshal(struct { // numbers, which JSON has all of
			From, Step, Span int64
			Values           [][]float64
		}{from * int64(stepTime/time.Second), int64(stepTime / time.Second), int64(hour / time.Second), data})
		c := chart{Name: name, Unit: unit, Now: figure(last), Most: figure(most), Lines: lines, Data: string(text)}
		c.Says = fmt.Sprintf("%s over the last hour: now %s %s, at most %s", c.Name, c.Now, c.Unit, c.Most)
		return c
	}
	drawn := charts{All: []chart{
		one("Requests ended", "a minute", nil, perMinute),
		one("Requests in the system", "requests", []string{"waiting", "running"}, waiting, running),
		one("Text generated", "tok/s", nil, generated),
		one("Prompts computed", "tok/s", nil, computed),
	}}
	for i, n := 0, h.last; i < rowsShown && n >= from; i, n = i+1, n-averageOf {
		row := chartRow{"now", figure(perMinute(n)), figure(waiting(n)), figure(running(n)), figure(generated(n)), figure(computed(n))}
		if i > 0 {
			row.Ago = fmt.Sprintf("%d min ago", i)
		}
		drawn.Rows = append(drawn.Rows, row)
	}
	return drawn
}

// rounded is a figure with one digit behind the point where that matters.
func rounded(v float64) float64 {
	if v < 10 {
		return math.Round(v*10) / 10
	}
	return math.Round(v)
}

func figure(v float64) string {
	if v = rounded(v); v < 10 && v != math.Trunc(v) {
		return fmt.Sprintf("%.1f", v)
	}
	return units.Count(int(v))
}
