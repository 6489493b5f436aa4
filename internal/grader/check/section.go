package check

import "tandem/internal/grader/rubric"

// section says how complete a section is, by its items or, if it has none, by what was changed in its cells.
func (c *checker) section(s *rubric.Section, items []Item) Section {
	found := Section{ID: s.ID, Name: s.Name, Completeness: Partial, Asked: len(items), Cells: []int{}}
	for _, i := range c.where.Cells[s.ID] {
		found.Cells = append(found.Cells, c.cells[i].Number)
	}
	if len(found.Cells) == 0 {
		found.Note = "its heading was not found"
	}
	for _, item := range items {
		if item.Status == Found {
			found.Found++
		}
	}
	switch {
	case len(items) == 0:
		found.Completeness = c.changed(s)
		if found.Completeness == Partial {
			found.Note = "changed, but not run without an error"
		}
	case found.Found == len(items):
		found.Completeness = Complete
	case found.Found == 0:
		found.Completeness = Incomplete
	}
	return found
}

// changed says what was done in the cells of a section that asks for nothing. Where it has code, code must be changed.
func (c *checker) changed(s *rubric.Section) Completeness {
	hasCode, prose := false, false
	result := Incomplete
	for _, i := range c.where.Cells[s.ID] {
		cell := &c.cells[i]
		switch {
		case !cell.code:
			prose = prose || answerWords(cell.lines, c.template) >= enough
		case !cell.empty() && !c.given(cell):
			if result != Complete {
				result = Partial
			}
			if cell.Ran() && !cell.failed {
				result = Complete
			}
		}
		hasCode = hasCode || cell.code
	}
	if prose && (s.Markdown || !hasCode) {
		return Complete
	}
	return result
}
