package check

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"tandem/internal/rig/history"
)

const (
	shown   = 20  // violations
	longest = 200 // characters of a column
)

// String is what [Verdict.Write] writes.
func (v Verdict) String() string {
	var b strings.Builder
	_ = v.Write(&b) // a builder takes everything
	return b.String()
}

// Write writes the counts as a table, and the first 20 violations with their slices, one event a line: seconds since the
// history began, what happened, who, where, and what was noted. Of a record only the status, the error's code and a hash of the
// text are shown, so that no prompt or answer gets into a log.
func (v Verdict) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	c := v.Counts
	for _, row := range []struct {
		name  string
		count int
	}{
		{"submitted", c.Submitted}, {"accepted", c.Accepted}, {"refused", c.Refused},
		{"succeeded", c.Succeeded}, {"failed", c.Failed}, {"cancelled", c.Cancelled}, {"expired", c.Expired}, {"left", c.Left},
		{"texts compared", c.Compared}, {"deliveries", c.Delivered}, {"engine calls", c.Calls},
	} {
		fmt.Fprintf(t, "%s\t%7d\n", row.name, row.count)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Faults)) {
		fmt.Fprintf(t, "fault: %s\t%7d\n", plain(name), c.Faults[name])
	}
	broken := v.Broken()
	for _, rule := range Rules() {
		if n := broken[rule]; n > 0 {
			fmt.Fprintf(t, "VIOLATED: %s\t%7d\n", rule, n)
		}
	}
	fmt.Fprintf(t, "violations\t%7d\n", len(v.Violations))
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write verdict: %w", err)
	}

	for _, violation := range v.Violations[:min(shown, len(v.Violations))] {
		if err := violation.write(w); err != nil {
			return fmt.Errorf("write verdict: %w", err)
		}
	}
	if more := len(v.Violations) - shown; more > 0 {
		if _, err := fmt.Fprintf(w, "\nand %d more\n", more); err != nil {
			return fmt.Errorf("write verdict: %w", err)
		}
	}
	return nil
}

func (v Violation) write(w io.Writer) error {
	who := "the run"
	if v.Rule != Unsettled {
		who = "job " + plain(v.Job)
	}
	if _, err := fmt.Fprintf(w, "\n%s: %s: %s\n", v.Rule, who, v.What); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.DiscardEmptyColumns)
	for _, e := range v.Slice {
		fmt.Fprintf(t, "%10.3f\t%s\t%s\t%s\t%s\n", e.At.Seconds(), plain(string(e.Kind)), plain(e.Process), place(e), remark(e))
	}
	return t.Flush()
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
