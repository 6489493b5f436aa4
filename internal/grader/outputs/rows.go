package outputs

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// matcher finds the rows of the solution's table in the student's. Rows that agree in all cells belong together, whatever their place; of the others those that have
// the most in common do. The work is bounded by the rows times [maxTries] times the columns.
type matcher struct {
	want, got *table
	columns   []pairedColumn
	words     []pairedColumn // of these: columns that hold words, by which rows are told apart
	tolerance float64

	partner []int     // of each row of want, -1 if it has none
	used    []bool    // rows of got
	agreed  agreement // of the cells of paired rows
}

// maxTries is with how many rows a row is compared, beside the one in its own place.
const maxTries = 64

func newMatcher(want, got *table, columns []pairedColumn, tolerance float64) *matcher {
	m := &matcher{want: want, got: got, columns: columns, tolerance: tolerance, partner: make([]int, len(want.rows)), used: make([]bool, len(got.rows))}
	for i := range m.partner {
		m.partner[i] = -1
	}
	for _, c := range columns {
		if want.wordy(c.want) {
			m.words = append(m.words, c)
		}
	}
	return m
}

func (m *matcher) alike(i, j int, c pairedColumn) likeness {
	return alikeScalars(m.want.rows[i][c.want], m.got.rows[j][c.got], m.tolerance)
}

// take pairs two rows if they agree in all cells.
func (m *matcher) take(i, j int) bool {
	for _, c := range m.columns {
		if m.alike(i, j, c).grade == apart {
			return false
		}
	}
	m.pair(i, j)
	return true
}

func (m *matcher) pair(i, j int) { m.partner[i], m.used[j] = j, true }

// inPlace pairs rows that agree and stand in the same place.
func (m *matcher) inPlace() {
	for i := range min(len(m.want.rows), len(m.got.rows)) {
		m.take(i, i)
	}
}

// group is rows of both tables that have the same words.
type group struct{ want, got []int }

// groups sorts the rows without partner by their words, in the order of the solution.
func (m *matcher) groups() []*group {
	var list []*group
	byKey := map[string]*group{}
	of := func(row []scalar, column func(pairedColumn) int) *group {
		var b strings.Builder
		for _, c := range m.words {
			b.WriteString(row[column(c)].key())
			b.WriteByte(0)
		}
		g := byKey[b.String()]
		if g == nil {
			g = &group{}
			byKey[b.String()] = g
			list = append(list, g)
		}
		return g
	}
	for i, row := range m.want.rows {
		if m.partner[i] < 0 {
			g := of(row, pairedColumn.ofWant)
			g.want = append(g.want, i)
		}
	}
	for j, row := range m.got.rows {
		if !m.used[j] {
			g := of(row, pairedColumn.ofGot)
			g.got = append(g.got, j)
		}
	}
	return list
}

// anywhere pairs rows that agree, wherever they stand. Within a group both sides are sorted by their numbers, those of the most telling column first, so that rows which agree
// are close to each other, if not side by side since one may be rounded.
func (m *matcher) anywhere() {
	columns := m.telling()
	for _, g := range m.groups() {
		if len(g.want) == 0 || len(g.got) == 0 {
			continue
		}
		slices.SortStableFunc(g.want, func(a, b int) int {
			return compareRows(m.want.rows[a], m.want.rows[b], columns, pairedColumn.ofWant)
		})
		slices.SortStableFunc(g.got, func(a, b int) int {
			return compareRows(m.got.rows[a], m.got.rows[b], columns, pairedColumn.ofGot)
		})
		m.merge(g, columns)
	}
}

// merge walks through both sides of a sorted group.
func (m *matcher) merge(g *group, columns []pairedColumn) {
	open := g.got
	for _, i := range g.want {
		// What is too small for this row is too small for all that follow.
		for len(open) > 0 && (m.used[open[0]] || len(columns) > 0 && m.below(open[0], i, columns[0])) {
			open = open[1:]
		}
		tries := 0
		for _, j := range open {
			if m.used[j] {
				continue
			}
			if tries++; tries > maxTries || m.take(i, j) {
				break
			}
		}
		// Used rows within the window would be passed again and again.
		if len(open) > 4*maxTries {
			open = m.squeeze(open, 4*maxTries)
		}
	}
}

