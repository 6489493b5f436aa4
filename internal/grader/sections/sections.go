// Package sections finds which cells of a notebook belong to which section of the rubric.
package sections

import (
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
)

// Map says where the sections are.
type Map struct {
	Cells map[string][]int // section id → indexes into Notebook.Cells, in order; a section whose heading was not found has none
	of    []string         // section id of each cell, "" if it belongs to none
}

// Of returns the section of a cell, by its index, "" if it belongs to none.
func (m *Map) Of(cell int) string {
	if cell < 0 || cell >= len(m.of) {
		return ""
	}
	return m.of[cell]
}

// Locate finds the sections by their headings: Heading, else Name, else id, compared without case, punctuation, numbering ("Part 2:", "3.") and Markdown.
// A section reaches to the heading of the next one. A rubric's section without a heading in the notebook has no cells: what it asks for is looked for in the whole notebook.
//
// A heading that is equal to what is looked for goes before one that contains it as whole words, and with that the one with the fewest further words; a heading that contains the names of several
// sections, none of them part of another, begins none. The same heading twice begins its section twice. Headings of no section stay in the section around them.
// Where Markdown has no heading of a section, a comment that begins a code cell and is equal to what is looked for is one: "# Part 2: Join", "# ---- Join ----".
// A cell belongs to one section: with several headings, to the last section that it begins.
func Locate(nb *notebook.Notebook, r *rubric.Rubric) *Map {
	m := &Map{Cells: map[string][]int{}, of: make([]string, len(nb.Cells))}
	begins := newMatcher(headings(nb), r.Sections).match()
	now := ""
	for i := range nb.Cells {
		if id, ok := begins[i]; ok {
			now = id
		}
		m.of[i] = now
		if now != "" {
			m.Cells[now] = append(m.Cells[now], i)
		}
	}
	return m
}
