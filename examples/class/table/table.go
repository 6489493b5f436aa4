// Package table is as much of a data frame as the example class needs: read, join, filter, summarise, and print as R and pandas print.
package table

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Table is columns and rows. A cell is a string, an int, a float64, or nil, which R calls NA and pandas NaN.
type Table struct {
	Columns []string
	Rows    [][]any
}

// Row gives the cells of one row by the names of their columns.
type Row struct {
	table *Table
	cells []any
}

// Get returns a cell. A column that is not there is a mistake in the program.
func (r Row) Get(column string) any { return r.cells[r.table.index(column)] }

// Missing reports whether a cell holds nothing.
func (r Row) Missing(column string) bool { return r.Get(column) == nil }

// Number returns a cell that holds a number.
func (r Row) Number(column string) float64 {
	switch v := r.Get(column).(type) {
	case int:
		return float64(v)
	case float64:
		return v
	default:
		panic(fmt.Sprintf("column %s holds %v, which is no number", column, v))
	}
}

func (t *Table) index(column string) int {
	i := slices.Index(t.Columns, column)
	if i < 0 {
		panic(fmt.Sprintf("no column %q among %q", column, t.Columns))
	}
	return i
}

// ReadCSV reads a table whose first line names the columns. A column is of ints or of floats if all its cells are, else of strings.
func ReadCSV(r io.Reader) (*Table, error) {
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	if len(lines) < 2 {
		return nil, fmt.Errorf("read table: want a line of names and one of cells at least, got %d lines", len(lines))
	}
	t := &Table{Columns: lines[0], Rows: make([][]any, len(lines)-1)}
	for i := range t.Rows {
		t.Rows[i] = make([]any, len(t.Columns))
	}
	for c := range t.Columns {
		parse := parser(lines[1:], c)
		for i, line := range lines[1:] {
			t.Rows[i][c] = parse(line[c])
		}
	}
	return t, nil
}

// parser finds the narrowest type that all cells of a column have.
func parser(lines [][]string, column int) func(string) any {
	whole := func(s string) bool { _, err := strconv.Atoi(s); return err == nil }
	number := func(s string) bool { _, err := strconv.ParseFloat(s, 64); return err == nil }
	all := func(is func(string) bool) bool {
		return !slices.ContainsFunc(lines, func(line []string) bool { return !is(line[column]) })
	}
	switch {
	case all(whole):
		return func(s string) any { n, _ := strconv.Atoi(s); return n }
	case all(number):
		return func(s string) any { f, _ := strconv.ParseFloat(s, 64); return f }
	default:
		return func(s string) any { return s }
	}
}

// Head returns the first rows, n at most.
func (t *Table) Head(n int) *Table {
	return &Table{t.Columns, t.Rows[:min(n, len(t.Rows))]}
}

// Select returns the named columns, in this order.
func (t *Table) Select(columns ...string) *Table {
	out := &Table{Columns: slices.Clone(columns)}
	for _, cells := range t.Rows {
		row := make([]any, len(columns))
		for i, c := range columns {
			row[i] = cells[t.index(c)]
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// Where returns the rows that keep says yes to.
func (t *Table) Where(keep func(Row) bool) *Table {
	out := &Table{Columns: t.Columns}
	for _, cells := range t.Rows {
		if keep(Row{t, cells}) {
			out.Rows = append(out.Rows, cells)
		}
	}
	return out
}

// With returns the table with one more column, or with new values in the one of that name.
func (t *Table) With(column string, value func(Row) any) *Table {
	at := slices.Index(t.Columns, column)
	out := &Table{Columns: t.Columns}
	if at < 0 {
		out.Columns = append(slices.Clip(t.Columns), column)
	}
	for _, cells := range t.Rows {
		v := value(Row{t, cells})
		if at < 0 {
			out.Rows = append(out.Rows, append(slices.Clip(cells), v))
		} else {
			row := slices.Clone(cells)
			row[at] = v
			out.Rows = append(out.Rows, row)
		}
	}
	return out
}

// LeftJoin adds the columns of the row of other that has the same key, which is there once at most; nil where there is none.
func (t *Table) LeftJoin(other *Table, key string) *Table {
	partners := map[any][]any{}
	at := other.index(key)
	for _, cells := range other.Rows {
		partners[cells[at]] = slices.Delete(slices.Clone(cells), at, at+1)
	}
	out := &Table{Columns: append(slices.Clip(t.Columns), slices.Delete(slices.Clone(other.Columns), at, at+1)...)}
	for _, cells := range t.Rows {
		partner, found := partners[cells[t.index(key)]]
		if !found {
			partner = make([]any, len(other.Columns)-1)
		}
		out.Rows = append(out.Rows, append(slices.Clip(cells), partner...))
	}
	return out
}

// Group returns a row for each value of a column, in the order of the values: the value, and what the measures say of its rows.
func (t *Table) Group(by string, measures ...Measure) *Table {
	out := &Table{Columns: []string{by}}
	for _, m := range measures {
		out.Columns = append(out.Columns, m.Name)
	}
	groups := map[string]*Table{}
	var values []string
	for _, cells := range t.Rows {
		value := cells[t.index(by)].(string)
		if groups[value] == nil {
			groups[value] = &Table{Columns: t.Columns}
			values = append(values, value)
		}
		groups[value].Rows = append(groups[value].Rows, cells)
	}
	slices.Sort(values)
	for _, value := range values {
		row := []any{value}
		for _, m := range measures {
			row = append(row, m.Of(groups[value]))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// Measure is a column of a summary.
type Measure struct {
	Name string
	Of   func(*Table) any
}

// Count counts rows.
func Count(name string) Measure { return Measure{name, func(t *Table) any { return len(t.Rows) }} }

// Sum adds a column up.
func Sum(name, column string) Measure {
	return Measure{name, func(t *Table) any { return t.Sum(column) }}
}

// Mean is the mean of a column.
func Mean(name, column string) Measure {
	return Measure{name, func(t *Table) any { return t.Sum(column) / float64(len(t.Rows)) }}
}

// Sum adds a column up.
func (t *Table) Sum(column string) float64 {
	sum := 0.0
	for _, cells := range t.Rows {
		sum += Row{t, cells}.Number(column)
	}
	return sum
}

// Descending sorts by a column of numbers, greatest first.
func (t *Table) Descending(column string) *Table {
	return t.sorted(func(a, b Row) int { return cmp.Compare(b.Number(column), a.Number(column)) })
}

// Ascending sorts by a column of numbers, least first.
func (t *Table) Ascending(column string) *Table {
	return t.sorted(func(a, b Row) int { return cmp.Compare(a.Number(column), b.Number(column)) })
}

func (t *Table) sorted(compare func(a, b Row) int) *Table {
	out := &Table{t.Columns, slices.Clone(t.Rows)}
	slices.SortStableFunc(out.Rows, func(a, b []any) int { return compare(Row{t, a}, Row{t, b}) })
	return out
}
