package rubric

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tandem/jobs"
)

// maxProblems is how many problems, and how many notes, are told of one file.
const maxProblems = 20

// Wrong is what is wrong with a file: [Read]'s error has it, if it knows where.
type Wrong struct {
	Problems []Problem // in the order of the file, maxProblems at most
	text     string
}

// Problem is one of them.
type Problem struct {
	Line int    // of the file, from 1
	Text string // the place, what stands there, what is wanted and what to do

	at int // byte of the file
}

func (w *Wrong) Error() string { return w.text }

// problems collects what is wrong with a file.
type problems struct{ list []Problem }

// add names the place; the text says what stands there, what is wanted and what to do.
func (p *problems) add(n *node, format string, args ...any) {
	p.addAt(n, n.where(), format, args...)
}

// addMissing names a key of n that is not there.
func (p *problems) addMissing(n *node, key, format string, args ...any) {
	p.addAt(n, strings.TrimSuffix(n.where(), "/")+"/"+key, format, args...)
}

func (p *problems) addAt(n *node, where, format string, args ...any) {
	p.list = append(p.list, Problem{at: n.at, Text: where + ": " + fmt.Sprintf(format, args...)})
}

// err is one error with all problems in the order of the file, nil if there are none.
func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	slices.SortFunc(p.list, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.Text, b.Text)) })
	list := slices.Compact(p.list)
	lines := make([]string, 0, len(list))
	for _, one := range list {
		lines = append(lines, one.Text)
	}
	w := &Wrong{list[:min(len(list), maxProblems)], "rubric: " + lines[0]}
	if len(lines) > 1 {
		w.text = fmt.Sprintf("rubric: %d things are wrong:\n  %s", len(lines), strings.Join(cut(lines), "\n  "))
	}
	return jobs.Errorf(jobs.CodeInvalid, "%w", w)
}

// cut leaves at most maxProblems lines and says how many more there are.
func cut(lines []string) []string {
	if len(lines) <= maxProblems {
		return lines
	}
	return append(slices.Clone(lines[:maxProblems]), fmt.Sprintf("and %d more", len(lines)-maxProblems))
}
