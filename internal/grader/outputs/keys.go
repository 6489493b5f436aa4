package outputs

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
)

// exhibit is what a cell of the solution shows.
type exhibit struct {
	cell     int
	variable string // that it belongs to, "" if it belongs to none
	section  string
	values   []value
}

// exhibits lists what the solution shows, in its order. Of several cells that show the same variable the last counts, before those that only assign it.
func (s *side) exhibits() []*exhibit {
	var list []*exhibit
	type place struct {
		at    int
		shown bool
	}
	places := map[string]place{}
	for i := range s.code {
		values := telling(slices.Clone(s.values(i)))
		if len(values) == 0 {
			continue
		}
		e := &exhibit{cell: i, section: s.sections.Of(i), values: values}
		var shown bool
		e.variable, shown = s.key(i)
		if e.variable != "" {
			if earlier, ok := places[e.variable]; ok {
				if earlier.shown && !shown {
					continue
				}
				list[earlier.at] = nil
			}
			places[e.variable] = place{len(list), shown}
		}
		list = append(list, e)
	}
	return slices.DeleteFunc(list, func(e *exhibit) bool { return e == nil })
}

// caption is a line that says what stands below it; its number is only its own.
var caption = regexp.MustCompile(`(?i)^\W*(?:table|tab|figure|fig|part|step|q|question|task|exercise|section|tabelle|abbildung|abb|aufgabe|teil|frage|tableau|tabla|tabela)\.?\s*#?\d+(?:[.]\d+)*\s*[a-z]?\W*(?:\s[^\d\n]*)?$`)

// telling leaves out the captions: text without a number of its own beside tables, numbers and pictures.
func telling(values []value) []value {
	if !slices.ContainsFunc(values, func(v value) bool { return v.kind != textKind }) {
		return values
	}
	return slices.DeleteFunc(values, func(v value) bool {
		return v.kind == textKind && (len(onlyNumbers(tokens(v.text))) == 0 || caption.MatchString(strings.TrimSpace(v.text)))
	})
}

// candidate is something that the student shows in a place where the solution's value may be looked for.
type candidate struct {
	cell  int
	value value
	own   bool // it is there for this purpose: if it is not equal, it is wrong, rather than something else
	bare  bool // its cell shows no variable: it may be there for this purpose even if it is of another kind
	far   bool // it is in another section: a number must have enough digits to be known there
	used  bool
}

// budget is the work that one comparison of notebooks may cost beside what it must, in cells of tables. It is far beyond what honest notebooks need.
type budget int

const fullBudget budget = 2_000_000

// bytesPerCell is how much text is as much work as a cell.
const bytesPerCell = 16

// spend takes work from the budget, and reports whether there was any left.
func (b *budget) spend(work int) bool {
	left := *b > 0
	*b -= budget(work)
	return left
}

// add appends what a cell shows.
func (s *side) add(list []*candidate, cell int, own, bare bool, b *budget) []*candidate {
	work := 1
	if _, known := s.read[cell]; !known {
		for _, o := range s.cells[cell].Outputs {
			work += (len(o.Text) + len(o.HTML)) / bytesPerCell
		}
	}
	if len(s.cells[cell].Outputs) == 0 || !b.spend(work) && len(list) > 0 {
		return list
	}
	for _, v := range s.values(cell) {
		list = append(list, &candidate{cell: cell, value: v, own: own, bare: bare})
	}
	return list
}

// ofVariable lists what the student's cells show that show or assign a variable, the last cells first. A cell that assigns it and shows something else, one that
// only uses it, as in nrow(x), and cells about the other variables that the solution shows beside it, may hold an equal value; if not, they say nothing of this one.
func (s *side) ofVariable(name string, beside []string, b *budget) []*candidate {
	var own, others []int
	for i := range s.code {
		f := s.facts[i]
		has := func(name string) bool { return f.Shown[name] != nil || f.Assigned[name] != nil }
		switch {
		case f.Shown[name] != nil, f.Assigned[name] != nil && len(f.Shown) == 0:
			own = append(own, i)
		case f.Assigned[name] != nil, f.Named[name] != nil, slices.ContainsFunc(beside, has):
			others = append(others, i)
		}
	}
	var list []*candidate
	for _, i := range slices.Backward(own) {
		list = s.add(list, i, true, false, b)
	}
	for _, i := range slices.Backward(others) {
		list = s.add(list, i, false, false, b)
	}
	return list
}

