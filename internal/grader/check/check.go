// Package check is layer 1, the systematic checks: what can be said of a notebook by reading it, without running it and without a model.
package check

import (
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
)

// Status is what became of something that the rubric asks for.
type Status string

// The states of an item.
const (
	Found       Status = "found"
	NotRun      Status = "not_run"     // it is there, but no cell that holds it was ever run
	Failed      Status = "failed"      // it is there, but every run cell that holds it ended in an error
	Placeholder Status = "placeholder" // the template's text stands there unchanged
	Missing     Status = "missing"
)

// Item is one thing that the rubric asks for.
type Item struct {
	Kind    string `json:"kind"`              // variable, function, column, question
	Name    string `json:"name"`              // as the rubric says
	Section string `json:"section,omitempty"` // id; "" for required_variables that no section names
	Status  Status `json:"status"`
	Cell    int    `json:"cell,omitempty"` // number of the cell where it was found
	Note    string `json:"note,omitempty"` // for a person: "only in a comment (cell 4)", "only in a string (cell 4)", "in cell 9, outside of its section"
}

// Completeness of a section.
type Completeness string

// A section is complete if all its items are found, incomplete if none is, else partial. One that asks for nothing is complete if a cell of its own was
// changed from the template and, if that is code, run.
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
	Language  string      `json:"language"`
	Sections  []Section   `json:"sections"` // in the order of the rubric
	Items     []Item      `json:"items"`    // in the order of the rubric; what several sections ask for stands in each
	CodeCells int         `json:"code_cells"`
	RunCells  int         `json:"run_cells"`   // of the code cells that are not empty
	RunShare  float64     `json:"run_share"`   // RunCells / CodeCells that are not empty; 0 if there are none
	OutOfTurn bool        `json:"out_of_turn"` // execution counts do not ascend: run from top to bottom it may behave otherwise
	Errors    []CellError `json:"errors"`
	Unchanged float64     `json:"unchanged"` // share of the template's lines (that say anything) which stand unchanged; 0 without template
	Added     int         `json:"added"`     // lines that are not the template's
	Empty     bool        `json:"empty"`     // nothing was added to the template

	// Completion is the share of the points of sections that are complete: CompletePoints / AllPoints. A rubric without sections has none (0 of 0).
	CompletePoints float64 `json:"complete_points"`
	AllPoints      float64 `json:"all_points"`
}

// Run makes the checks. template may be nil.
func Run(nb, template *notebook.Notebook, r *rubric.Rubric) *Findings { return &Findings{} }
