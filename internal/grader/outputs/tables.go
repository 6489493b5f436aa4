package outputs

import (
	"fmt"
	"slices"
	"strconv"
)

// compareTables compares two tables by their content: the order of rows and columns, row names that count, and further columns of the student's do not matter.
func compareTables(want, got *table, tolerance float64) outcome {
	if want.vector && got.vector && !want.wordy(0) && !got.wordy(0) {
		return compareSequences(want, got, tolerance)
	}
	columns, missing, byPlace := pairColumns(want, got, tolerance)
	var o outcome
	for _, i := range missing {
		o.differ(Discrepancy{Where: "column " + want.name(i), Want: "among the columns " + want.titles(), Got: "the columns " + got.titles()})
	}
	if len(columns) == 0 {
		return o
	}
	if want.total >= 0 && got.total >= 0 && want.total != got.total {
		o.differ(Discrepancy{Where: "number of rows", Want: strconv.Itoa(want.total), Got: strconv.Itoa(got.total)})
	} else if len(want.rows) > 0 && len(got.rows) == 0 {
		o.differ(Discrepancy{Where: "number of rows", Want: strconv.Itoa(len(want.rows)), Got: "0"})
	}
	m := newMatcher(want, got, columns, tolerance)
	m.inPlace()
	m.anywhere()
	m.resembling()
	equal := m.differences(&o)

	whole := len(want.rows)
	if got.partial {
		whole = min(whole, len(got.rows))
	}
	o.share = float64(equal) / float64(max(whole, 1)) * float64(len(columns)) / float64(len(want.columns))
	o.equal = len(o.diffs) == 0
	if byPlace {
		o.note("the columns have other names and were compared in their order")
	} else if names := renamed(want, got, columns); names != "" {
		o.note("other names: %s", clip(names))
	}
	if want.partial || got.partial {
		o.note("compared are the %s shown", plural(min(len(want.rows), len(got.rows)), "row"))
	}
	if o.equal {
		o.notes = append(o.notes, m.notes()...)
	}
	if names := further(got, columns); names != "" {
		o.note("further columns: %s", clip(names))
	}
	return o
}

// differences lists what is not equal, whole rows first, and counts the rows that are equal. Of tables that are not shown in full, only rows that the other one must have count.
func (m *matcher) differences(o *outcome) (equal int) {
	wantCounts, gotCounts := len(m.want.rows), len(m.got.rows) // the first rows
	switch both := m.want.partial && m.got.partial; {
	case both && m.want.head > 0 && m.got.head == 0 && m.want.head < gotCounts:
		// The one print ends where the other leaves rows out: the last rows of that need not be in it.
		wantCounts, gotCounts = m.want.head, 0
	case both && m.got.head > 0 && m.want.head == 0 && m.got.head < wantCounts:
		wantCounts, gotCounts = 0, m.got.head
	case both && wantCounts <= gotCounts, !both && m.want.partial:
		gotCounts = 0
	case both, m.got.partial:
		wantCounts = 0
	}
	for i, j := range m.partner {
		if j < 0 && i < wantCounts {
			o.differ(Discrepancy{Where: m.label(i), Want: m.want.line(i, m.columns, pairedColumn.ofWant), Got: NoSuchRow})
		}
	}
	for j, used := range m.used {
		if !used && j < gotCounts {
			o.differ(Discrepancy{Where: "row that the solution has not", Want: "no such row", Got: m.got.line(j, m.columns, pairedColumn.ofGot)})
		}
	}
	for i, j := range m.partner {
		if j >= 0 && m.compareRow(o, i, j) {
			equal++
		}
	}
	return equal
}

// compareRow lists the cells that differ in a pair of rows, and reports whether there are none.
func (m *matcher) compareRow(o *outcome, i, j int) bool {
	equal := true
	for _, c := range m.columns {
		l := m.alike(i, j, c)
		if l.grade != apart {
			m.agreed.add(l)
			continue
		}
		equal = false
		o.differ(Discrepancy{Where: m.place(i, c), Want: m.want.rows[i][c.want].shown(), Got: m.got.rows[j][c.got].shown()})
	}
	return equal
}

// place names a cell.
func (m *matcher) place(i int, c pairedColumn) string {
	switch {
	case len(m.want.columns) == 1 && m.want.columns[0].name == "":
		return "value " + strconv.Itoa(i+1)
	case len(m.want.rows) == 1:
		return "column " + m.want.name(c.want)
	}
	return m.label(i) + ", column " + m.want.name(c.want)
}

// notes says in what equal tables are not the same.
func (m *matcher) notes() []string {
	places := slices.DeleteFunc(slices.Clone(m.partner), func(j int) bool { return j < 0 })
	rows := slices.IsSorted(places)
	columns := slices.IsSortedFunc(m.columns, func(a, b pairedColumn) int { return a.got - b.got })
	var notes []string
	switch {
	case !rows && !columns:
		notes = append(notes, "equal but for the order of rows and columns")
	case !rows:
		notes = append(notes, "equal but for the order of the rows")
	case !columns:
		notes = append(notes, "equal but for the order of the columns")
	}
	return append(notes, m.agreed.notes(m.tolerance)...)
}

// compareSequences compares two sequences of numbers, whose order says something: the sizes of a table, a running total.
func compareSequences(want, got *table, tolerance float64) outcome {
	var o outcome
	var agreed agreement
	if len(want.rows) != len(got.rows) && !want.partial && !got.partial {
		o.differ(Discrepancy{Where: "number of values", Want: strconv.Itoa(len(want.rows)), Got: strconv.Itoa(len(got.rows))})
	}
	equal := 0
	n := min(len(want.rows), len(got.rows))
	for i := range n {
		l := alikeScalars(want.rows[i][0], got.rows[i][0], tolerance)
		if l.grade == apart {
			o.differ(Discrepancy{Where: "value " + strconv.Itoa(i+1), Want: want.rows[i][0].shown(), Got: got.rows[i][0].shown()})
			continue
		}
		agreed.add(l)
		equal++
	}
	o.share = float64(equal) / float64(max(len(want.rows), len(got.rows), 1))
	o.equal = len(o.diffs) == 0
	if o.equal {
		o.notes = agreed.notes(tolerance)
	}
	if want.partial || got.partial {
		o.note("compared are the %s shown", plural(n, "value"))
	}
	return o
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
