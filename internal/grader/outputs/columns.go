package outputs

import (
	"cmp"
	"slices"
	"strings"
)

// pairedColumn is a column of the solution's table and the student's column that stands for it.
type pairedColumn struct{ want, got int }

func (c pairedColumn) ofWant() int { return c.want }
func (c pairedColumn) ofGot() int  { return c.got }

// pairColumns matches columns by name. A column without a name, as of row names or of a vector, stands for the first one left over that holds the same: words or numbers. A column
// of another name stands for one that has the same values, as after kable(col.names = …). byPlace
// says that no name was found at all, and that the columns are paired in their order, since there are as many of both columns and rows. missing are those of
// the solution's columns that the student's table has not, nor hides for want of width.
func pairColumns(want, got *table, tolerance float64) (pairs []pairedColumn, missing []int, byPlace bool) {
	byName := map[string][]int{}
	for i, c := range got.columns {
		byName[c.key] = append(byName[c.key], i)
	}
	taken := make([]bool, len(got.columns))
	partner := make([]int, len(want.columns))
	named := false
	for i, c := range want.columns {
		partner[i] = -1
		if list := byName[c.key]; c.name != "" && len(list) > 0 && !misnamed(want, got, i, list[0]) {
			partner[i] = list[0]
			taken[list[0]] = true
			byName[c.key] = list[1:]
			named = true
		}
	}
	for i, c := range want.columns {
		if partner[i] >= 0 {
			continue
		}
		for k, g := range got.columns {
			if !taken[k] && (c.name == "" || g.name == "") && want.wordy(i) == got.wordy(k) {
				partner[i], taken[k] = k, true
				break
			}
		}
	}
	pairByContent(want, got, partner, taken, tolerance)
	if !slices.ContainsFunc(partner, func(k int) bool { return k >= 0 }) || !named && slices.Contains(partner, -1) {
		if byPlace = len(want.columns) == len(got.columns) && len(want.rows) == len(got.rows); byPlace {
			for i := range partner {
				partner[i] = i
			}
		}
	}
	for i, k := range partner {
		switch {
		case k >= 0:
			pairs = append(pairs, pairedColumn{i, k})
		case !got.hides(want.columns[i]):
			missing = append(missing, i)
		}
	}
	return pairs, missing, byPlace
}

// misnamed reports whether a column of the student's only has the name of the solution's: the one holds words and the other numbers, and another one, without a name, holds what this one
// should. Older pandas so name the counts of value_counts.
func misnamed(want, got *table, i, k int) bool {
	return want.wordy(i) != got.wordy(k) && slices.ContainsFunc(got.columns, func(c column) bool { return c.name == "" }) &&
		got.wordy(slices.IndexFunc(got.columns, func(c column) bool { return c.name == "" })) == want.wordy(i)
}

// maxRenamed is how many columns of each table are looked for by what they hold.
const maxRenamed = 10

// pairByContent pairs columns that are left over and hold the same values.
func pairByContent(want, got *table, partner []int, taken []bool, tolerance float64) {
	if want.partial || got.partial || len(want.rows) != len(got.rows) || len(want.rows) < 2 {
		return
	}
	var left [][]scalar
	var at []int
	for k := range got.columns {
		if !taken[k] && len(left) < maxRenamed {
			left, at = append(left, got.sorted(k)), append(at, k)
		}
	}
	tried := 0
	for i, k := range partner {
		if k >= 0 || tried == maxRenamed {
			continue
		}
		tried++
		values := want.sorted(i)
		same := slices.IndexFunc(left, func(other []scalar) bool {
			return slices.EqualFunc(values, other, func(a, b scalar) bool { return alikeScalars(a, b, tolerance).grade != apart })
		})
		if same >= 0 {
			partner[i], taken[at[same]] = at[same], true
			left, at = slices.Delete(left, same, same+1), slices.Delete(at, same, same+1)
		}
	}
}

// sorted are the values of a column in order: numbers by size, then words.
func (t *table) sorted(i int) []scalar {
	values := make([]scalar, len(t.rows))
	for k, row := range t.rows {
		values[k] = row[i]
	}
	slices.SortStableFunc(values, func(a, b scalar) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.num.value, b.num.value), cmp.Compare(a.word, b.word))
	})
	return values
}

// renamed names the pairs of columns that have different names.
func renamed(want, got *table, pairs []pairedColumn) string {
	var names []string
	for _, p := range pairs {
		if w, g := want.columns[p.want], got.columns[p.got]; w.name != "" && g.name != "" && w.key != g.key {
			names = append(names, g.name+" for "+w.name)
		}
	}
	return strings.Join(names, ", ")
}

// wordy reports whether most of what a column holds is words.
func (t *table) wordy(i int) bool {
	words := 0
	for _, row := range t.rows {
		switch row[i].kind {
		case word:
			words++
		case numeric:
			words--
		}
	}
	return words > 0
}

// hides reports whether a print left the column out, or may have.
func (t *table) hides(c column) bool {
	if !t.narrow || len(t.hidden) == 0 {
		return t.narrow
	}
	return slices.ContainsFunc(t.hidden, func(name string) bool { return foldName(name) == c.key })
}

// further names the student's columns that the solution has not.
func further(got *table, pairs []pairedColumn) string {
	var names []string
	for i, c := range got.columns {
		if c.name != "" && !slices.ContainsFunc(pairs, func(p pairedColumn) bool { return p.got == i }) {
			names = append(names, c.name)
		}
	}
	return strings.Join(names, ", ")
}