// squeeze removes the used rows among the first n.
func (m *matcher) squeeze(open []int, n int) []int {
	used := 0
	for _, j := range open[:n] {
		if m.used[j] {
			used++
		}
	}
	if used < n/2 {
		return open
	}
	kept := n - 1
	for k := n - 1; k >= 0; k-- {
		if !m.used[open[k]] {
			open[kept] = open[k]
			kept--
		}
	}
	return open[kept+1:]
}

// below reports whether a row of the student's has too small a number in a column.
func (m *matcher) below(j, i int, c pairedColumn) bool {
	return order(m.got.rows[j][c.got]) < order(m.want.rows[i][c.want]) && m.alike(i, j, c).grade == apart
}

// telling returns the columns of numbers, the one with the most values first.
func (m *matcher) telling() []pairedColumn {
	var columns []pairedColumn
	values := map[pairedColumn]int{}
	for _, c := range m.columns {
		if slices.Contains(m.words, c) {
			continue
		}
		seen := map[float64]struct{}{}
		for _, row := range m.want.rows {
			seen[row[c.want].num.value] = struct{}{}
		}
		values[c] = len(seen)
		columns = append(columns, c)
	}
	slices.SortStableFunc(columns, func(a, b pairedColumn) int { return values[b] - values[a] })
	return columns
}

func compareRows(a, b []scalar, columns []pairedColumn, column func(pairedColumn) int) int {
	for _, c := range columns {
		if d := cmp.Compare(order(a[column(c)]), order(b[column(c)])); d != 0 {
			return d
		}
	}
	return 0
}

// order is where a cell stands among numbers: one without a value before all of them.
func order(s scalar) float64 {
	if s.kind != numeric {
		return math.Inf(-1)
	}
	return s.num.value
}

// resembling pairs rows that have none equal to them with those that have the most in common: first rows with the same words, then others of which half the cells agree.
func (m *matcher) resembling() {
	rest := &group{}
	for _, g := range m.groups() {
		if len(m.words) > 0 || len(g.want) == 1 && len(g.got) == 1 {
			m.closest(g, 0)
		}
		rest.want, rest.got = append(rest.want, g.want...), append(rest.got, g.got...)
	}
	slices.Sort(rest.want)
	slices.Sort(rest.got)
	m.closest(rest, 0.5)
}

// closest pairs the first rows of a group that are left, those with the most equal cells first. The share of equal cells must be as large as least.
func (m *matcher) closest(g *group, least float64) {
	type couple struct{ want, got, equal int }
	var couples []couple
	want, got := m.open(g)
	for _, i := range want {
		for _, j := range got {
			c := couple{want: i, got: j}
			for _, column := range m.columns {
				if m.alike(i, j, column).grade != apart {
					c.equal++
				}
			}
			if float64(c.equal) >= least*float64(len(m.columns)) {
				couples = append(couples, c)
			}
		}
	}
	slices.SortStableFunc(couples, func(a, b couple) int { return b.equal - a.equal })
	for _, c := range couples {
		if m.partner[c.want] < 0 && !m.used[c.got] {
			m.pair(c.want, c.got)
		}
	}
}

// open returns the rows of a group without partner, [maxTries] of each side at most.
func (m *matcher) open(g *group) (want, got []int) {
	for _, i := range g.want {
		if m.partner[i] < 0 && len(want) < maxTries {
			want = append(want, i)
		}
	}
	for _, j := range g.got {
		if !m.used[j] && len(got) < maxTries {
			got = append(got, j)
		}
	}
	return want, got
}

// maxLabels is how many cells name a row.
const maxLabels = 3

// label names a row of the solution by its words, else by its first number, as far as the student's row has the same.
func (m *matcher) label(i int) string {
	var parts []string
	for _, c := range slices.Concat(m.words, m.columns) {
		if len(parts) > 0 && len(parts) >= min(len(m.words), maxLabels) {
			break
		}
		if j := m.partner[i]; j < 0 || m.alike(i, j, c).grade != apart {
			part := m.want.rows[i][c.want].shown()
			if name := m.want.columns[c.want].name; name != "" {
				part = name + " = " + part
			}
			parts = append(parts, part)
		}
	}
	return "row " + cmp.Or(strings.Join(parts, ", "), strconv.Itoa(i+1))
}
