package overrides

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"tandem/internal/grader/ask"
	"tandem/internal/grader/report"
	"tandem/internal/grader/rubric"
	"tandem/internal/grader/score"
)

// Desk is what the points of a class rest on beside the submissions.
type Desk struct {
	Rubric *rubric.Rubric
	Log    *Log
	Rare   []report.Rare // what hardly anybody has; Settle fills in the verdicts
}

// Waived is what counts for nobody: what hardly anybody has until the instructor says that it counts, and what the instructor says does not.
func (d *Desk) Waived() map[score.Thing]bool {
	waived := map[score.Thing]bool{}
	for i := range d.Rare {
		d.Rare[i].Verdict = d.Log.Verdict(d.Rare[i].Thing)
		waived[d.Rare[i].Thing] = true
	}
	for _, n := range d.Log.InForce() {
		if n.Do == Class {
			waived[*n.Thing] = n.Verdict == report.Ignore
		}
	}
	return waived
}

// Machine are a record's points by the checks and the models alone, nil if it could not be graded.
func (d *Desk) Machine(s *report.Student) *score.Score {
	return d.compute(s, &score.Given{Waived: d.Waived()})
}

// Settle gives a record the points and the status that it has by the checks, the models and the instructor's decisions. It may be called again on the same record.
func (d *Desk) Settle(s *report.Student) {
	given := &score.Given{Waived: d.Waived()}
	machine := d.compute(s, given)
	given.Credits, given.Elements = map[score.Thing]*big.Rat{}, map[string]*big.Rat{}
	var own []Line
	for _, n := range d.Log.InForce() {
		if n.Student != s.ID {
			continue
		}
		own = append(own, n)
		switch {
		case n.Do == Credit:
			given.Credits[*n.Thing] = exact(*n.Credit)
		case n.Do == Points && n.Element == "":
			given.Whole = exact(*n.Points)
		case n.Do == Points:
			given.Elements[n.Element] = exact(*n.Points)
		}
	}
	s.Overrides, s.Score = nil, machine
	if len(own) > 0 {
		s.Score = d.compute(s, given)
		s.Overrides = &report.Overrides{}
		for i := range own {
			s.Overrides.Decisions = append(s.Overrides.Decisions, d.decision(s, machine, &own[i]))
		}
		comment(s, own)
	}
	s.Status = status(s, own, given.Whole != nil)
}

// compute scores a record. One that could not be graded has points only if the instructor gave them.
func (d *Desk) compute(s *report.Student, given *score.Given) *score.Score {
	if s.Problem != "" && given.Whole == nil {
		return nil
	}
	return score.Compute(d.Rubric, s.Layer1, s.Layer2, judgements(s), given)
}

// judgements are those of the models that count.
func judgements(s *report.Student) score.Judgements {
	judged := score.Judgements{}
	for by, p := range map[rubric.Judge]*report.Part{rubric.JudgeCode: s.Code, rubric.JudgeFeedback: s.Feedback} {
		if p == nil || !p.Counted || p.Answer == nil {
			continue
		}
		judged[by] = map[string]score.Verdict{}
		for _, c := range p.Answer.Criteria {
			judged[by][c.ID] = c.Verdict
		}
	}
	return judged
}

// decision is a line with what the program says now of what it rested on.
func (d *Desk) decision(s *report.Student, machine *score.Score, n *Line) report.Decision {
	out := report.Decision{Line: n.N, At: n.At, By: n.By, What: n.What(), Why: n.Why, Was: n.Was}
	now := saw(s, machine, n)
	switch {
	case n.Was != "" && now != n.Was:
		out.Now = now
	case n.Rests != s.Inputs.Notebook:
		out.Now = strings.TrimPrefix(now+", by another notebook", ", ")
	}
	return out
}

// Sees fills in what a new line rests on.
func (d *Desk) Sees(s *report.Student, n *Line) {
	n.Was, n.Rests = saw(s, d.Machine(s), n), s.Inputs.Notebook
}

// saw is what the program says of what a line is about; machine are the points without the instructor's decisions.
func saw(s *report.Student, machine *score.Score, n *Line) string {
	switch n.Do {
	case Points:
		if machine == nil {
			return "no points"
		}
		if n.Element == "" {
			return between(machine.Low, machine.High)
		}
		for _, e := range machine.Elements {
			if e.ID == n.Element {
				return between(e.Low, e.High)
			}
		}
		return "no such element"
	case Credit:
		return found(s, *n.Thing)
	case Comment:
		return words(s.Feedback, n.Comment)
	case Final:
		if s.Score == nil {
			return "no points"
		}
		return between(s.Score.Low, s.Score.High)
	}
	return ""
}

