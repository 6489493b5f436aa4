package outputs

import (
	"fmt"
	"math/big"
	"slices"
)

// defaultTolerance holds where no rubric says otherwise.
const defaultTolerance = 0.001

func asTolerance(r *big.Rat) float64 {
	if r == nil {
		return defaultTolerance
	}
	t, _ := r.Float64()
	return t
}

// findings counts.
func findings(list []Comparison) *Findings {
	f := &Findings{Comparisons: list}
	for i := range list {
		c := &list[i]
		if !c.Counts() {
			continue
		}
		f.Compared++
		if c.Verdict == Match {
			f.Matched++
		}
	}
	return f
}

// why says why the student's notebook shows no value of a kind in the place of an exhibit, and the number of the cell that should, 0 if there is none.
func (s *side) why(e *exhibit, k kind) (string, int) {
	if e.variable == "" {
		return s.whyNoSection(e.section, k), 0
	}
	return s.whyNoVariable(e.variable, k)
}

// whyNoVariable says it of a variable.
func (s *side) whyNoVariable(name string, k kind) (string, int) {
	var cells []int
	assigned := false
	for i := range s.code {
		f := s.facts[i]
		assigned = assigned || f.Assigned[name] != nil
		if f.Shown[name] != nil || f.Assigned[name] != nil {
			cells = append(cells, i)
		}
	}
	if len(cells) == 0 {
		return name + " is never assigned", 0
	}
	for _, i := range slices.Backward(cells) {
		if e := failure(&s.cells[i]); e != "" {
			return "the cell ended in an error: " + e, s.cells[i].Number
		}
	}
	last := &s.cells[cells[len(cells)-1]]
	ran := slices.IndexFunc(cells, func(i int) bool { return s.cells[i].Ran() })
	switch {
	case ran < 0:
		return "the cell was never run", last.Number
	case !assigned:
		return name + " is shown, but never assigned", last.Number
	case !last.Ran():
		return "the cell that comes last with it was never run", last.Number
	}
	return fmt.Sprintf("the cell was run, but shows no %s of it", k), last.Number
}

// whyNoSection says it of a section.
func (s *side) whyNoSection(id string, k kind) string {
	found, ran := false, false
	for i := range s.code {
		if s.sections.Of(i) == id {
			found = true
			ran = ran || s.cells[i].Ran()
		}
	}
	switch {
	case !found && id != "":
		return fmt.Sprintf("the section was not found, and no %s like it elsewhere", k)
	case found && !ran:
		return "the section's cells were never run"
	}
	return fmt.Sprintf("no %s like it is shown", k)
}

// overlap is the share of the solution's variables that the student's notebook assigns, too. A solution without variables says nothing about that: 1.
func overlap(student, solution *side) float64 {
	has := student.assigned()
	all := solution.assigned()
	if len(all) == 0 {
		return 1
	}
	both := 0
	for name := range all {
		if has[name] {
			both++
		}
	}
	return float64(both) / float64(len(all))
}

// assigned are the variables that hold results: not those of loops, and none of one letter.
func (s *side) assigned() map[string]bool {
	names := map[string]bool{}
	for i := range s.code {
		for _, name := range s.variables(i, s.facts[i].Assigned) {
			if len(name) > 1 {
				names[name] = true
			}
		}
	}
	return names
}
