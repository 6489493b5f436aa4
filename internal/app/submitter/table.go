package submitter

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"tandem/internal/engine"
	"tandem/internal/jobs"
)

// baseline names what a batch's speed-up is measured against.
const baseline = "the same jobs one after another, each computing as long as it did here and waiting for nothing"

// report is what a batch came to: the requirement's metrics per model, merged, and the speed-up.
// Tokens and seconds of a model are sums over its succeeded jobs.
type report struct {
	Batch             string        `json:"batch"`
	Jobs              int           `json:"jobs"`
	Succeeded         int           `json:"succeeded"`
	Failed            int           `json:"failed"` // also cancelled and expired ones
	Models            []modelReport `json:"models"`
	WallSeconds       float64       `json:"wall_seconds"`
	SequentialSeconds float64       `json:"sequential_seconds"`
	SpeedUp           float64       `json:"speed_up"`
	Baseline          string        `json:"baseline"`
	JobsPerMinute     float64       `json:"jobs_per_minute"`
	TokensPerSecond   float64       `json:"generated_tokens_per_second"`
	Warnings          []string      `json:"warnings,omitempty"` // of the jobs, each once, with how many had it

	models   map[string]*modelReport
	warnings map[string]int // how many jobs had it
	longest  float64        // seconds from accepted to finished of the slowest job
}

// modelReport is one row: a model's jobs of a batch.
type modelReport struct {
	Model                  string               `json:"model"`
	Jobs                   int                  `json:"jobs"`
	Succeeded              int                  `json:"succeeded"`
	Methods                map[jobs.Method]int  `json:"methods"` // jobs by the way they went
	PromptTokens           int                  `json:"prompt_tokens"`
	PrefillCached          int                  `json:"prefill_cached"`
	PrefillComputed        int                  `json:"prefill_computed"`
	HandedOver             int                  `json:"handed_over"`
	DecodeCached           int                  `json:"decode_cached"`
	DecodeComputed         int                  `json:"decode_computed"`
	GeneratedTokens        int                  `json:"generated_tokens"`
	States                 int                  `json:"states"`                      // KV states that were handed over and used
	StateBytes             int64                `json:"state_bytes"`                 // of these
	HandoverFailures       map[jobs.Failure]int `json:"handover_failures,omitempty"` // jobs whose prompt was computed again, by reason
	PrefillSeconds         float64              `json:"prefill_seconds"`
	PrefillTokensPerSecond float64              `json:"prefill_tokens_per_second"`
	SaveSeconds            float64              `json:"save_seconds"`
	TransferSeconds        float64              `json:"transfer_seconds"`
	RestoreSeconds         float64              `json:"restore_seconds"` // reading the state and checking it
	DecodePrefillSeconds   float64              `json:"decode_prefill_seconds"`
	DecodeSeconds          float64              `json:"decode_seconds"`
	DecodeTokensPerSecond  float64              `json:"decode_tokens_per_second"`
	TotalSeconds           float64              `json:"total_seconds"` // of computing and transfer, without waiting
}

// newReport returns the report of a batch without any job yet.
func newReport(batch string) *report {
	return &report{Batch: batch, Baseline: baseline, models: map[string]*modelReport{}, warnings: map[string]int{}}
}

// add counts a job that has ended.
func (rep *report) add(r *jobs.Result) {
	m := rep.models[r.Model]
	if m == nil {
		m = &modelReport{Model: r.Model, Methods: map[jobs.Method]int{}, HandoverFailures: map[jobs.Failure]int{}}
		rep.models[r.Model] = m
	}
	m.add(r)
	rep.Jobs++
	if r.Status == jobs.Succeeded {
		rep.Succeeded++
	} else {
		rep.Failed++
	}
	for _, w := range r.Warnings {
		rep.warnings[w]++
	}
	rep.longest = max(rep.longest, r.Timings.TotalSeconds)
}

// sum fills in what follows from all jobs. wall is the time from the first submission to the last
// result; if it is zero, not all of them having been seen, the longest of the jobs stands for it.
func (rep *report) sum(wall time.Duration) {
	rep.WallSeconds = wall.Seconds()
	if wall == 0 {
		rep.WallSeconds = rep.longest
	}
	generated := 0
	for _, name := range slices.Sorted(maps.Keys(rep.models)) {
		m := rep.models[name]
		m.PrefillTokensPerSecond = perSecond(m.PrefillComputed, m.PrefillSeconds)
		m.DecodeTokensPerSecond = perSecond(m.GeneratedTokens, m.DecodeSeconds)
		generated += m.GeneratedTokens
		rep.SequentialSeconds += m.TotalSeconds
		rep.Models = append(rep.Models, *m)
	}
	if rep.WallSeconds > 0 {
		rep.SpeedUp = rep.SequentialSeconds / rep.WallSeconds
		rep.JobsPerMinute = float64(rep.Succeeded) / rep.WallSeconds * 60
		rep.TokensPerSecond = perSecond(generated, rep.WallSeconds)
	}
	for _, w := range slices.Sorted(maps.Keys(rep.warnings)) {
		rep.Warnings = append(rep.Warnings, fmt.Sprintf("%s (%d of %d jobs)", w, rep.warnings[w], rep.Jobs))
	}
}

