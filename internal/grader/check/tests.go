package check

import (
	"fmt"
	"regexp"
	"strings"

	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
	"tandem/internal/grader/sections"
)

// Test is the kind of an item that is a test of the assignment: a cell of nbgrader's, or a grader.check("q1") of Otter's.
const Test = "test"

var (
	otterCheck  = regexp.MustCompile(`\bgrader\.check\(\s*["']([\w.-]+)["']`)
	otterPassed = regexp.MustCompile(`(?i)all test(?:s| cases) passed|\bpassed!`)
	otterFailed = regexp.MustCompile(`(?i)test case failed|\bfailed\b|❌|\d+ of \d+ tests? passed`)
	hiddenTests = regexp.MustCompile(`(?s)#+ *BEGIN HIDDEN TESTS.*?(?:#+ *END HIDDEN TESTS[^\n]*|$)`)
)

// trial is a test as the assignment has it.
type trial struct {
	name    string
	source  string
	section string
	points  float64
	otter   bool
}

// tests lists what became of the assignment's tests, by section. They are the template's; without a template those that the notebook has.
func (c *checker) tests(given *notebook.Notebook, r *rubric.Rubric) {
	c.tried = map[string][]Item{}
	source, own := given, true
	if source == nil {
		source, own = c.nb, false
	}
	where := sections.Locate(source, r)
	seen := map[string]bool{}
	for i := range source.Cells {
		t := trialOf(&source.Cells[i])
		if t.name == "" || seen[t.name] {
			continue
		}
		seen[t.name] = true
		t.section = where.Of(i)
		if item, ok := c.try(t, own); ok {
			c.tried[item.Section] = append(c.tried[item.Section], item)
		}
	}
}

// trialOf is the test that a cell is, without a name if it is none.
func trialOf(c *notebook.Cell) trial {
	if c.Kind != notebook.Code {
		return trial{}
	}
	if c.Test && c.GradeID != "" {
		return trial{name: c.GradeID, source: c.Source, points: c.Points}
	}
	if m := otterCheck.FindStringSubmatch(c.Source); m != nil {
		return trial{name: m[1], source: c.Source, points: 1, otter: true}
	}
	return trial{}
}

// try looks what became of a test in the notebook. ok is false if it cannot be said there: hidden tests that were not put back yet. own says that the test is the
// template's, and must be the same here.
func (c *checker) try(t trial, own bool) (item Item, ok bool) {
	item = Item{Kind: Test, Name: t.name, Section: t.section, Status: Missing, Points: t.points, Note: "its cell is gone"}
	for i := range c.cells {
		cell := &c.cells[i]
		here := trialOf(cell.Cell)
		if here.name != t.name || here.otter != t.otter {
			continue
		}
		if section := c.where.Of(i); section != "" {
			item.Section = section
		}
		item.Cell, item.Note = cell.Number, ""
		switch said := cell.text(); {
		case own && visibleTests(cell.Source) != visibleTests(t.source):
			item.Status, item.Note = Missing, fmt.Sprintf("its cell is not the template's any more (cell %d)", cell.Number)
		case !t.otter && cell.empty():
			return item, false
		case cell.failed, t.otter && otterFailed.MatchString(said):
			item.Status, item.Note = Failed, fmt.Sprintf("it fails (cell %d)", cell.Number)
		case !cell.Ran(), t.otter && !otterPassed.MatchString(said):
			item.Status = NotRun
		default:
			item.Status = Found
		}
		return item, true
	}
	return item, true
}

// text is what a cell shows.
func (c *cell) text() string {
	var b strings.Builder
	for _, o := range c.Outputs {
		b.WriteString(o.Text + "\n" + o.HTML + "\n")
	}
	return b.String()
}

// visibleTests is the source of a test without what nbgrader hides from students, and without white space that changes nothing.
func visibleTests(source string) string {
	var lines []string
	for line := range strings.SplitSeq(hiddenTests.ReplaceAllString(source, ""), "\n") {
		if line = strings.TrimRight(line, " \t\r"); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
