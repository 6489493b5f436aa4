package grader

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"tandem/internal/grader/check"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/report"
	"tandem/internal/grader/score"
)

// What hardly anybody has.
const (
	leastClass  = 10 // submissions that show what a class has
	rareShare   = 10 // at most one in so many has it
	mostInstead = 3  // of what they have in its place are told
	insteadOf   = 5  // each is what one in so many has, at least
)

// rare lists what the rubric asks for and hardly anybody has. It is more likely the rubric's fault than the class's, or the assignment said something else.
// Notebooks in which nothing was done say nothing about that; those of which nothing was run say nothing about outputs.
func (g *Grading) rare() []report.Rare {
	var order []score.Thing
	have, of := map[score.Thing]int{}, map[score.Thing]int{}
	instead := map[score.Thing]map[string]int{}
	see := func(t score.Thing, has bool, others []string) {
		if of[t]++; of[t] == 1 {
			order = append(order, t)
			instead[t] = map[string]int{}
		}
		if has {
			have[t]++
			return
		}
		for _, other := range others {
			instead[t][other]++
		}
	}
	for _, s := range g.submissions {
		if s.layer1 == nil || s.layer1.Empty {
			continue
		}
		for _, item := range s.layer1.Items {
			has := item.Status == check.Found || item.Kind != check.Test && (item.Status == check.NotRun || item.Status == check.Failed)
			see(score.ThingOf(item), has, g.others(s.layer1, item))
		}
		if s.layer1.RunCells == 0 {
			continue
		}
		for i := range s.layer2.Comparisons {
			if o := &s.layer2.Comparisons[i]; o.Counts() {
				see(score.Thing{Kind: score.Output, Section: o.Section, Name: o.Key}, o.Verdict == outputs.Match, got(o))
			}
		}
	}
	var list []report.Rare
	for _, t := range order {
		if of[t] >= leastClass && have[t]*rareShare <= of[t] {
			list = append(list, report.Rare{Thing: t, Have: have[t], Of: of[t], Instead: mostly(instead[t], of[t])})
		}
	}
	return list
}

// others are what a submission's section does that neither the solution nor the template does, of an item's kind.
func (g *Grading) others(f *check.Findings, item check.Item) []string {
	var list []string
	for n := range f.Names {
		if n.Kind == item.Kind && n.Section == item.Section && len(n.Name) > 1 && !g.a.known[n] {
			list = append(list, n.Name)
		}
	}
	return list
}

// got is what a submission shows in the place of an output.
func got(o *outputs.Comparison) []string {
	if len(o.Differences) == 0 {
		return nil
	}
	d := o.Differences[0]
	return []string{fmt.Sprintf("%s: %s, where the solution has %s", d.Where, d.Got, d.Want)}
}

// mostly lists what many have, most often first.
func mostly(counts map[string]int, of int) []string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	names = slices.DeleteFunc(names, func(name string) bool { return counts[name] < 2 || counts[name]*insteadOf < of })
	var list []string
	for _, name := range names[:min(len(names), mostInstead)] {
		list = append(list, fmt.Sprintf("%s (%d)", name, counts[name]))
	}
	return list
}