func between(low, high float64) string {
	if low == high {
		return fmt.Sprintf("%g points", low)
	}
	return fmt.Sprintf("%g to %g points", low, high)
}

// found is what became of a thing in a submission.
func found(s *report.Student, t score.Thing) string {
	if s.Layer1 != nil {
		for _, item := range s.Layer1.Items {
			if score.ThingOf(item) == t {
				return string(item.Status)
			}
		}
	}
	if s.Layer2 != nil {
		for _, o := range s.Layer2.Comparisons {
			if t == (score.Thing{Kind: score.Output, Section: o.Section, Name: o.Key}) {
				return string(o.Verdict)
			}
		}
	}
	return "not asked for"
}

// status is how a submission ends.
func status(s *report.Student, own []Line, whole bool) report.Status {
	stale, final := false, false
	if s.Overrides != nil {
		stale = slices.ContainsFunc(s.Overrides.Decisions, func(d report.Decision) bool { return d.Now != "" })
		final = slices.ContainsFunc(own, func(n Line) bool { return n.Do == Final })
	}
	switch {
	case s.Score == nil:
		return report.Failed
	case stale:
		return report.Review
	case final && s.Score.Certain:
		return report.Final
	case whole:
		return report.Graded
	case !s.Score.Certain || len(s.Reasons) > 0:
		return report.Review
	}
	return report.Graded
}

// comment makes the feedback what the instructor has made of it. What was changed or is gone since stays as a note: no word of the instructor's is lost.
func comment(s *report.Student, own []Line) {
	var edited *ask.Answer
	if s.Feedback != nil && s.Feedback.Answer != nil {
		edited = clone(s.Feedback.Answer)
	}
	changed := false
	for _, n := range own {
		if n.Do != Comment {
			continue
		}
		if line, ok := strings.CutPrefix(n.Comment, "notes."); ok {
			s.Overrides.Notes = slices.DeleteFunc(s.Overrides.Notes, func(note report.Note) bool { return strconv.Itoa(note.Line) == line && n.Text == "" })
			for i := range s.Overrides.Notes {
				if strconv.Itoa(s.Overrides.Notes[i].Line) == line {
					s.Overrides.Notes[i].Text = n.Text
				}
			}
			continue
		}
		at := place(edited, n.Comment)
		switch {
		case at == nil || words(s.Feedback, n.Comment) != n.Was:
			if n.Text != "" {
				s.Overrides.Notes = append(s.Overrides.Notes, report.Note{Line: n.N, Text: n.Text})
			}
		default:
			*at, changed = n.Text, true
		}
	}
	if !changed {
		return
	}
	for i := range edited.Improvements {
		if improvement := &edited.Improvements[i]; improvement.What != s.Feedback.Answer.Improvements[i].What {
			*improvement = ask.Improvement{What: improvement.What}
		}
	}
	// What is deleted stays as an empty place, so that the others keep their numbers.
	if !slices.ContainsFunc(edited.Strengths, func(text string) bool { return text != "" }) {
		edited.Strengths = nil
	}
	if !slices.ContainsFunc(edited.Improvements, func(i ask.Improvement) bool { return i.What != "" }) {
		edited.Improvements = nil
	}
	s.Overrides.Feedback = edited
}

// HasComment reports whether a submission's feedback has a comment of that name.
func HasComment(s *report.Student, id string) bool {
	for _, note := range s.Notes() {
		if id == fmt.Sprintf("notes.%d", note.Line) {
			return true
		}
	}
	return words(s.Feedback, id) != ""
}

func clone(a *ask.Answer) *ask.Answer {
	c := *a
	c.Strengths, c.Improvements = slices.Clone(a.Strengths), slices.Clone(a.Improvements)
	return &c
}

// place is where a comment of the feedback stands, nil if nowhere.
func place(a *ask.Answer, id string) *string {
	if a == nil {
		return nil
	}
	list, number, _ := strings.Cut(id, ".")
	i, _ := strconv.Atoi(number)
	switch {
	case id == "summary":
		return &a.Summary
	case id == "question":
		return &a.Question
	case list == "strengths" && i >= 1 && i <= len(a.Strengths):
		return &a.Strengths[i-1]
	case list == "improvements" && i >= 1 && i <= len(a.Improvements):
		return &a.Improvements[i-1].What
	}
	return nil
}

// words are those of a comment of the feedback model, "" if there is no such comment.
func words(p *report.Part, id string) string {
	if p == nil || p.Answer == nil {
		return ""
	}
	if at := place(p.Answer, id); at != nil {
		return *at
	}
	return ""
}

// exact is a figure that a person wrote: 6.8 is 68/10.
func exact(v float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(v, 'f', -1, 64)) // digits that FormatFloat wrote are a number
	return r
}
