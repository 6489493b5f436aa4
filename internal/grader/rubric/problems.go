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

// problems collects what is wrong with a file.
type problems struct{ list []problem }

type problem struct {
	at   int // byte of the file
	line string
}

// add names the place; the text says what stands there, what is wanted and what to do.
func (p *problems) add(n *node, format string, args ...any) {
	p.addAt(n, n.where(), format, args...)
}

// addMissing names a key of n that is not there.
func (p *problems) addMissing(n *node, key, format string, args ...any) {
	p.addAt(n, strings.TrimSuffix(n.where(), "/")+"/"+key, format, args...)
}

func (p *problems) addAt(n *node, where, format string, args ...any) {
	p.list = append(p.list, problem{n.at, where + ": " + fmt.Sprintf(format, args...)})
}

// err is one error with all problems in the order of the file, nil if there are none.
func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	slices.SortFunc(p.list, func(a, b problem) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.line, b.line)) })
	lines := make([]string, 0, len(p.list))
	for _, one := range slices.Compact(p.list) {
		lines = append(lines, one.line)
	}
	if len(lines) == 1 {
		return jobs.Errorf(jobs.CodeInvalid, "rubric: %s", lines[0])
	}
	return jobs.Errorf(jobs.CodeInvalid, "rubric: %d things are wrong:\n  %s", len(lines), strings.Join(cut(lines), "\n  "))
}

// cut leaves at most maxProblems lines and says how many more there are.
func cut(lines []string) []string {
	if len(lines) <= maxProblems {
		return lines
	}
	return append(slices.Clone(lines[:maxProblems]), fmt.Sprintf("and %d more", len(lines)-maxProblems))
}
