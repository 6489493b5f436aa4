// Package check is layer 1, the systematic checks: what can be said of a notebook by reading it, without running it and without a model.
package check

import (
	"cmp"
	"math/big"
	"strings"

	"tandem/internal/grader/code"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
	"tandem/internal/grader/sections"
)

// Status is what became of something that the rubric asks for.
type Status string

// The states of an item.
const (
	Found       Status = "found"
	NotRun      Status = "not_run"     // it is there, but no cell that holds it was ever run
	Failed      Status = "failed"      // it is there, but every run cell that holds it ended in an error
	Placeholder Status = "placeholder" // the template's text stands there unchanged, or what only keeps a place: x <- NULL, "[your answer]"
	Missing     Status = "missing"
)

// Item is one thing that the rubric asks for.
type Item struct {
	Kind    string  `json:"kind"`              // variable, function, column, question, test
	Name    string  `json:"name"`              // as the rubric says
	Section string  `json:"section,omitempty"` // id; "" for required_variables that no section names
	Status  Status  `json:"status"`
	Cell    int     `json:"cell,omitempty"`   // number of the cell where it was found
	Points  float64 `json:"points,omitempty"` // of a test: how often it counts among the items, of which any other counts once
	Note    string  `json:"note,omitempty"`   // for a person: "only in a comment (cell 4)", "only in a string (cell 4)", "in cell 9, outside of its section"
}

// Completeness of a section.
type Completeness string

// A section is complete if all its items are found, incomplete if none is, else partial. One that asks for nothing is complete if a cell of its own was
// changed from the template and, if that is code, run without an error; partial if it was changed only. In a section that has code, a code cell must be changed.
const (
	Complete   Completeness = "complete"
	Partial    Completeness = "partial"
	Incomplete Completeness = "incomplete"
)

// Section is what was found of a section.
type Section struct {
	ID           string       `json:"id"`
	Name         string       `json:"name"`
	Completeness Completeness `json:"completeness"`
	Found        int          `json:"found"` // items
	Asked        int          `json:"asked"` // items
	Points       float64      `json:"points"`
	Cells        []int        `json:"cells"` // numbers; empty if its heading was not found
	Note         string       `json:"note,omitempty"`
}

// CellError is an output that is an error.
type CellError struct {
	Cell  int    `json:"cell"`
	Name  string `json:"name"`
	Value string `json:"value"` // at most 300 characters
}

// Findings are what layer 1 says of a notebook.
type Findings struct {
	Language  string      `json:"language"` // r, python, or what the notebook calls any other
	Sections  []Section   `json:"sections"` // in the order of the rubric
	Items     []Item      `json:"items"`    // required_variables of no section first, then by section; what several sections ask for stands in each
	CodeCells int         `json:"code_cells"`
	BareCells int         `json:"bare_cells"`  // of these, the ones that are blank or hold only comments
	RunCells  int         `json:"run_cells"`   // of the others
	RunShare  float64     `json:"run_share"`   // RunCells / (CodeCells − BareCells); 0 if there are none
	OutOfTurn bool        `json:"out_of_turn"` // execution counts do not ascend: run from top to bottom it may behave otherwise
	Errors    []CellError `json:"errors"`
	Unchanged float64     `json:"unchanged"` // share of the template's lines (that say anything) which stand unchanged; 0 without template
	Added     int         `json:"added"`     // lines that are not the template's; without template all that say anything
	Empty     bool        `json:"empty"`     // nothing was added to the template; without template there are headings at most

	// Completion is the share of the points of sections that are complete: CompletePoints / AllPoints. A rubric without sections has none (0 of 0).
	CompletePoints float64 `json:"complete_points"`
	AllPoints      float64 `json:"all_points"`

	// What stands in the notebook, whether the rubric asks for it or not.
	Names map[Name]bool `json:"-"`
}

// Name is something that a section's code does, whether the rubric asks for it or not.
type Name struct{ Kind, Section, Name string }

// maxValue is the length in characters of an error's message.
const maxValue = 300

// FilledCells is how many code cells hold code.
func (f *Findings) FilledCells() int { return f.CodeCells - f.BareCells }