// ofSection lists what the student's cells of a section show, in their order; those of the whole notebook if it has no such section. Cells that show a variable
// which is compared by its name may hold an equal value, too.
func (s *side) ofSection(id string, named map[string]bool, b *budget) []*candidate {
	whole := id != "" && len(s.sections.Cells[id]) == 0
	var list []*candidate
	for i := range s.code {
		if whole || s.sections.Of(i) == id {
			name, shown := s.key(i)
			list = s.add(list, i, !named[name], !shown, b)
		}
	}
	return list
}

// byValue lists what the student shows that may be the value of a variable which is assigned nowhere: in the section what is of no other variable of the
// solution, and elsewhere what is there for another purpose, and counts only if it is equal.
func (s *side) byValue(id string, named map[string]bool, b *budget) []*candidate {
	list := s.ofSection(id, named, b)
	for i := range s.code {
		if id != "" && s.sections.Of(i) != id && len(s.sections.Cells[id]) > 0 {
			from := len(list)
			list = s.add(list, i, false, false, b)
			for _, c := range list[from:] {
				c.far = true
			}
		}
	}
	return list
}

// matching is the comparison of values of the solution with candidates.
type matching struct {
	tolerance  float64
	least      float64 // share that must agree for a value that is not equal to count as one gone wrong; numbers agree or not
	byValue    bool    // the candidates have other names: a number that is not equal went wrong only if it is the only one
	candidates []*candidate
	budget     *budget
}

// result is what the student has in the place of a value: nothing if candidate is nil.
type result struct {
	candidate *candidate
	outcome   outcome
}

// match finds for each value the candidate that stands for it; each is used once. Equal ones come first, then those that agree most.
func (m *matching) match(want []value) []result {
	results := make([]result, len(want))
	tried := make([][]result, len(want))
	for i, w := range want {
		for _, c := range m.candidates {
			if c.used || !w.comparable(c.value) {
				continue
			}
			if !m.budget.spend(w.size()+c.value.size()) && len(tried[i]) > 0 {
				break
			}
			r := result{c, compare(w, c.value, m.tolerance)}
			if n, single := w.single(); c.far && single && n.num.digits < tellDigits {
				continue
			}
			if r.outcome.equal {
				results[i] = r
				c.used = true
				break
			}
			_, number := c.value.single()
			if c.own && (!m.byValue || number || w.kind != numberKind) {
				tried[i] = append(tried[i], r)
			}
		}
	}
	for i, w := range want {
		if results[i].candidate == nil {
			results[i] = m.closest(w, tried[i])
		}
	}
	if m.byValue {
		return results
	}
	for i, w := range want {
		if results[i].candidate == nil {
			results[i] = m.otherKind(w)
		}
	}
	return results
}

// closest chooses among candidates that are not equal to a value.
func (m *matching) closest(want value, tried []result) result {
	var best result
	if m.byValue && want.kind == numberKind && len(tried) != 1 {
		return best
	}
	for _, r := range tried {
		if !r.candidate.used && (want.kind == numberKind || r.outcome.share >= m.least) && (best.candidate == nil || r.outcome.share > best.outcome.share) {
			best = r
		}
	}
	if best.candidate != nil {
		best.candidate.used = true
	}
	return best
}

// otherKind chooses a candidate that is of another kind than a value, and seems to be there in its place.
func (m *matching) otherKind(want value) result {
	for _, c := range m.candidates {
		if c.bare && c.own && !c.used && !want.comparable(c.value) && want.kind != pictureKind && c.value.kind != pictureKind {
			c.used = true
			return result{c, compare(want, c.value, m.tolerance)}
		}
	}
	return result{}
}

// sectionShare is how much of a table or text must agree to be taken for the one that a section of the solution shows.
const sectionShare = 0.25

// comparer compares two notebooks.
type comparer struct {
	student, solution *side
	tolerance         float64
	given             map[string]bool // lines of the template's code
	rules             map[string]rubric.Output
}

// linesOf are the lines of a notebook's code, without the white space around them; none of nil.
func linesOf(nb *notebook.Notebook) map[string]bool {
	lines := map[string]bool{}
	if nb == nil {
		return lines
	}
	for _, c := range nb.Cells {
		if c.Kind == notebook.Code {
			for line := range strings.SplitSeq(c.Source, "\n") {
				lines[strings.TrimSpace(line)] = true
			}
		}
	}
	return lines
}

// handedOut reports whether all of a cell is the template's.
func (c *comparer) handedOut(cell *notebook.Cell) bool {
	for line := range strings.SplitSeq(cell.Source, "\n") {
		if line = strings.TrimSpace(line); line != "" && !c.given[line] {
			return false
		}
	}
	return len(c.given) > 0
}

