package grader

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tandem/internal/grader/check"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/report"
	"tandem/internal/grader/score"
)

// What the solution must have by its own rubric, and the template may have, in percent.
const (
	leastSolution = 95
	mostTemplate  = 10
)

// SelfCheck is what the solution and the template are worth by the rubric, without the models: one that asks for what the solution does not have, or gives
// points for what was handed out, is unfair to everybody.
func (a *Assignment) SelfCheck() *report.SelfCheck { return a.selfCheck }

// checkItself grades the two like submissions.
func (a *Assignment) checkItself() *report.SelfCheck {
	s := &report.SelfCheck{Solution: *a.graded(a.solution, lacks)}
	s.Solution.Sound = s.Solution.Percent >= leastSolution
	s.Sound = s.Solution.Sound
	if a.template != nil {
		s.Template = a.graded(a.template, gets)
		s.Template.Sound = s.Template.Percent <= mostTemplate
		s.Sound = s.Sound && s.Template.Sound
	}
	return s
}

// graded grades one of the instructor's notebooks. causes says what is worth knowing of it.
func (a *Assignment) graded(nb *notebook.Notebook, causes func(*Assignment, *check.Findings, *outputs.Findings) []report.Cause) *report.Self {
	layer1 := check.Run(nb, a.template, a.Rubric)
	maps.Copy(a.known, layer1.Names)
	layer2 := outputs.Compare(nb, a.solution, a.template, a.Rubric)
	s := score.Compute(a.Rubric, layer1, layer2, nil, nil)
	self := &report.Self{Points: s.Points, Percent: s.Percent, Causes: []report.Cause{}}
	self.MaxPoints, _ = a.Rubric.Info.TotalPoints.Float64()
	self.Causes = append(self.Causes, causes(a, layer1, layer2)...)
	return self
}

// lacks lists what the rubric asks for and the solution does not have.
func lacks(a *Assignment, layer1 *check.Findings, layer2 *outputs.Findings) (list []report.Cause) {
	for _, item := range layer1.Items {
		if item.Status == check.Found {
			continue
		}
		what := fmt.Sprintf("the solution has no %s %s", item.Kind, item.Name)
		switch item.Status {
		case check.NotRun:
			what = fmt.Sprintf("the solution's %s %s was never run", item.Kind, item.Name)
		case check.Failed:
			what = fmt.Sprintf("the solution's %s %s ends in an error", item.Kind, item.Name)
		}
		list = append(list, a.cause(item.Section, item.Kind, item.Name, what, item.Note))
	}
	for _, s := range layer1.Sections {
		switch {
		case len(s.Cells) == 0:
			list = append(list, a.cause(s.ID, "", "", fmt.Sprintf("the solution has no heading %q", s.Name), `name it as the notebook does, or give the section the key "heading"`))
		case s.Asked == 0 && s.Completeness != check.Complete:
			list = append(list, a.cause(s.ID, "", "", fmt.Sprintf("section %q asks for nothing by name, and is not complete in the solution", s.Name), s.Note))
		}
	}
	if len(layer1.Items)+len(layer1.Sections)+layer2.Compared == 0 {
		list = append(list, a.cause("", "", "", "the rubric names nothing to check, and the solution shows nothing to compare", "name sections, with variables, functions, columns or questions (submitter rubric init writes a first list)"))
	}
	for _, key := range slices.Sorted(maps.Keys(a.Rubric.Outputs)) {
		if !slices.ContainsFunc(layer2.Comparisons, func(c outputs.Comparison) bool { return c.Key == key }) {
			at := a.Rubric.LocationOfOutput(key)
			list = append(list, report.Cause{What: fmt.Sprintf("the solution shows no output %s that could be compared", key), Note: shownOutputs(layer2), Location: &at})
		}
	}
	for _, c := range layer2.Comparisons {
		if c.Verdict != outputs.Match && c.Counts() {
			list = append(list, report.Cause{What: fmt.Sprintf("the solution's own output %s (cell %d) is not found in it again", c.Key, c.SolutionCell), Note: c.Note})
		}
	}
	return list
}

// shownOutputs names those that the solution shows.
func shownOutputs(f *outputs.Findings) string {
	var keys []string
	for _, c := range f.Comparisons {
		keys = append(keys, c.Key)
	}
	if len(keys) == 0 {
		return "it shows none"
	}
	return "those that it shows are " + strings.Join(keys, ", ")
}

// gets lists what the template has points for.
func gets(a *Assignment, layer1 *check.Findings, layer2 *outputs.Findings) (list []report.Cause) {
	for _, item := range layer1.Items {
		if item.Status != check.Placeholder && item.Status != check.Missing {
			list = append(list, a.cause(item.Section, item.Kind, item.Name, fmt.Sprintf("the template has %s %s as it is handed out (cell %d)", item.Kind, item.Name, item.Cell), item.Note))
		}
	}
	for _, s := range layer1.Sections {
		if s.Asked == 0 && s.Completeness == check.Complete {
			list = append(list, a.cause(s.ID, "", "", fmt.Sprintf("section %q asks for nothing by name, and is complete in the template", s.Name), "name variables, functions, columns or questions"))
		}
	}
	for _, c := range layer2.Comparisons {
		if c.Verdict == outputs.Match {
			list = append(list, report.Cause{What: fmt.Sprintf("the template shows output %s (cell %d) as it is handed out", c.Key, c.Cell), Note: "clear the template's outputs, or take them out of the solution"})
		}
	}
	return list
}

// cause is one that lies in the rubric.
func (a *Assignment) cause(section, kind, name, what, note string) report.Cause {
	at := a.Rubric.LocationOf(section, kind, name)
	return report.Cause{What: what, Note: strings.TrimSpace(note), Location: &at}
}