func (m *modelReport) add(r *jobs.Result) {
	m.Jobs++
	if r.Status != jobs.Succeeded {
		return
	}
	u, t := r.Usage, r.Timings
	m.Succeeded++
	m.Methods[r.Method]++
	m.PromptTokens += u.PromptTokens
	m.PrefillCached += u.PrefillCached
	m.PrefillComputed += u.PrefillComputed
	m.HandedOver += u.HandedOver
	m.DecodeCached += u.DecodeCached
	m.DecodeComputed += u.DecodeComputed
	m.GeneratedTokens += u.GeneratedTokens
	m.PrefillSeconds += t.PrefillSeconds
	m.SaveSeconds += t.SaveSeconds
	m.TransferSeconds += t.TransferSeconds
	m.RestoreSeconds += t.RestoreSeconds + t.CheckSeconds
	m.DecodePrefillSeconds += t.DecodePrefillSeconds
	m.DecodeSeconds += t.DecodeSeconds
	m.TotalSeconds += t.PrefillSeconds + t.SaveSeconds + t.TransferSeconds + t.RestoreSeconds + t.CheckSeconds + t.DecodePrefillSeconds + t.DecodeSeconds
	if h := r.Handover; h != nil && h.Failure != "" {
		m.HandoverFailures[h.Failure]++
	} else if h != nil {
		m.States++
		m.StateBytes += h.Bytes
	}
}

func perSecond(tokens int, seconds float64) float64 {
	return engine.PerSecond(tokens, time.Duration(seconds*float64(time.Second)))
}

// writeTo prints the report for a person.
func (rep *report) writeTo(w io.Writer) error {
	var text strings.Builder
	rep.writeSpeeds(&text)
	rep.writePrompts(&text)
	for _, m := range rep.Models {
		for _, method := range []jobs.Method{jobs.MethodDisaggregated, jobs.MethodLocal, jobs.MethodFallback} {
			if n := m.Methods[method]; n > 0 {
				fmt.Fprintf(&text, "%s: %d %s\n", m.Model, n, method)
			}
		}
		for _, f := range slices.Sorted(maps.Keys(m.HandoverFailures)) {
			fmt.Fprintf(&text, "%s: %d re-prefilled on the decode machine (%s)\n", m.Model, m.HandoverFailures[f], f)
		}
	}
	for _, warning := range rep.Warnings {
		fmt.Fprintf(&text, "warning: %s\n", warning)
	}
	fmt.Fprintf(&text, "combined: %d of %d jobs succeeded in %s (%.1f jobs/min, %s generated)\n",
		rep.Succeeded, rep.Jobs, secs(rep.WallSeconds), rep.JobsPerMinute, rate(rep.TokensPerSecond))
	fmt.Fprintf(&text, "sequential: %s, so %.2f× as fast\n  baseline: %s\n", secs(rep.SequentialSeconds), rep.SpeedUp, rep.Baseline)
	_, err := io.WriteString(w, inert(text.String()))
	return err
}

// writeSpeeds prints the table of tokens and seconds.
func (rep *report) writeSpeeds(w *strings.Builder) {
	t := rep.table(w, "jobs", "in tok", "prefill s", "tok/s", "hand-over s", "again s", "out tok", "decode s", "tok/s", "total s")
	for _, m := range rep.Models {
		t.row(m.Model, fmt.Sprintf("%d/%d", m.Succeeded, m.Jobs), fmt.Sprint(m.PromptTokens), figure(m.PrefillSeconds), figure(m.PrefillTokensPerSecond),
			figure(m.SaveSeconds+m.TransferSeconds+m.RestoreSeconds), figure(m.DecodePrefillSeconds),
			fmt.Sprint(m.GeneratedTokens), figure(m.DecodeSeconds), figure(m.DecodeTokensPerSecond), figure(m.TotalSeconds))
	}
	t.flush("(sums over the jobs; again: prompt computed on the decode machine after a prefill elsewhere)")
}

// writePrompts prints the table of what became of the prompts' tokens.
func (rep *report) writePrompts(w *strings.Builder) {
	t := rep.table(w, "prompt tok", "cached", "computed", "handed over", "computed again", "states", "size")
	for _, m := range rep.Models {
		t.row(m.Model, fmt.Sprint(m.PromptTokens), fmt.Sprint(m.PrefillCached), fmt.Sprint(m.PrefillComputed), fmt.Sprint(m.HandedOver),
			fmt.Sprint(m.DecodeComputed), fmt.Sprint(m.States), size(uint64(m.StateBytes)))
	}
	t.flush("(cached and computed where the prompt was processed first; handed over as KV state; computed again on the decode machine)")
}

// modelTable has one row for each model.
type modelTable struct {
	w     *strings.Builder
	tabs  *tabwriter.Writer
	width int // of a model's name
}

func (rep *report) table(w *strings.Builder, columns ...string) *modelTable {
	t := &modelTable{w: w, tabs: tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight), width: len("model")}
	for _, m := range rep.Models {
		t.width = max(t.width, utf8.RuneCountInString(m.Model))
	}
	t.row("model", columns...)
	return t
}

func (t *modelTable) row(model string, cells ...string) {
	fmt.Fprintf(t.tabs, "%-*s\t%s\t\n", t.width, model, strings.Join(cells, "\t"))
}

// flush ends the table with a note. Writing to a [strings.Builder] cannot fail.
func (t *modelTable) flush(note string) {
	_ = t.tabs.Flush()
	fmt.Fprintf(t.w, "%s\n\n", note)
}