// Run makes the checks. template may be nil.
//
// An item is looked for in its section's cells, then in the whole notebook. What only lines of the template have is nothing of the student's, run or
// not: a placeholder, like what keeps a place (NULL, None, ____, no answer) and, where the template has the very line, any value that nothing computes.
func Run(nb, template *notebook.Notebook, r *rubric.Rubric) *Findings {
	c := &checker{nb: nb, rubric: r, where: sections.Locate(nb, r), template: readTemplate(template)}
	for i := range nb.Cells {
		c.cells = append(c.cells, readCell(nb, i))
	}
	f := &Findings{Language: string(nb.Language), Sections: []Section{}, Items: []Item{}, Errors: []CellError{}}
	if nb.Language == notebook.Other {
		f.Language = cmp.Or(nb.Kernel, f.Language)
	}
	c.listen()
	c.functions()
	c.tests(template, r)
	c.countCells(f)
	f.Names = c.names()
	f.Unchanged, f.Added = c.template.compare(nb)
	f.Empty = f.Added == 0
	if template == nil {
		f.Empty = c.saysNothing()
	}
	f.Items = append(f.Items, c.required()...)

	complete, all := new(big.Rat), new(big.Rat)
	for i := range r.Sections {
		s := &r.Sections[i]
		items := c.items(s)
		found := c.section(s, items)
		points := s.Points
		if points == nil {
			points = big.NewRat(1, 1)
		}
		found.Points, _ = points.Float64()
		all.Add(all, points)
		if found.Completeness == Complete {
			complete.Add(complete, points)
		}
		f.Items = append(f.Items, items...)
		f.Sections = append(f.Sections, found)
	}
	f.CompletePoints, _ = complete.Float64()
	f.AllPoints, _ = all.Float64()
	return f
}

// checker reads one notebook.
type checker struct {
	nb       *notebook.Notebook
	rubric   *rubric.Rubric
	where    *sections.Map
	template *template
	cells    []cell

	tried      map[string][]Item // tests, by section
	spoken     string            // language of the assignment's text, "" if it is not known
	vocabulary map[string]bool   // words of the assignment and of the notebook's code
}

// cell is a cell and what its code does.
type cell struct {
	*notebook.Cell
	code   bool
	facts  *code.Facts // of code
	lines  []string    // of the source
	failed bool        // an output is an error
	dead   []bool      // lines that no run reaches
	inner  []bool      // lines in the body of a function

	language notebook.Language
}

func readCell(nb *notebook.Notebook, i int) cell {
	c := cell{Cell: &nb.Cells[i], lines: strings.Split(nb.Cells[i].Source, "\n"), facts: &code.Facts{}, language: nb.LanguageOf(i)}
	if c.code = c.Kind == notebook.Code; c.code {
		c.facts = code.Analyse(c.language, c.Source)
		c.language = code.LanguageOf(c.language, c.Source)
		c.dead, c.inner = unreached(c.lines), make([]bool, len(c.lines))
	}
	for _, o := range c.Outputs {
		c.failed = c.failed || o.Kind == notebook.Error
	}
	return c
}

// empty reports whether a code cell holds no code.
func (c *cell) empty() bool { return c.facts.Lines == 0 }

// countCells counts what was run, in which order, and what failed.
func (c *checker) countCells(f *Findings) {
	last := 0
	for _, cell := range c.cells {
		if !cell.code {
			continue
		}
		f.CodeCells++
		switch {
		case cell.empty():
			f.BareCells++
		case cell.Ran():
			f.RunCells++
		}
		if cell.Count > 0 {
			f.OutOfTurn = f.OutOfTurn || cell.Count <= last
			last = cell.Count
		}
		for _, o := range cell.Outputs {
			if o.Kind == notebook.Error {
				f.Errors = append(f.Errors, CellError{Cell: cell.Number, Name: o.ErrorName, Value: cut(o.ErrorValue, maxValue)})
			}
		}
	}
	if full := f.FilledCells(); full > 0 {
		f.RunShare = float64(f.RunCells) / float64(full)
	}
}

// names are what the code of each section does. A column is what is written like one: in quotes, or by its bare name.
func (c *checker) names() map[Name]bool {
	all := map[Name]bool{}
	for i := range c.cells {
		section := c.where.Of(i)
		f := c.cells[i].facts
		for kind, names := range map[string][]map[string][]int{variable: {f.Assigned}, function: {f.Called}, column: {f.Named, f.Strings}} {
			for _, m := range names {
				for name := range m {
					all[Name{kind, section, name}] = true
				}
			}
		}
	}
	return all
}

// cut shortens a text to a number of characters.
func cut(s string, most int) string {
	n := 0
	for i := range s {
		if n == most {
			return s[:i]
		}
		n++
	}
	return s
}

// saysNothing reports whether there is no code and no text but headings.
func (c *checker) saysNothing() bool {
	for _, cell := range c.cells {
		if cell.code && !cell.empty() {
			return false
		}
		if !cell.code && answerWords(cell.lines, c.template) > 0 {
			return false
		}
	}
	return true
}
