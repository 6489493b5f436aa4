package submitter

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"tandem/internal/batchstats"
	"tandem/internal/sanitize"
	"tandem/internal/units"
	"tandem/jobs"
)

// batchReport prints what a batch came to.
type batchReport struct{ *batchstats.Report }

// writeTo prints the report for a person.
func (rep batchReport) writeTo(w io.Writer) error {
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
		fmt.Fprintf(&text, "warning: %s\n", cell(warning))
	}
	fmt.Fprintf(&text, "combined: %d of %d jobs succeeded in %s (%.1f jobs/min, %s generated)\n",
		rep.Succeeded, rep.Jobs, secs(rep.WallSeconds), rep.JobsPerMinute, rate(rep.TokensPerSecond))
	fmt.Fprintf(&text, "sequential: %s, so %.2f× as fast\n  baseline: %s\n", secs(rep.SequentialSeconds), rep.SpeedUp, rep.Baseline)
	_, err := io.WriteString(w, sanitize.Text(text.String()))
	return err
}

// writeSpeeds prints the table of tokens and seconds.
func (rep batchReport) writeSpeeds(w *strings.Builder) {
	t := rep.table(w, "jobs", "in tok", "prefill s", "tok/s", "hand-over s", "again s", "out tok", "decode s", "tok/s", "total s")
	for _, m := range rep.Models {
		t.row(m.Model, fmt.Sprintf("%d/%d", m.Succeeded, m.Jobs), fmt.Sprint(m.PromptTokens), figure(m.PrefillSeconds), figure(m.PrefillTokensPerSecond),
			figure(m.SaveSeconds+m.TransferSeconds+m.RestoreSeconds), figure(m.DecodePrefillSeconds),
			fmt.Sprint(m.GeneratedTokens), figure(m.DecodeSeconds), figure(m.DecodeTokensPerSecond), figure(m.TotalSeconds))
	}
	t.flush("(sums over the jobs; again: prompt computed on the decode machine after a prefill elsewhere)")
}

// writePrompts prints the table of what became of the prompts' tokens.
func (rep batchReport) writePrompts(w *strings.Builder) {
	t := rep.table(w, "prompt tok", "cached", "computed", "handed over", "computed again", "states", "size", "moved")
	for _, m := range rep.Models {
		t.row(m.Model, fmt.Sprint(m.PromptTokens), fmt.Sprint(m.PrefillCached), fmt.Sprint(m.PrefillComputed), fmt.Sprint(m.HandedOver),
			fmt.Sprint(m.DecodeComputed), fmt.Sprint(m.States), units.Bytes(uint64(m.StateBytes)), units.Bytes(uint64(m.MovedBytes)))
	}
	t.flush("(cached and computed where the prompt was processed first; handed over as KV state; moved: what of it the decode machine did not have; computed again on the decode machine)")
}

// modelTable has one row for each model.
type modelTable struct {
	w     *strings.Builder
	tabs  *tabwriter.Writer
	width int // of a model's name
}

func (rep batchReport) table(w *strings.Builder, columns ...string) *modelTable {
	t := &modelTable{w: w, tabs: tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight), width: len("model")}
	for _, m := range rep.Models {
		t.width = max(t.width, utf8.RuneCountInString(m.Model))
	}
	t.row("model", columns...)
	return t
}

func (t *modelTable) row(model string, cells ...string) {
	fmt.Fprintf(t.tabs, "%-*s\t%s\t\n", t.width, cell(model), strings.Join(cells, "\t"))
}

// flush ends the table with a note. Writing to a [strings.Builder] cannot fail.
func (t *modelTable) flush(note string) {
	_ = t.tabs.Flush()
	fmt.Fprintf(t.w, "%s\n\n", note)
}
