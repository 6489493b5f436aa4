// Package outputs is layer 2: the student's outputs compared with the solution's. Nothing is executed: what stands in the notebooks is read.
package outputs

import (
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
)

// Verdict of one comparison.
type Verdict string

// The verdicts.
const (
	Match   Verdict = "match"
	Differs Verdict = "differs"
	Missing Verdict = "missing" // the student's notebook shows nothing to compare: the note says why (never run, not shown, error)
)

// Comparison is one output of the solution and what the student has in its place.
type Comparison struct {
	Key          string        `json:"key"`               // the variable it shows, or the section and a number, as in "join #2"
	Section      string        `json:"section,omitempty"` // id
	Kind         string        `json:"kind"`              // number, table, text, picture
	Verdict      Verdict       `json:"verdict"`
	SolutionCell int           `json:"solution_cell"`  // number
	Cell         int           `json:"cell,omitempty"` // number of the student's cell, 0 if there is none
	Note         string        `json:"note,omitempty"` // "equal but for the order of the columns", "equal within 0.1 %", "rounded to 2 decimals", "the cell was never run"
	Differences  []Discrepancy `json:"differences,omitempty"`
	More         int           `json:"more,omitempty"`    // differences that are not listed
	Ignored      bool          `json:"ignored,omitempty"` // the rubric says so
}

// Counts reports whether points can hang on it: not on a picture, since what is on it was not read.
func (c *Comparison) Counts() bool { return c.Kind != string(pictureKind) && !c.Ignored }

// Discrepancy names one difference with both values.
type Discrepancy struct {
	Where string `json:"where"` // "row region = North, column revenue", "number of rows", "value"
	Want  string `json:"want"`  // the solution's
	Got   string `json:"got"`   // the student's
}

// What a student has in the place of a row or line that is not there.
const (
	NoSuchRow  = "no such row"
	NoSuchLine = "no such line"
)

// Findings are what layer 2 says.
type Findings struct {
	Comparisons []Comparison `json:"comparisons"` // in the order of the solution
	Compared    int          `json:"compared"`    // those that count: tables, numbers and texts; not pictures, nor what the rubric ignores
	Matched     int          `json:"matched"`     // of these
	Overlap     float64      `json:"overlap"`     // share of the solution's variables (assigned anywhere) that the student's notebook assigns, too: near 0 means another assignment
}

// Compare compares a student's outputs with the solution's.
//
// A solution's output is keyed by the variable that its cell shows last; by the variable assigned there if it shows none; else by its section and number. It is compared
// with the student's outputs of cells that show or assign that variable, the best match counting; without a variable with all outputs of the section, each used once.
//
// Numbers are equal within the rubric's tolerance, or if the one is the other rounded to the digits shown (two significant ones at least). Tables (HTML, R's and
// pandas' plain text) are equal regardless of the order of rows and columns, of row names and of type lines; columns are matched by name, and further columns of the student's are noted, not
// held against it. Texts are equal without case, white space and quotes. A picture is a match if the student's cell has one; it does not count.
//
// What the template's own code shows is nobody's, and not compared. The template may be nil. Without a rubric there are no sections, and the tolerance is 1/1000.
func Compare(student, solution, template *notebook.Notebook, r *rubric.Rubric) *Findings {
	if r == nil {
		r = &rubric.Rubric{}
	}
	c := comparer{student: readSide(student, r), solution: readSide(solution, r), tolerance: asTolerance(r.Rules.Tolerance), given: linesOf(template), rules: r.Outputs}
	f := findings(c.run())
	f.Overlap = overlap(c.student, c.solution)
	return f
}
