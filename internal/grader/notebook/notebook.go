// Package notebook reads Jupyter notebooks (nbformat 4) that anybody may have written. Nothing is executed; images and other
// bulk are left out and counted; every text is valid UTF-8 with \n line ends and within the limits.
//
// Format: https://nbformat.readthedocs.io/en/latest/format_description.html
package notebook

// Language is what a notebook's code cells are written in.
type Language string

// The languages whose code is read token by token. Code in any other language is text.
const (
	R      Language = "r"
	Python Language = "python"
	Other  Language = "other"
)

// Kind is the kind of a cell.
type Kind string

// The kinds of cells.
const (
	Code     Kind = "code"
	Markdown Kind = "markdown"
	Raw      Kind = "raw"
)

// Notebook is what grading needs of a notebook.
type Notebook struct {
	Format   string   // version of the format, as in 4.5
	Language Language // of the code cells; guessed by unmistakable lines if the notebook names none
	Kernel   string   // the language as the notebook names it: "R", "python", "julia"; "" if it does not
	Cells    []Cell   // in the order of the file
	Dropped  Dropped  // what was left out
	Unseen   []Unseen // texts that no Jupyter shows
}

// Unseen is a text of some words in metadata, or in an attachment or its name.
type Unseen struct {
	Cell int // number; 0 is the notebook
	Text string
}

// Cell is one cell.
type Cell struct {
	Number  int      // from 1: its place in the file, by which reports name it
	Kind    Kind     // what it is
	Source  string   // its text
	Count   int      // execution count of a code cell; 0 if it was never run, or its outputs were cleared
	Outputs []Output // of a code cell
	GradeID string   // nbgrader's name of the cell, "" if it has none
	Test    bool     // nbgrader grades the cell, and it holds nothing of the student's: tests
	Points  float64  // that nbgrader gives for it

	Language Language // of a code cell that says so itself, as notebooks of several languages do; "" is the notebook's
}

// LanguageOf is the language of a cell, by its index.
func (nb *Notebook) LanguageOf(cell int) Language {
	if own := nb.Cells[cell].Language; own != "" {
		return own
	}
	return nb.Language
}

// Ran reports whether a code cell was run: it has an execution count or an output.
func (c *Cell) Ran() bool { return c.Count > 0 || len(c.Outputs) > 0 }

// OutputKind is the kind of an output.
type OutputKind string

// The kinds of outputs.
const (
	Stream OutputKind = "stream" // printed
	Value  OutputKind = "value"  // execute_result or display_data
	Error  OutputKind = "error"  // the cell failed
)

// Output is one output of a code cell.
type Output struct {
	Kind       OutputKind
	Stream     string // stdout or stderr, of a stream
	Text       string // as plain text, without terminal escapes; "" if there is only HTML or an image
	HTML       string // text/html of a value, "" if there is none
	ErrorName  string // of an error, as in ValueError
	ErrorValue string // its message
	Images     int    // pictures that were left out; one that is there in several forms (PNG, SVG, PDF) is one
}

// Dropped counts what [Read] left out.
type Dropped struct {
	Images     int `json:"images"`      // pictures in outputs, attachments, and markdown or HTML (data:image/…)
	ImageBytes int `json:"image_bytes"` // their size in the file, in every form they have there
	Cut        int `json:"cut"`         // texts that were cut at a limit, and outputs that were one too many
	CutBytes   int `json:"cut_bytes"`   // what was cut off
	Other      int `json:"other"`       // outputs of kinds that say nothing to a grader: widgets, scripts
}

// Limits bound what is read. Zero fields mean the default.
type Limits struct {
	File    int // bytes of the whole notebook; default 32 MB
	Cells   int // cells; default 2,000
	Source  int // bytes of one cell's source; default 256 kB
	Sources int // bytes of all cells' sources together; default 2 MB, so that no notebook takes long to read: one that was written by hand has a tenth of it
	Output  int // bytes of one output's text, and of its HTML; default 64 kB
	Each    int // outputs of one cell, of which the first and the last stay; default 200. What is printed piece by piece counts once
}
