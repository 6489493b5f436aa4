package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
)

// The kinds of items.
const (
	variable = "variable"
	function = "function"
	column   = "column"
	question = "question"
)

// required lists what is required anywhere, and the required variables that no section names.
func (c *checker) required() []Item {
	var list []Item
	for _, name := range c.rubric.Required {
		if !slices.ContainsFunc(c.rubric.Sections, func(s rubric.Section) bool { return slices.Contains(s.Variables, name) }) {
			list = append(list, c.item(variable, name, ""))
		}
	}
	for _, name := range c.rubric.RequiredFunctions {
		list = append(list, c.item(function, name, ""))
	}
	for _, name := range c.rubric.RequiredColumns {
		list = append(list, c.item(column, name, ""))
	}
	return append(list, c.tried[""]...)
}

// items lists what a section asks for.
func (c *checker) items(s *rubric.Section) []Item {
	var list []Item
	for _, part := range []struct {
		kind  string
		names []string
	}{{variable, s.Variables}, {function, s.Functions}, {column, s.Columns}} {
		for _, name := range part.names {
			list = append(list, c.item(part.kind, name, s.ID))
		}
	}
	return slices.Concat(list, c.questions(s), c.tried[s.ID])
}

// item looks for one thing: in the section's cells, then in all others.
func (c *checker) item(kind, name, section string) Item {
	item := Item{Kind: kind, Name: name, Section: section}
	inside := c.where.Cells[section]
	outside := make([]int, 0, len(c.cells))
	for i := range c.cells {
		if section == "" || c.where.Of(i) != section {
			outside = append(outside, i)
		}
	}
	names := alternatives(name)
	if kind == function {
		for _, n := range names {
			for language, groups := range aliases {
				for _, same := range groups {
					if c.speaks(language) && slices.Contains(same, unqualified(n, language)) {
						names = append(names, same...)
					}
				}
			}
		}
	}
	own := c.look(kind, names, inside)
	far := c.look(kind, names, outside)
	best := own
	switch {
	case own.status == Found:
	case far.status == Found && (kind == variable || !own.held()):
		best = far
	case far.held() && !own.held():
		best = far
	case own.status == Missing && (far.status == Placeholder || own.note == ""):
		best = far
	}
	item.Status, item.Cell, item.Note = best.status, best.cell, best.note
	if best == far && best.held() && len(inside) > 0 {
		item.Note = strings.Join(slices.DeleteFunc([]string{fmt.Sprintf("in cell %d, outside of its section", best.cell), best.note}, func(s string) bool { return s == "" }), "; ")
	}
	return item
}

// aliases are functions that do the same under different names, so that it is nobody's fault to use another one.
var aliases = map[notebook.Language][][]string{
	notebook.R: {
		{"summarise", "summarize"}, {"%>%", "|>"}, {"read_csv", "read.csv", "fread"}, {"read_csv2", "read.csv2"}, {"read_tsv", "read.delim"},
		{"write_csv", "write.csv", "fwrite"}, {"bind_rows", "rbind"}, {"bind_cols", "cbind"}, {"n_distinct", "uniqueN"},
	},
	notebook.Python: {{"agg", "aggregate"}, {"isna", "isnull"}, {"notna", "notnull"}, {"product", "prod"}},
}

// speaks reports whether the notebook has code in a language.
func (c *checker) speaks(l notebook.Language) bool {
	return slices.ContainsFunc(c.cells, func(cell cell) bool { return cell.code && cell.language == l })
}

// alternatives cuts "left_join|merge" in two; R's pipe |> stays whole.
func alternatives(name string) []string {
	var list []string
	from := 0
	for i := range name {
		if name[i] == '|' && !strings.HasPrefix(name[i:], "|>") {
			list = append(list, name[from:i])
			from = i + 1
		}
	}
	list = append(list, name[from:])
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	if list = slices.DeleteFunc(list, func(s string) bool { return s == "" }); len(list) == 0 {
		return []string{name}
	}
	return list
}

// sight is what some cells say of an item.
type sight struct {
	status Status
	cell   int // number
	note   string
}

// held reports whether the item is there, whatever became of its cells.
func (s sight) held() bool { return s.status == Found || s.status == NotRun || s.status == Failed }

// look reads cells for any of the names. The best status counts, of equal ones the first name and cell.
func (c *checker) look(kind string, names []string, cells []int) sight {
	best := sight{status: Missing}
	better := func(s sight) {
		rank := []Status{Missing, Placeholder, NotRun, Failed, Found}
		if now, then := slices.Index(rank, s.status), slices.Index(rank, best.status); now > then || now == then && best.note == "" && s.note != "" {
			best = s
		}
	}
	for _, name := range names {
		for _, i := range cells {
			cell := &c.cells[i]
			if !cell.code {
				continue
			}
			s := sight{cell: cell.Number}
			switch s.status, s.note = c.holds(cell, kind, name); {
			case s.status == Missing:
				continue
			case s.status == Found && !cell.Ran():
				s.status = NotRun
			case s.status == Found && cell.failed:
				s.status = Failed
			}
			better(s)
		}
	}
	if best.status == Missing {
		best.note = c.mentioned(kind, names, cells)
	}
	return best
}

