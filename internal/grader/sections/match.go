package sections

import (
	"slices"

	"tandem/internal/grader/rubric"
)

// matcher finds which heading begins which section.
type matcher struct {
	headings []heading
	sections []rubric.Section
	owner    []int // of each heading: index of the section that it begins, -1 for none
	found    []bool
}

func newMatcher(h []heading, s []rubric.Section) *matcher {
	m := &matcher{headings: h, sections: s, owner: make([]int, len(h)), found: make([]bool, len(s))}
	for i := range m.owner {
		m.owner[i] = -1
	}
	return m
}

// match returns the id of the section that each cell begins, by the cell's index.
func (m *matcher) match() map[int]string {
	// By Heading, Name and id in turn; for each the surest way first.
	for _, key := range []func(*rubric.Section) string{
		func(s *rubric.Section) string { return s.Heading },
		func(s *rubric.Section) string { return s.Name },
		func(s *rubric.Section) string { return s.ID },
	} {
		names := make([]label, len(m.sections))
		for i := range m.sections {
			names[i] = newLabel(key(&m.sections[i]))
		}
		m.equal(names, false, func(l label) []string { return l.words })
		m.equal(names, false, func(l label) []string { return l.plain })
		m.within(names)
		m.equal(names, true, func(l label) []string { return l.words })
		m.equal(names, true, func(l label) []string { return l.plain })
	}
	begins := map[int]string{}
	for i, s := range m.owner {
		if s >= 0 {
			begins[m.headings[i].cell] = m.sections[s].ID
		}
	}
	return begins
}

// equal gives sections that have no heading yet those that are equal to their names; a heading equal to several names is none.
func (m *matcher) equal(names []label, comment bool, part func(label) []string) {
	before := slices.Clone(m.found)
	for i, h := range m.headings {
		if m.owner[i] >= 0 || h.comment != comment {
			continue
		}
		one := -1
		for s, n := range names {
			if !before[s] && len(n.words) > 0 && slices.Equal(part(n), part(h.label)) {
				if one >= 0 {
					one = -1
					break
				}
				one = s
			}
		}
		if one >= 0 {
			m.owner[i], m.found[one] = one, true
		}
	}
}

// within gives each section that has no heading yet the heading of Markdown that contains its name and the fewest other words.
func (m *matcher) within(names []label) {
	best := map[int]int{} // section → heading
	for i, h := range m.headings {
		if m.owner[i] >= 0 || h.comment {
			continue
		}
		if s := m.longest(names, h.label); s >= 0 && !m.found[s] {
			if b, ok := best[s]; !ok || len(h.words) < len(m.headings[b].words) {
				best[s] = i
			}
		}
	}
	for s, i := range best {
		m.owner[i], m.found[s] = s, true
	}
}

// longest is the section whose name stands in a heading and has the names of all others that stand there within it, -1 if there is none.
func (m *matcher) longest(names []label, h label) int {
	one := -1
	var in []int
	for s, n := range names {
		if contains(h.words, n.plain) && telling(n.plain) || contains(h.words, n.words) && telling(n.words) {
			in = append(in, s)
			if one < 0 || len(n.words) > len(names[one].words) {
				one = s
			}
		}
	}
	for _, s := range in {
		if s != one && !contains(names[one].words, names[s].plain) {
			return -1
		}
	}
	return one
}

// telling reports whether words say enough to be looked for within a heading: "a" and "R" do not.
func telling(words []string) bool { return len(words) > 1 || len(words) == 1 && len(words[0]) > 2 }
