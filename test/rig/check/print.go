package check

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"tandem/test/rig/history"
)

const (
	shown   = 20  // violations
	longest = 200 // characters of a column
)

// Write writes the counts as a table, and the first 20 violations with their slices, one event a line: seconds since the
// history began, what happened, who, where, and what was noted. Of a record only the status, the error's code and a hash of the
// text are shown, so that no prompt or answer gets into a log.
func (v Verdict) Write(w io.Writer) error {
	if _, err := io.WriteString(w, v.String()); err != nil {
		return fmt.Errorf("write verdict: %w", err)
	}
	return nil
}

// String is what [Verdict.Write] writes.
func (v Verdict) String() string {
	var rows []string
	row := func(name string, count int) { rows = append(rows, fmt.Sprintf("%s\t%7d", name, count)) }
	c := v.Counts
	row("submitted", c.Submitted)
	row("accepted", c.Accepted)
	row("refused", c.Refused)
	row("succeeded", c.Succeeded)
	row("failed", c.Failed)
	row("cancelled", c.Cancelled)
	row("expired", c.Expired)
	row("left", c.Left)
	row("ended, and still queued", c.Kept)
	row("texts compared", c.Compared)
	row("handed over", c.HandedOver)
	row("deliveries", c.Delivered)
	row("engine calls", c.Calls)
	for _, name := range slices.Sorted(maps.Keys(c.Faults)) {
		row("fault: "+plain(name), c.Faults[name])
		for _, way := range slices.Sorted(maps.Keys(c.Ways)) {
			if what, how, _ := strings.Cut(way, ": "); what == name && how != "" {
				row("    "+plain(how), c.Ways[way])
			}
		}
	}
	broken := v.Broken()
	for _, rule := range Rules() {
		if n := broken[rule]; n > 0 {
			row("VIOLATED: "+string(rule), n)
		}
	}
	row("violations", len(v.Violations))

	var b strings.Builder
	b.WriteString(table(rows))
	for _, violation := range v.Violations[:min(shown, len(v.Violations))] {
		b.WriteString("\n" + violation.String())
	}
	if more := len(v.Violations) - shown; more > 0 {
		fmt.Fprintf(&b, "\nand %d more\n", more)
	}
	return b.String()
}

// String is the violation and its slice, as [Verdict.Write] shows it.
func (v Violation) String() string {
	who := "the run"
	if v.Rule != Unsettled {
		who = "job " + plain(v.Job)
	}
	rows := make([]string, len(v.Slice))
	for i, e := range v.Slice {
		rows[i] = fmt.Sprintf("%10.3f\t%s\t%s\t%s\t%s", e.At.Seconds(), plain(string(e.Kind)), plain(e.Process), place(e), remark(e))
	}
	return fmt.Sprintf("%s: %s: %s\n%s", v.Rule, who, v.What, table(rows))
}

// table lines up the cells of rows, which tabs separate.
func table(rows []string) string {
	var b, lines strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.DiscardEmptyColumns)
	for _, row := range rows {
		fmt.Fprintln(t, row)
	}
	_ = t.Flush() // a builder takes everything
	for line := range strings.Lines(b.String()) {
		lines.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return lines.String()
}

// place is where an event happened.
func place(e history.Event) string {
	if e.Stream != "" {
		return fmt.Sprintf("%s#%d", plain(e.Stream), e.Seq)
	}
	return plain(e.Subject)
}

// remark is what else there is to say of an event.
func remark(e history.Event) string {
	var words []string
	if e.Again {
		words = append(words, "again")
	}
	if e.Note != "" {
		words = append(words, plain(e.Note))
	}
	if e.Kind == history.Expected {
		words = append(words, "text "+hash(e.Text))
	}
	if r := read(e.Record); r.Status != "" {
		words = append(words, plain(r.Status))
		if code := r.Error.Code; code != "" {
			words = append(words, plain(code))
		}
		words = append(words, "text "+hash(r.Text))
	}
	return strings.Join(words, ", ")
}

// plain makes what others wrote fit for one column of one line of a terminal.
func plain(s string) string {
	n := 0
	return strings.Map(func(r rune) rune {
		switch n++; {
		case n > longest:
			return -1
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
}
