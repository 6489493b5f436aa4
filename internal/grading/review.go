package grading

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tandem/internal/grader"
	"tandem/internal/grader/overrides"
	"tandem/internal/grader/report"
	"tandem/internal/grader/score"
	"tandem/jobs"
)

// Queue is what a person has to decide about a class.
type Queue struct {
	*grader.ToDecide
	Class *report.Class
}

// Queue lists what is open in a class.
func (d *Desk) Queue(class, by string) (q *Queue, err error) {
	err = d.Review(class, by, func(r *grader.Review) error {
		open, err := r.ToDecide()
		q = &Queue{open, r.Class()}
		return err
	})
	return q, err
}

// Submission is one submission, as a person decides about it.
type Submission struct {
	*report.Student
	History []Decided
	Next    string // pseudonym of the next one to look at, "" if there is none
}

// Decided is a line of the decisions.
type Decided struct {
	overrides.Line
	Taken bool // back
}

// Submission has a submission and what was decided about it.
func (d *Desk) Submission(class, by, id string) (s *Submission, err error) {
	err = d.Review(class, by, func(r *grader.Review) error {
		student, err := r.Student(id)
		if err != nil {
			return err
		}
		open, err := r.ToDecide()
		if err != nil {
			return err
		}
		s = &Submission{Student: student}
		lines, taken := r.History(id)
		for _, n := range lines {
			if n.Do != overrides.Undo {
				s.History = append(s.History, Decided{n, taken[n.N]})
			}
		}
		at := slices.IndexFunc(open.Students, func(row report.Row) bool { return row.ID == id })
		if rest := open.Students[at+1:]; len(rest) > 0 {
			s.Next = rest[0].ID
		} else if len(open.Students) > 0 && at != 0 {
			s.Next = open.Students[0].ID
		}
		return nil
	})
	return s, err
}

// Decide takes a decision as a form says it: do, student, and what goes with that.
func (d *Desk) Decide(class, by string, form url.Values) error {
	return d.Review(class, by, func(r *grader.Review) error {
		n := overrides.Line{Do: overrides.Action(form.Get("do")), Student: form.Get("student"), Why: strings.TrimSpace(form.Get("why"))}
		var err error
		switch n.Do {
		case overrides.Points:
			n.Element = form.Get("element")
			n.Points, err = number(form, "points")
		case overrides.Credit:
			if n.Credit, err = number(form, "credit"); err == nil {
				n.Thing, err = thing(r, n.Student, form.Get("thing"))
			}
		case overrides.Comment:
			n.Comment, n.Text = form.Get("comment"), strings.TrimSpace(strings.ReplaceAll(form.Get("text"), "\r\n", "\n"))
			if n.Comment == "" && n.Text == "" {
				err = jobs.Errorf(jobs.CodeInvalid, "the comment is empty")
			}
		case overrides.Class:
			if n.Verdict = report.Verdict(form.Get("verdict")); n.Verdict != report.Count && n.Verdict != report.Ignore {
				return jobs.Errorf(jobs.CodeInvalid, "the verdict is %.40q; want count or ignore", n.Verdict)
			}
			n.Thing, err = thing(r, "", form.Get("thing"))
		case overrides.Undo:
			n.Student = ""
			n.Of, err = strconv.Atoi(form.Get("of"))
		case overrides.Final:
		default:
			return jobs.Errorf(jobs.CodeInvalid, "there is nothing to do that is called %.40q", n.Do)
		}
		if err != nil {
			return err
		}
		_, err = r.Decide(n)
		return err
	})
}

// number is one of a form.
func number(form url.Values, field string) (*float64, error) {
	text := strings.ReplaceAll(strings.TrimSpace(form.Get(field)), ",", ".")
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "%s are %.40q; want a number, as 6.5", field, text)
	}
	return &n, nil
}

// thing finds what a form names: of a submission, or, without one, of what hardly anybody has.
func thing(r *grader.Review, student, name string) (*score.Thing, error) {
	var list []score.Thing
	if student == "" {
		for _, rare := range r.Class().Rare {
			list = append(list, rare.Thing)
		}
	} else {
		s, err := r.Student(student)
		if err != nil {
			return nil, err
		}
		list = s.Things()
	}
	i := slices.IndexFunc(list, func(t score.Thing) bool { return t.String() == name })
	if i < 0 {
		return nil, jobs.Errorf(jobs.CodeInvalid, "there is no %.200q; load the page anew", name)
	}
	return &list[i], nil
}

// Release writes the pages that students get.
func (d *Desk) Release(class, by string, solution bool) (released *grader.Released, err error) {
	err = d.Review(class, by, func(r *grader.Review) error {
		released, err = r.Release(solution)
		return err
	})
	return released, err
}
