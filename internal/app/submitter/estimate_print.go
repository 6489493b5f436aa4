package submitter

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"tandem/internal/forecast"
	"tandem/internal/protocol"
	"tandem/internal/sanitize"
	"tandem/internal/units"
	"tandem/jobs"
)

// printEstimate prints when jobs will be done.
func (s *session) printEstimate(e *forecast.Estimate) error {
	if s.JSON {
		return s.print(e)
	}
	var b strings.Builder
	writeEstimate(&b, e)
	_, err := io.WriteString(s.out, sanitize.Text(b.String()))
	return err
}

func writeEstimate(b *strings.Builder, e *forecast.Estimate) {
	for _, m := range e.Models {
		writeModel(b, &m)
	}
	if e.Seconds > 0 {
		models := ""
		if len(e.Models) > 1 {
			models = ", all models side by side"
		}
		fmt.Fprintf(b, "about %s until all are done%s\n", clock(seconds(e.Seconds)), models)
	}
}

// writeModel prints a model's part. Writing to a [strings.Builder] cannot fail.
func writeModel(b *strings.Builder, m *forecast.ModelEstimate) {
	fmt.Fprintf(b, "%s: %d jobs, %d prompt tokens (%d of them in shared prefixes), answers of about %d tokens; %s\n",
		cell(m.Model), m.Jobs, m.PromptTokens, m.SharedTokens, m.AnswerTokens, cell(who(m)))
	if m.JobsBefore > 0 {
		fmt.Fprintf(b, "jobs of others run or wait already: %d; they are taken to be like these\n", m.JobsBefore)
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%-16s\tdone in\thanded over\tmoved\twith one more %s\twith one more %s\t\n", "plan", cell(like(m, protocol.RolePrefill)), cell(like(m, protocol.RoleDecode)))
	for _, p := range m.Plans {
		mark := " "
		if p.Asked {
			mark = "→"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t\n", fmt.Sprintf("%s %-14s", mark, p.Plan), within(p.Seconds), p.HandedOver, moved(p.BytesMoved), within(p.MorePrefill), within(p.MoreDecode))
	}
	_ = t.Flush()
	if m.Missing != "" {
		fmt.Fprintf(b, "no live %s worker serves %s: its jobs wait until one is started; the figures are as if that were on a %s\n", m.Missing, cell(m.Model), forecast.PublishedDecode)
	}
	switch {
	case m.Published:
		fmt.Fprintln(b, notMeasured)
	case len(m.NotMeasured) > 0:
		fmt.Fprintf(b, "not measured yet, so that published figures of a %s and a %s stand for it: %s\n", forecast.PublishedPrefill, forecast.PublishedDecode, cell(strings.Join(m.NotMeasured, ", ")))
	}
}

// within is a time in which something ends, if ever.
func within(s float64) string {
	if s == 0 {
		return "never"
	}
	return clock(seconds(s))
}

// moved is a size of KV states, if there are any.
func moved(bytes float64) string {
	if bytes == 0 {
		return "–"
	}
	return units.Bytes(int64(bytes))
}

// who says which machines do what.
func who(m *forecast.ModelEstimate) string {
	var list []string
	for _, w := range m.Workers {
		text := w.Machine + " (" + string(w.Role)
		if w.Slots > 1 {
			text += fmt.Sprintf(", %d slots", w.Slots)
		}
		list = append(list, text+")")
	}
	return strings.Join(list, ", ")
}

// like is the machine of a role that one more would be like.
func like(m *forecast.ModelEstimate, role jobs.Stage) string {
	for _, w := range m.Workers {
		if w.Role == role {
			return w.Machine
		}
	}
	return forecast.PublishedPeer(role).Machine
}