func (c *comparer) run() []Comparison {
	unstable := c.solution.unstable()
	exhibits := slices.DeleteFunc(c.solution.exhibits(), func(e *exhibit) bool {
		return c.handedOut(&c.solution.cells[e.cell]) || unstable[e.cell]
	})
	named := map[string]bool{}
	for _, e := range exhibits {
		named[e.variable] = e.variable != ""
	}
	list := []Comparison{}
	rest := map[string]*matching{} // what is left of each section
	left := new(fullBudget)
	count := map[string]int{}
	for _, e := range exhibits {
		m := rest[e.section]
		switch {
		case e.variable != "":
			m = c.ofVariable(e, named, left)
		case m == nil:
			m = &matching{tolerance: c.tolerance, least: sectionShare, candidates: c.student.ofSection(e.section, named, left), budget: left}
			rest[e.section] = m
		}
		for i, r := range m.match(e.values) {
			key := e.variable
			switch {
			case key == "":
				key = cmp.Or(e.section, "output")
				count[key]++
				key = fmt.Sprintf("%s #%d", key, count[key])
			case i > 0:
				key = fmt.Sprintf("%s #%d", key, i+1)
			}
			v := Comparison{Key: key, Section: e.section, Kind: string(e.values[i].kind), SolutionCell: c.solution.cells[e.cell].Number}
			rule := c.rules[key]
			v.Ignored = rule.Ignore
			r = m.byRule(r, e.values[i], rule)
			if r.candidate == nil {
				v.Verdict = Missing
				v.Note, v.Cell = c.student.why(e, e.values[i].kind)
			} else {
				c.fill(&v, r)
				if m.byValue {
					v.Note = strings.TrimPrefix(v.Note+"; by its value, since "+e.variable+" is never assigned", "; ")
				}
			}
			list = append(list, v)
		}
	}
	return list
}

// byRule is what the student has in the place of a value by what the rubric says of it: within another tolerance, or one of the other values that are right.
func (m *matching) byRule(r result, want value, rule rubric.Output) result {
	tolerance := m.tolerance
	if rule.Tolerance != nil {
		tolerance = asTolerance(rule.Tolerance)
		if r.candidate != nil {
			r.outcome = compare(want, r.candidate.value, tolerance)
		}
	}
	if r.outcome.equal {
		return r
	}
	for _, c := range m.candidates {
		if c.used && c != r.candidate {
			continue
		}
		for _, text := range rule.AnyOf {
			for _, right := range readPlain(text) {
				if o := compare(right, c.value, tolerance); right.comparable(c.value) && o.equal {
					o.note("%s is one of the values that the rubric takes for right", clip(text))
					c.used = true
					return result{c, o}
				}
			}
		}
	}
	return r
}

// ofVariable finds what may stand for an exhibit of a variable: by its name, or by its value if the student has it under another one.
func (c *comparer) ofVariable(e *exhibit, named map[string]bool, left *budget) *matching {
	m := &matching{tolerance: c.tolerance, budget: left}
	if !c.student.has(e.variable) {
		m.byValue, m.least = true, sectionShare
		m.candidates = c.student.byValue(e.section, named, left)
		return m
	}
	m.candidates = c.student.ofVariable(e.variable, c.solution.variables(e.cell, c.solution.facts[e.cell].Shown), left)
	return m
}

// has reports whether a variable is assigned or shown anywhere.
func (s *side) has(name string) bool {
	for i := range s.code {
		if s.facts[i].Assigned[name] != nil || s.facts[i].Shown[name] != nil {
			return true
		}
	}
	return false
}

// fill writes what comparing came to.
func (c *comparer) fill(v *Comparison, r result) {
	cell := &c.student.cells[r.candidate.cell]
	v.Cell = cell.Number
	v.Verdict = Match
	notes := r.outcome.notes
	if !r.outcome.equal {
		v.Verdict = Differs
		v.Differences, v.More = r.outcome.diffs, r.outcome.more
		if name := failure(cell); name != "" {
			notes = append(notes, "the cell ended in an error: "+name)
		}
	}
	v.Note = strings.Join(notes, "; ")
}

// failure is the name of the error that a cell ended in, "" if it did not.
func failure(c *notebook.Cell) string {
	for _, o := range c.Outputs {
		if o.Kind == notebook.Error {
			return cmp.Or(clip(o.ErrorName), "error")
		}
	}
	return ""
}
