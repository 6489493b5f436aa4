package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tandem/client/admin"
	"tandem/internal/batchstats"
	"tandem/internal/protocol"
	"tandem/internal/units"
	"tandem/jobs"
)

const (
	lastShown = 10               // requests in the table
	averaged  = 50               // of a model, for its card
	spell     = 10 * time.Second // without any request ends what is summed up as one piece of work
)

// overview is the answer to: is all well, and how is it coming along?
type overview struct {
	Tone   tone
	Words  string // in one sentence
	Faults []string
	Models []modelCard
	Whole  whole
	Rows   []workerRow
	Last   []lastRow
	Charts charts
	Lanes  lanesPart
}

// modelCard has means over the last requests of a model.
type modelCard struct {
	Model            string
	Requests         int
	Waiting, Running int
	Prefill, Decode  float64 // seconds
	PrefillRate      float64 // tokens a second
	DecodeRate       float64
	Total            float64 // seconds, with what it waited
}

// whole sums up the last piece of work: requests between which there was no pause.
type whole struct {
	Requests        int
	Took            time.Duration
	SpeedUp         float64
	Baseline        string
	JobsPerMinute   float64
	TokensPerSecond float64
	Waiting         int
	Left            string // until what waits is done; empty if nothing does, or if it is not known
}

type workerRow struct {
	Machine, Role, Model, Engine, Address string
	Health                                chip
	Problem                               string
	Busy, Slots                           int
	Seen                                  time.Time
	Gone                                  bool
}

type lastRow struct {
	Number  int
	Model   string
	Seconds float64
	Outcome chip
	Method  jobs.Method
	Rates   string // prefill→decode
}

// overview draws the picture of this moment.
func (w *watch) overview(now time.Time) overview {
	w.mu.Lock()
	defer w.mu.Unlock()
	var o overview
	o.Models = w.cards()
	waiting, running := 0, 0
	for _, m := range o.Models {
		waiting, running = waiting+m.Waiting, running+m.Running
	}
	o.Whole = w.whole(waiting + running)
	o.Lanes = lanesPart{For: units.Roughly(lanesSpan), Width: laneCells, Doings: doings[:]}
	for _, one := range slices.SortedFunc(maps.Values(w.workers), func(a, b worker) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(b.Role, a.Role), cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.Worker, b.Worker)) // prefill comes first
	}) {
		o.Rows = append(o.Rows, rowOf(one))
		o.Lanes.Rows = append(o.Lanes.Rows, w.lanes.draw(now, one, w.since))
	}
	o.Charts = w.history.draw(now)
	for _, r := range slices.Backward(w.ended[max(0, len(w.ended)-lastShown):]) {
		o.Last = append(o.Last, lastRow{r.Number, r.Model, r.Timings.TotalSeconds, statusChips[r.Status], r.Method, rates(r)})
	}
	o.sum(w.problem, running, waiting)
	return o
}

// rates are the speeds of both phases of a request.
func rates(r request) string {
	return rate(r.Timings.PrefillTokensPerSecond) + " → " + rate(r.Timings.DecodeTokensPerSecond) + " tok/s"
}

// cards has one for each model that is known to the queue, or has had a worker. The lock must be held.
func (w *watch) cards() (list []modelCard) {
	cards := map[string]*modelCard{}
	card := func(model string) *modelCard {
		if cards[model] == nil {
			cards[model] = &modelCard{Model: model}
		}
		return cards[model]
	}
	for _, m := range w.models {
		c := card(m.Model)
		for _, class := range m.Classes {
			c.Waiting += class.Prefill.Waiting + class.Decode.Waiting
			c.Running += class.Prefill.InFlight + class.Decode.InFlight
		}
	}
	for _, worker := range w.workers {
		card(worker.Model)
	}
	type sums struct{ prefilled, generated int }
	sum := map[string]*sums{}
	for _, r := range slices.Backward(w.ended) {
		c := cards[r.Model]
		if c == nil || r.Status != jobs.Succeeded || c.Requests == averaged {
			continue
		}
		if sum[r.Model] == nil {
			sum[r.Model] = &sums{}
		}
		c.Requests++
		sum[r.Model].prefilled += r.Usage.PrefillComputed
		sum[r.Model].generated += r.Usage.GeneratedTokens
		c.Prefill += r.Timings.PrefillSeconds
		c.Decode += r.Timings.DecodeSeconds
		c.Total += r.Timings.TotalSeconds
	}
	for _, model := range slices.Sorted(maps.Keys(cards)) {
		c := *cards[model]
		if n := float64(c.Requests); n > 0 {
			if c.Prefill > 0 {
				c.PrefillRate = float64(sum[model].prefilled) / c.Prefill
			}
			if c.Decode > 0 {
				c.DecodeRate = float64(sum[model].generated) / c.Decode
			}
			c.Prefill, c.Decode, c.Total = c.Prefill/n, c.Decode/n, c.Total/n
		}
		list = append(list, c)
	}
	return list
}

