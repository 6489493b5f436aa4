package main

import (
	"fmt"
	"io"
	"slices"
)

// ofWholeEngines is how long plan auto may take, as a share of two whole engines.
const ofWholeEngines = 1.03

// add takes the outcome of the next policy.
func (r *realRow) add(o *realOutcome) {
	r.Outcomes = append(r.Outcomes, o)
	for id, text := range o.texts {
		again := r.of(realAgain)
		if text == r.Outcomes[0].texts[id] || again != nil && o != again && text == again.texts[id] {
			o.Equal++
		}
	}
}

// of is the outcome of a policy, nil if it was not measured.
func (r *realRow) of(policy string) *realOutcome {
	i := slices.IndexFunc(r.Outcomes, func(o *realOutcome) bool { return o.Policy == policy })
	if i < 0 {
		return nil
	}
	return r.Outcomes[i]
}

// goals are those that can be told from the policies that were measured.
func (r *realRow) goals() (list []goal) {
	for _, o := range r.Outcomes {
		list = append(list, goal{"wrong results of " + o.Policy, float64(len(o.Wrong)), 0, len(o.Wrong) == 0, 0})
		if different := r.Jobs - o.Equal; r.Load == exactLoad {
			list = append(list, goal{"other texts of " + o.Policy, float64(different), 0, different == 0, 0})
		}
	}
	if whole, tandem := r.of(realWhole), r.of(auto); whole != nil && tandem != nil && r.Load != exactLoad {
		share := tandem.Seconds / whole.Seconds
		list = append(list, goal{"÷ two whole engines", share, ofWholeEngines, share <= ofWholeEngines, 0})
	}
	return list
}

// printReal writes the rows as a table, and reports whether all goals were met.
func printReal(w io.Writer, rows []*realRow) (met bool) {
	met = true
	head := []string{"engines", "load", "jobs"}
	for _, o := range rows[0].Outcomes {
		head = append(head, o.Policy)
	}
	head = append(head, "auto's ways", "goals")
	fmt.Fprintln(w)
	line(w, head...)
	line(w, slices.Repeat([]string{"---"}, len(head))...)
	for _, r := range rows {
		cells := []string{r.Engine, r.Load, fmt.Sprint(r.Jobs)}
		ways := "–"
		for i, o := range r.Outcomes {
			cell := fmt.Sprintf("%.1f s", o.Seconds)
			if i > 0 {
				cell += fmt.Sprintf(" (%.3f), %d of %d texts equal", o.Seconds/r.Outcomes[0].Seconds, o.Equal, r.Jobs)
			}
			cells = append(cells, fmt.Sprintf("%s; CPU %.1f + %.1f", cell, o.CPU.Engines, o.CPU.Tandem))
			if o.Policy == auto {
				ways = waysOf(o.Ways)
			}
		}
		for _, g := range r.Goals {
			met = met && g.Met
		}
		goals := verdict(r.Goals)
		if r.Late > tooLate.Seconds() {
			goals += fmt.Sprintf(" (this machine woke sleepers %.0f ms late)", 1000*r.Late)
		}
		line(w, append(cells, ways, goals)...)
	}
	return met
}
