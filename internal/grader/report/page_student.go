package report

import (
	"cmp"
	"strings"

	"tandem/internal/grader/ask"
	"tandem/internal/grader/check"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/rubric"
	"tandem/internal/grader/score"
)

// studentPage is what the page of a submission shows.
type studentPage struct {
	*Student
	Title    string
	Elements []elementView
	Groups   []group
	Differ   []outputs.Comparison // those that do not match
	Equal    []outputs.Comparison
	Sheet    sheet
	Cells    []Cell
	Released bool // the page is the student's, not the instructor's
	Solution bool // it may have the solution's values
}

// elementView is the points of an element with what the rubric and the models say of it.
type elementView struct {
	score.Element
	Description string
	Judged      []judgedView
}

type judgedView struct {
	score.Criterion
	Evidence string // of the model
	Counted  bool
}

type partView struct {
	*Part
	Name string
}

// group is a section with its items. What no section asks for is in one without a section.
type group struct {
	*check.Section
	Name  string
	Items []check.Item
	Done  bool
}

func newStudentPage(s *Student, r *rubric.Rubric, cells []Cell) *studentPage {
	p := &studentPage{Student: s, Title: cmp.Or(r.Info.Title, r.Info.Name, s.Assignment), Cells: cells, Solution: true}
	if s.Score != nil {
		for _, e := range s.Score.Elements {
			p.Elements = append(p.Elements, newElementView(e, s, r))
		}
	}
	if s.Layer1 != nil {
		p.Groups = groups(s.Layer1)
	}
	if s.Layer2 != nil {
		for _, c := range s.Layer2.Comparisons {
			if c.Verdict == outputs.Match {
				p.Equal = append(p.Equal, c)
			} else {
				p.Differ = append(p.Differ, c)
			}
		}
	}
	p.Sheet = computed(s.parts())
	return p
}

// Doubt reports whether the points are a range, or missing.
func (p *studentPage) Doubt() bool { return p.Score == nil || !p.Score.Certain }

// parts are the requests that there were.
func (s *Student) parts() []partView {
	var parts []partView
	for _, p := range []partView{{s.Code, "Code analysis"}, {s.Feedback, "Feedback"}} {
		if p.Part != nil {
			parts = append(parts, p)
		}
	}
	return parts
}

func newElementView(e score.Element, s *Student, r *rubric.Rubric) elementView {
	view := elementView{Element: e}
	for _, known := range r.Elements {
		if known.ID == e.ID {
			view.Description = known.Description
		}
	}
	for _, c := range e.Criteria {
		judged := judgedView{Criterion: c}
		for _, part := range s.parts() {
			if part.Answer != nil {
				for _, j := range part.Answer.Criteria {
					if j.ID == c.ID {
						judged.Evidence, judged.Counted = j.Evidence, part.Counted
					}
				}
			}
		}
		view.Judged = append(view.Judged, judged)
	}
	return view
}

// groups puts the items to their sections.
func groups(f *check.Findings) []group {
	var all []group
	for i := range f.Sections {
		section := &f.Sections[i]
		all = append(all, group{Section: section, Name: section.Name, Done: section.Completeness == check.Complete})
	}
	rest := group{Name: "Anywhere in the notebook", Done: true}
	for _, item := range f.Items {
		to := &rest
		for i := range all {
			if all[i].ID == item.Section && item.Section != "" {
				to = &all[i]
			}
		}
		to.Items = append(to.Items, item)
		to.Done = to.Done && item.Status == check.Found
	}
	if len(rest.Items) > 0 {
		all = append(all, rest)
	}
	return all
}

// computed is how the models' answers came about.
func computed(parts []partView) sheet {
	s := sheet{Label: "How the models' answers were computed"}
	line := func(name string, cell func(p *Part) string) {
		var cells []string
		for _, p := range parts {
			cells = append(cells, cell(p.Part))
		}
		s.line(name, cells...)
	}
	for _, p := range parts {
		s.Head = append(s.Head, p.Name)
	}
	line("Model", func(p *Part) string { return p.Model })
	line("Way it went", func(p *Part) string { return string(p.Method) })
	line("Prefill by", func(p *Part) string { return p.Servers.Prefill })
	line("Decode by", func(p *Part) string { return p.Servers.Decode })
	line("Prefill", func(p *Part) string { return seconds(p.Timings.PrefillSeconds) })
	line("Prefill rate", func(p *Part) string { return rate(p.Timings.PrefillTokensPerSecond) })
	line("Hand-over", func(p *Part) string {
		t := p.Timings
		return seconds(t.SaveSeconds + t.TransferSeconds + t.RestoreSeconds + t.CheckSeconds)
	})
	line("Computing it again", func(p *Part) string { return seconds(p.Timings.DecodePrefillSeconds) })
	line("Decode", func(p *Part) string { return seconds(p.Timings.DecodeSeconds) })
	line("Decode rate", func(p *Part) string { return rate(p.Timings.DecodeTokensPerSecond) })
	line("Waited in queues", func(p *Part) string { return seconds(p.Timings.QueuePrefillSeconds + p.Timings.QueueDecodeSeconds) })
	line("From accepted to finished", func(p *Part) string { return seconds(p.Timings.TotalSeconds) })
	line("Prompt", func(p *Part) string { return tokens(p.Usage.PromptTokens) })
	line("… of it found in a cache", func(p *Part) string { return tokens(p.Usage.PrefillCached) })
	line("… of it computed", func(p *Part) string { return tokens(p.Usage.PrefillComputed) })
	line("… of it handed over", func(p *Part) string { return tokens(p.Usage.HandedOver) })
	line("… of it computed again", func(p *Part) string { return tokens(p.Usage.DecodeComputed) })
	line("Written", func(p *Part) string { return tokens(p.Usage.GeneratedTokens) })
	line("Asked", func(p *Part) string {
		if p.Asked == 0 {
			return none
		}
		return count(p.Asked, "time", "times")
	})
	line("Left out of the notebook to fit", func(p *Part) string {
		if p.Cut == 0 {
			return none
		}
		return size(int64(p.Cut))
	})
	line("Why this way", func(p *Part) string { return p.Decision })
	line("Warnings", func(p *Part) string { return strings.Join(p.Warnings, "; ") })
	line("Why there is no answer", func(p *Part) string { return p.Problem })
	line("Job", func(p *Part) string { return p.Job })
	line("Engine", func(p *Part) string { return strings.TrimSpace(p.Source.Engine + " " + p.Source.EngineVersion) })
	line("Model's digest", func(p *Part) string { return p.Source.ModelDigest })
	line("Prompt's SHA-256", func(p *Part) string { return p.Source.PromptSHA256 })
	return s
}

func tokens(n int) string {
	if n <= 0 {
		return none
	}
	return count(n, "token", "tokens")
}

// Unheard lists the models' requests whose judgements do not count although they came.
func (p *studentPage) Unheard() []string {
	var names []string
	for _, part := range p.parts() {
		if part.Answer != nil && !part.Counted {
			names = append(names, strings.ToLower(part.Name))
		}
	}
	return names
}

// Issues are what the code analysis found wrong.
func (p *studentPage) Issues() []ask.Issue {
	if p.Code == nil || p.Code.Answer == nil {
		return nil
	}
	return p.Code.Answer.Issues
}
