package outputs

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"tandem/internal/grader/code"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
	"tandem/internal/grader/sections"
)

// side is a notebook with what its code does and where its sections are.
type side struct {
	cells    []notebook.Cell
	facts    []*code.Facts // by cell, nil for one that holds no code
	sections *sections.Map
	read     map[int][]value // what cells show, once it was read
}

func readSide(nb *notebook.Notebook, r *rubric.Rubric) *side {
	s := &side{cells: nb.Cells, facts: make([]*code.Facts, len(nb.Cells)), sections: sections.Locate(nb, r), read: map[int][]value{}}
	for i, c := range nb.Cells {
		if c.Kind == notebook.Code {
			s.facts[i] = code.Analyse(nb.LanguageOf(i), c.Source)
		}
	}
	return s
}

// code yields the indexes of the cells that hold code.
func (s *side) code(yield func(int) bool) {
	for i, f := range s.facts {
		if f != nil && !yield(i) {
			return
		}
	}
}

// bound are names that a loop or an import gives: for (x in …), for k, v in …, import … as x. They hold no result.
var bound = regexp.MustCompile(`(?m)\bfor\s*\(?\s*([\w.]+(?:\s*,\s*[\w.]+)*)\s*\)?\s+in\b|^\s*(?:from\s+[\w.]+\s+)?import\s+(.+)$`)

// variables are the names among those of a map from names to lines that can hold a result.
func (s *side) variables(cell int, names map[string][]int) []string {
	var skip []string
	for _, m := range bound.FindAllStringSubmatch(s.cells[cell].Source, -1) {
		skip = append(skip, strings.FieldsFunc(m[1]+m[2], func(r rune) bool { return strings.ContainsRune(" \t,().", r) })...)
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(name string) bool { return slices.Contains(skip, name) })
}

// last is the one of some names whose last line is the last.
func last(names []string, lines map[string][]int) string {
	best, at := "", 0
	for _, name := range names {
		if line := slices.Max(lines[name]); line > at {
			best, at = name, line
		}
	}
	return best
}

// key is the variable that a cell's outputs belong to: the one it shows last, or assigns last if it shows none; "" if there is neither. shown says which.
func (s *side) key(cell int) (name string, shown bool) {
	f := s.facts[cell]
	if name := last(s.variables(cell, f.Shown), f.Shown); name != "" {
		return name, true
	}
	return last(s.variables(cell, f.Assigned), f.Assigned), false
}

// Limits of what is read of one cell.
const (
	maxCellBytes  = 1 << 20
	maxCellValues = 32
)

// values are what a cell shows, which is read once.
func (s *side) values(cell int) []value {
	values, known := s.read[cell]
	if !known {
		values = s.readValues(cell)
		s.read[cell] = values
	}
	return values
}

// readValues reads what a cell shows. Errors and what is printed to stderr show nothing.
func (s *side) readValues(cell int) []value {
	c := &s.cells[cell]
	var values []value
	left := maxCellBytes
	picture, open := false, ""
	flush := func() {
		values = appendValues(values, readPlain(open))
		open = ""
	}
	for _, o := range c.Outputs {
		if o.Kind == notebook.Error || o.Kind == notebook.Stream && o.Stream == "stderr" {
			continue
		}
		if left -= len(o.Text) + len(o.HTML); left < 0 || len(values) >= maxCellValues {
			break
		}
		if o.Kind == notebook.Stream {
			// Programs write when they like: a line may come in two outputs.
			open += o.Text
			if strings.HasSuffix(open, "\n") {
				flush()
			}
			continue
		}
		flush()
		switch {
		case o.Images > 0:
			if !picture {
				values = append(values, value{kind: pictureKind})
			}
			picture = true
		case o.HTML != "":
			tables := readHTML(o.HTML)
			if text, ok := plainHTML(o.HTML); ok {
				tables = readPlain(text)
			} else if len(tables) == 0 {
				tables = readPlain(o.Text)
			}
			values = append(values, tables...)
		default:
			values = append(values, readPlain(o.Text)...)
		}
	}
	flush()
	if len(values) > maxCellValues {
		values = values[:maxCellValues]
	}
	if showsPart(s.facts[cell]) {
		for _, v := range values {
			if v.kind == tableKind {
				v.table.partial, v.table.total = true, -1
			}
		}
	}
	return values
}

// appendValues appends what was printed next. Text goes on with the text before it.
func appendValues(values, more []value) []value {
	if n := len(values); n > 0 && len(more) > 0 && values[n-1].kind == textKind && more[0].kind == textKind {
		values[n-1].text += "\n" + more[0].text
		more = more[1:]
	}
	return append(values, more...)
}

// showsPart reports whether a cell shows only some rows, by head and the like, of a table that it has from elsewhere. What is assigned from head is another table, shown whole.
func showsPart(f *code.Facts) bool {
	for _, name := range []string{"head", "tail", "sample", "slice_head", "slice_tail", "slice_sample", "sample_n"} {
		for _, line := range f.Called[name] {
			if assigned := before(f.Assigned, line); assigned == 0 || before(f.Shown, line) > assigned {
				return true
			}
		}
	}
	return false
}

// before is the last of the lines up to a certain one, 0 if there is none.
func before(lines map[string][]int, line int) int {
	at := 0
	for _, list := range lines {
		for _, l := range list {
			if l <= line {
				at = max(at, l)
			}
		}
	}
	return at
}