// whole sums up the last piece of work, with so much left to do. The lock must be held.
func (w *watch) whole(left int) whole {
	report := batchstats.New("")
	var first, last time.Time
	for _, r := range slices.Backward(w.ended) {
		if !first.IsZero() && first.Sub(r.FinishedAt) > spell {
			break
		}
		if last.IsZero() {
			last = r.FinishedAt
		}
		if first.IsZero() || r.Accepted.Before(first) {
			first = r.Accepted
		}
		report.Add(&r.Result)
	}
	report.Sum(last.Sub(first))
	all := whole{
		Requests: report.Jobs, Took: last.Sub(first), SpeedUp: report.SpeedUp, Baseline: report.Baseline, JobsPerMinute: report.JobsPerMinute, TokensPerSecond: report.TokensPerSecond,
		Waiting: left,
	}
	if all.Waiting > 0 && all.JobsPerMinute > 0 && all.Requests >= 3 {
		all.Left = units.Roughly(time.Duration(float64(all.Waiting) / all.JobsPerMinute * float64(time.Minute)))
	}
	return all
}

// rowOf is a worker as the table of servers has it.
func rowOf(w worker) workerRow {
	r := workerRow{
		Machine: w.Machine, Role: string(w.Role), Model: w.Model, Engine: strings.TrimSpace(w.Engine + " " + w.EngineVersion), Address: cmp.Or(w.HTTP, "–"),
		Busy: w.Busy, Slots: w.Slots, Seen: w.seen, Gone: w.gone, Problem: w.Problem,
	}
	switch {
	case w.gone:
		r.Health = chip{bad, "✕", "gone"}
	case w.State == admin.StateDown:
		r.Health = chip{bad, "✕", "down"}
	case w.State == admin.StateDraining:
		r.Health = chip{warn, "●", "stopping"}
	case w.State != admin.StateReady:
		r.Health = chip{warn, "●", "loading"}
	case len(w.StoppedPairs) > 0:
		r.Health, r.Problem = chip{warn, "●", "degraded"}, "takes no KV states from "+strings.Join(w.StoppedPairs, ", ")+" until an operator clears it"
	default:
		r.Health = chip{good, "✓", "healthy"}
	}
	return r
}

// sum says in one sentence how things are, and what is wrong.
func (o *overview) sum(problem string, running, waiting int) {
	healthy := 0
	serving := map[string]map[string]bool{}
	for _, r := range o.Rows {
		if r.Health.Word == "healthy" {
			healthy++
		} else {
			why := r.Health.Word
			if r.Problem != "" {
				why += ": " + r.Problem
			}
			o.Faults = append(o.Faults, fmt.Sprintf("the %s worker of %s on %s is %s", r.Role, r.Model, r.Machine, why))
		}
		if serving[r.Model] == nil {
			serving[r.Model] = map[string]bool{}
		}
		serving[r.Model][r.Role] = serving[r.Model][r.Role] || !r.Gone && r.Health.Tone != bad
	}
	o.Tone = good
	for _, m := range o.Models {
		switch roles := serving[m.Model]; {
		case !roles[string(protocol.RoleDecode)]:
			o.Tone = bad
			o.Faults = append(o.Faults, "nobody generates for "+m.Model+": its requests wait")
		case !roles[string(protocol.RolePrefill)]:
			o.Faults = append(o.Faults, "nobody prefills for "+m.Model+": its requests run on the decode machine alone, slower")
		}
	}
	if problem != "" {
		o.Tone = bad
		o.Faults = append(o.Faults, "it is not known who works: "+problem)
	}
	if len(o.Faults) > 0 && o.Tone == good {
		o.Tone = warn
	}
	state := map[tone]string{good: "All is well", warn: "Works, but not as it should", bad: "Needs somebody"}[o.Tone]
	if len(o.Rows) == 0 && problem == "" {
		o.Tone, state = bad, "No worker has been seen"
	}
	o.Words = fmt.Sprintf("%s: %s healthy, %s running, %s waiting.", state, count(healthy, "worker", "workers"), count(running, "request", "requests"), count(waiting, "request", "requests"))
}

// none stands for a figure that there is not.
const none = "–"

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return units.Count(n) + " " + many
}

func seconds(s float64) string {
	if s <= 0 {
		return none
	}
	return units.Seconds(s)
}

func rate(perSecond float64) string {
	switch {
	case perSecond <= 0:
		return none
	case perSecond < 10:
		return fmt.Sprintf("%.1f", perSecond)
	}
	return units.Count(int(perSecond + 0.5))
}

// ago is how long a moment is past, in steps that do not make a page change each second.
func ago(t time.Time) string {
	switch d := time.Since(t); {
	case d < 10*time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds())/10*10)
	default:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	}
}

func speed(bytesPerSecond float64) string {
	if bytesPerSecond <= 0 {
		return none
	}
	return units.Bytes(int64(bytesPerSecond)) + "/s"
}

// signed is a difference in seconds, which may be below 0.
func signed(s float64) string {
	if s < 0 {
		return "−" + units.Seconds(-s)
	}
	return units.Seconds(s)
}