// holds says whether a cell does what an item asks for, whatever became of its run: found, not run if no run reaches it, placeholder or missing.
func (c *checker) holds(cell *cell, kind, name string) (status Status, note string) {
	if c.nb.Language == notebook.Other {
		if !standsIn(cell.Source, name) {
			return Missing, ""
		}
		return Found, "read as text: the language is not known token by token"
	}
	lines := cell.facts.Assigned[name]
	switch kind {
	case function:
		lines = slices.Concat(cell.facts.Called[name], cell.facts.Called[unqualified(name, cell.language)])
		lines = slices.DeleteFunc(lines, func(n int) bool { return hollow(cell.lines, n, unqualified(name, cell.language)) })
	case column:
		lines = slices.Concat(cell.facts.Named[name], cell.facts.Strings[name])
	case variable:
		whole := len(lines)
		if lines = slices.DeleteFunc(slices.Clone(lines), func(n int) bool {
			return n <= len(cell.lines) && c.template.keepsPlace(cell.lines, n, name)
		}); whole > 0 && len(lines) == 0 {
			return Placeholder, c.placeholder(cell, name)
		}
	}
	if len(lines) == 0 {
		return Missing, ""
	}
	if lines = slices.DeleteFunc(slices.Clone(lines), func(n int) bool { return !c.template.own(cell.lines, n) }); len(lines) == 0 {
		return Placeholder, fmt.Sprintf("only in the template's own code (cell %d)", cell.Number)
	}
	if !slices.ContainsFunc(lines, func(n int) bool { return n > len(cell.dead) || !cell.dead[n-1] }) {
		return NotRun, fmt.Sprintf("only in code that is never reached (cell %d)", cell.Number)
	}
	if kind == variable && !slices.ContainsFunc(lines, func(n int) bool {
		return n > len(cell.inner) || !cell.inner[n-1] || strings.Contains(cell.lines[n-1], "<<-")
	}) {
		return NotRun, fmt.Sprintf("only within a function (cell %d)", cell.Number)
	}
	return Found, ""
}

// placeholder says what keeps a variable's place in a cell.
func (c *checker) placeholder(cell *cell, name string) string {
	if c.template.has(cell.lines[cell.facts.Assigned[name][0]-1]) {
		return fmt.Sprintf("the template's placeholder stands unchanged (cell %d)", cell.Number)
	}
	return fmt.Sprintf("only a placeholder, no value (cell %d)", cell.Number)
}

// given reports whether all of a cell's lines are the template's.
func (c *checker) given(cell *cell) bool {
	return c.template.given && !slices.ContainsFunc(cell.lines, func(line string) bool { return says(line) && !c.template.has(line) })
}

// mentioned says where something that is missing stands nevertheless, "" if nowhere.
func (c *checker) mentioned(kind string, names []string, cells []int) string {
	type place struct {
		format string
		in     func(f *cell, name string) bool
	}
	var places []place
	switch kind {
	case variable:
		places = append(places,
			place{"used in cell %d, never assigned", func(c *cell, n string) bool { return c.facts.Named[n] != nil }},
			place{"called in cell %d as a function, never assigned", func(c *cell, n string) bool { return c.facts.Called[n] != nil }})
	case function:
		places = append(places,
			place{"named in cell %d, never called", func(f *cell, n string) bool {
				return f.facts.Named[unqualified(n, f.language)] != nil || f.facts.Assigned[unqualified(n, f.language)] != nil
			}})
	case column:
		places = append(places,
			place{"a variable in cell %d, not a column", func(c *cell, n string) bool { return c.facts.Assigned[n] != nil }})
	}
	places = append(places,
		place{"only in a string (cell %d)", func(c *cell, n string) bool { return c.facts.Strings[n] != nil || c.facts.Quoted[n] != nil }},
		place{"only in a comment (cell %d)", func(c *cell, n string) bool { return c.facts.Commented[n] != nil }})
	for _, p := range places {
		for _, name := range names {
			for _, i := range cells {
				if cell := &c.cells[i]; cell.code && p.in(cell, name) {
					return fmt.Sprintf(p.format, cell.Number)
				}
			}
		}
	}
	return ""
}

// unqualified is a function's own name: f of R's pkg::f and Python's pkg.f.
func unqualified(name string, language notebook.Language) string {
	separator := "."
	if language == notebook.R {
		separator = ":" // the dot in read.csv belongs to the name
	}
	return name[strings.LastIndex(name, separator)+1:]
}

// standsIn reports whether a word stands in a text as a whole.
func standsIn(text, word string) bool {
	if word == "" {
		return false
	}
	inWord := func(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) }
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		i += from
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(word):])
		if !inWord(before) && !inWord(after) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		from = i + cmp.Or(size, 1)
	}
}
