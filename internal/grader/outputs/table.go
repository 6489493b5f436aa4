package outputs

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Limits of what is read of one table. What lies beyond is left out, and the table counts as partly shown.
const (
	maxRows    = 2000
	maxColumns = 100
)

// table is a table as an output shows it.
type table struct {
	columns []column
	rows    [][]scalar // each as long as columns
	partial bool       // rows are left out
	head    int        // rows before those that are left out in the middle, 0 if none are
	narrow  bool       // columns are left out
	hidden  []string   // names of columns that are left out, as far as they are told
	total   int        // rows of the whole table, -1 if that is not told
	vector  bool       // a sequence of values rather than a table: one column without a name
}

// column is a column's name, "" if it has none, as for row names, and the name in the form in which names are compared: folded, unless nothing is left of it then.
type column struct{ name, key string }

// foldName brings a column's name into the form in which names are compared: letters and digits, in lower case.
func foldName(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

// name is the name of a column for a person, its number if it has none.
func (t *table) name(i int) string { return cmp.Or(t.columns[i].name, strconv.Itoa(i+1)) }

// line shows cells of a row.
func (t *table) line(i int, columns []pairedColumn, column func(pairedColumn) int) string {
	cells := make([]string, len(columns))
	for k, c := range columns {
		cells[k] = t.rows[i][column(c)].shown()
	}
	return strings.Join(cells, ", ")
}

func (t *table) titles() string {
	names := make([]string, len(t.columns))
	for i := range t.columns {
		names[i] = cmp.Or(t.columns[i].name, "one without a name")
	}
	return strings.Join(names, ", ")
}

// grid is a table before its cells are read.
type grid struct {
	names  []string   // of the columns, "" for those without; those that are missing at the end have none
	labels int        // how many of the first columns are row names or an index
	rows   [][]string // may be ragged
	narrow bool
	hidden []string
	part   bool // rows are left out
	total  int  // as the output tells, 0 if it does not
}

// table reads the cells. Row names that only count are left out, and so are the rows and columns of dots that stand for others. It is nil if nothing is left.
func (g *grid) table() *table {
	t := &table{partial: g.part, narrow: g.narrow, hidden: g.hidden}
	width := len(g.names)
	for _, row := range g.rows {
		width = max(width, len(row))
	}
	if width > maxColumns {
		width, t.narrow = maxColumns, true
	}
	if dots := slices.IndexFunc(g.rows, allDots); dots > 0 && dots < len(g.rows)-1 {
		t.head = dots
	}
	rows := slices.DeleteFunc(slices.Clone(g.rows), func(row []string) bool {
		dots := allDots(row)
		t.partial = t.partial || dots
		return dots
	})
	if len(rows) > maxRows {
		rows, t.partial = rows[:maxRows], true
	}

	var keep []int
	for i := range width {
		name := cell(g.names, i)
		switch {
		case isDots(name) && name != "":
			t.narrow = true
		case i < g.labels && name == "" && counts(rows, i):
		default:
			keep = append(keep, i)
			t.columns = append(t.columns, column{name, cmp.Or(foldName(name), name)})
		}
	}
	if len(keep) == 0 {
		return nil
	}
	for _, row := range rows {
		cells := make([]scalar, len(keep))
		for k, i := range keep {
			cells[k] = readScalar(cell(row, i))
		}
		t.rows = append(t.rows, cells)
	}
	t.total = len(t.rows)
	if t.partial {
		t.total = -1
		if g.total > len(t.rows) {
			t.total = g.total
		}
	}
	return t
}

func cell(row []string, i int) string {
	if i < len(row) {
		return strings.TrimSpace(row[i])
	}
	return ""
}

func isDots(s string) bool {
	switch s {
	case "", "...", "…", "⋮", "⋯", "⋱", "..":
		return true
	}
	return false
}

// allDots reports whether a row stands for rows that are left out.
func allDots(row []string) bool {
	dots := false
	for i := range row {
		c := cell(row, i)
		if !isDots(c) {
			return false
		}
		dots = dots || c != ""
	}
	return dots
}

// label is a row name that only counts: 1, 1: of data.table, [1,] of a matrix, 1* of a tibble.
var label = regexp.MustCompile(`^\[?\d+[,:*]?\]?$`)

func counts(rows [][]string, i int) bool {
	for _, row := range rows {
		if !label.MatchString(cell(row, i)) {
			return false
		}
	}
	return true
}

// vector makes a table of a sequence of values; a single one is a value by itself.
func vector(values []string) value {
	if len(values) == 1 {
		return scalarValue(readScalar(values[0]))
	}
	g := grid{names: []string{""}}
	for _, v := range values {
		g.rows = append(g.rows, []string{v})
	}
	t := g.table()
	t.vector = true
	return tableValue(t)
}

// named makes a table of values that have a name each; without names it is a sequence.
func named(names, values []string) value {
	if len(names) != len(values) || len(values) == 1 {
		return vector(values)
	}
	g := grid{names: []string{"", ""}, labels: 1}
	for i, v := range values {
		g.rows = append(g.rows, []string{names[i], v})
	}
	return tableValue(g.table())
}
