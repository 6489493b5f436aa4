package ask

import (
	"fmt"
	"strings"

	"tandem/internal/grader/check"
	"tandem/internal/grader/outputs"
)

// Limits of what is told of layers 1 and 2.
const (
	maxFindings = 4000 // bytes
	maxQuote    = 60   // bytes of a value or message
	maxDiffs    = 3    // differences of one output
)

// findings writes what layers 1 and 2 found, a line each, in at most so many bytes. What the student's notebook says in it is made safe by clean and quoted.
func findings(layer1 *check.Findings, layer2 *outputs.Findings, most int, clean func(string) string) string {
	l := lines{clean: clean}
	if layer1 != nil {
		l.layer1(layer1)
	}
	if layer2 != nil {
		l.layer2(layer2)
	}
	if len(l.list) == 0 {
		l.add("- Nothing was checked.")
	}
	return l.text(most)
}

// lines are findings as they are written.
type lines struct {
	list  []string
	clean func(string) string
}

func (l *lines) add(format string, args ...any) {
	l.list = append(l.list, fmt.Sprintf(format, args...))
}

// text is as many of the lines as fit.
func (l *lines) text(most int) string {
	var b strings.Builder
	for i, line := range l.list {
		more := fmt.Sprintf("- … and %d more findings.\n", len(l.list)-i)
		if b.Len()+len(line)+1+len(more) > most {
			b.WriteString(more)
			break
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// quote shortens a text of the notebook and puts it in quotes, on one line.
func (l *lines) quote(s string) string {
	s = strings.Join(strings.Fields(l.clean(s[:boundary(s, min(len(s), 4*maxQuote))])), " ")
	if len(s) > maxQuote {
		s = s[:boundary(s, maxQuote)] + "…"
	}
	return `"` + strings.ReplaceAll(s, `"`, "'") + `"`
}

func (l *lines) layer1(f *check.Findings) {
	if f.Empty {
		l.add("- The notebook is empty: nothing was added to the template.")
	}
	for _, s := range f.Sections {
		line := fmt.Sprintf("- Section %s: %s", s.ID, s.Completeness)
		if s.Asked > 0 {
			line += fmt.Sprintf(", %d of %d things found", s.Found, s.Asked)
		}
		if s.Note != "" {
			line += ", note " + l.quote(s.Note)
		}
		l.add("%s.", line)
	}
	lacking := 0
	for _, i := range f.Items {
		if i.Status == check.Found {
			continue
		}
		lacking++
		line := fmt.Sprintf("- %s %s", i.Kind, l.quote(i.Name))
		if i.Section != "" {
			line += " of section " + i.Section
		}
		line += ": " + statusWords[i.Status]
		if i.Cell > 0 {
			line += fmt.Sprintf(" (cell %d)", i.Cell)
		}
		if i.Note != "" {
			line += ", note " + l.quote(i.Note)
		}
		l.add("%s.", line)
	}
	switch {
	case lacking == 0 && len(f.Items) > 0:
		l.add("- Everything that the rubric names was found.")
	case lacking < len(f.Items):
		l.add("- Everything else that the rubric names was found.")
	}
	l.add("- Cells with code: %d, of which %d were run.", f.FilledCells(), f.RunCells)
	if f.OutOfTurn {
		l.add("- The cells were not run from top to bottom.")
	}
	for _, e := range f.Errors {
		l.add("- Cell %d ended in an error: %s.", e.Cell, l.quote(strings.TrimPrefix(e.Name+": "+e.Value, ": ")))
	}
}

// statusWords say the state of an item that was not found.
var statusWords = map[check.Status]string{
	check.NotRun:      "is there, but was never run",
	check.Failed:      "is there, but ends in an error",
	check.Placeholder: "is still as in the template",
	check.Missing:     "is missing",
}

func (l *lines) layer2(f *outputs.Findings) {
	l.add("- Outputs compared with the solution's: %d, of which %d match.", f.Compared, f.Matched)
	for _, c := range f.Comparisons {
		if c.Verdict == outputs.Match && c.Note == "" {
			continue
		}
		var line strings.Builder
		fmt.Fprintf(&line, "- Output %s: %s", l.quote(c.Key), c.Verdict)
		if c.Cell > 0 {
			fmt.Fprintf(&line, " (cell %d)", c.Cell)
		}
		if c.Note != "" {
			fmt.Fprintf(&line, ", note %s", l.quote(c.Note))
		}
		for _, d := range c.Differences[:min(maxDiffs, len(c.Differences))] {
			fmt.Fprintf(&line, "; %s: solution %s, student %s", l.quote(d.Where), l.quote(d.Want), l.quote(d.Got))
		}
		if more := c.More + max(0, len(c.Differences)-maxDiffs); more > 0 {
			fmt.Fprintf(&line, "; %d more differences", more)
		}
		l.add("%s.", line.String())
	}
}
