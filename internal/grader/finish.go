package grader

import (
	"fmt"
	"slices"

	"tandem/internal/grader/report"
	"tandem/internal/grader/rubric"
	"tandem/jobs"
)

// notAsked is why there is no answer where none was wanted.
const notAsked = "no model was asked"

// finish writes a submission's report, whose requests are settled, unless it is written.
func (r *run) finish(s *submission) error {
	if s.record != nil {
		return nil
	}
	record, err := r.record(s)
	if err != nil {
		return err
	}
	if err := r.write(s, record); err != nil {
		return err
	}
	r.done(s, record)
	return nil
}

// write writes a submission's report, and keeps its cells for the page that the student gets.
func (r *run) write(s *submission, record *report.Student) error {
	var cells []report.Cell
	if s.problem == nil {
		nb, err := r.read(s)
		if err != nil {
			return err
		}
		if err := guarded(func() { cells = report.Cells(nb, r.masks.Of(nb, r.names(s))) }); err != nil {
			return err
		}
		if err := r.dir.WriteNotebook(record.ID, cells); err != nil {
			return err
		}
	}
	return r.dir.WriteStudent(record, r.a.Rubric, cells)
}

// keep lets the report stand that an earlier run wrote, if there is one.
func (r *run) keep(s *submission) error {
	record, err := r.dir.ReadStudent(s.file.ID)
	if err != nil {
		return err
	}
	if record == nil {
		return nil
	}
	r.desk.Settle(record)
	cells, err := r.dir.ReadNotebook(record.ID)
	if err != nil {
		return err
	}
	if err := r.dir.WriteStudent(record, r.a.Rubric, cells); err != nil {
		return err
	}
	r.done(s, record)
	return nil
}

func (r *run) done(s *submission, record *report.Student) {
	s.record = record
	r.changed = true
	r.say(nil, record, func(e *Event) {
		e.Done++
		switch record.Status {
		case report.Review:
			e.Review++
		case report.Failed:
			e.Failed++
		}
	})
}

// record is what a submission came to.
func (g *Grading) record(s *submission) (*report.Student, error) {
	record := &report.Student{
		V: 1, ID: s.file.ID, Assignment: g.a.Rubric.Info.Name, Late: s.file.Late, Notice: g.o.Notice,
		Inputs: g.inputs(s), GradedAt: g.o.Now().UTC(),
	}
	if s.problem != nil {
		record.Problem = s.problem.Error()
		g.desk.Settle(record)
		return record, nil
	}
	record.Layer1, record.Layer2, record.Flags, record.Dropped = s.layer1, s.layer2, s.flags, s.dropped
	parts, err := g.parts(s)
	if err != nil {
		return nil, err
	}
	record.Code, record.Feedback = parts[rubric.JudgeCode], parts[rubric.JudgeFeedback]
	if g.o.WithoutAsk {
		record.Reasons = append(record.Reasons, notAsked)
	}
	for _, by := range judges {
		p := parts[by]
		if p.Answer == nil && !g.o.WithoutAsk {
			record.Reasons = append(record.Reasons, fmt.Sprintf("the %s model gave no answer that counts: %s", by, p.Problem))
		}
	}
	record.Reasons = append(record.Reasons, s.reasons...)
	g.desk.Settle(record)
	if sequential, parallel, ok := pair(record); ok {
		record.SpeedUp = speedUp(sequential, parallel)
	}
	return record, nil
}

// parts are what the models said about a submission, by judge.
func (g *Grading) parts(s *submission) (map[rubric.Judge]*report.Part, error) {
	parts := map[rubric.Judge]*report.Part{}
	for _, by := range judges {
		parts[by] = &report.Part{Model: g.a.model(by), Problem: notAsked}
	}
	for _, q := range s.requests {
		p, err := g.part(q)
		if err != nil {
			return nil, err
		}
		p.Counted = p.Answer != nil && len(s.flags) == 0
		parts[q.judge] = p
	}
	return parts, nil
}

// part is what became of a settled request. The answer is read from its file, so that no answers are kept in memory.
func (g *Grading) part(q *request) (*report.Part, error) {
	a := q.last()
	answer, err := g.answers.read(a)
	if err != nil {
		return nil, err
	}
	if answer == nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "%s was changed while the class was being graded; run again with --resume", g.answers.name(a))
	}
	p := &report.Part{
		Model: q.model, Asked: len(q.round), Cut: q.cut, Job: answer.JobID,
		Method: answer.Method, Warnings: slices.Clone(answer.Warnings), Usage: answer.Usage, Timings: answer.Timings,
		Servers: answer.Servers, Decision: answer.Decision, Source: answer.Provenance,
	}
	read, s, problem := judge(q.judge, g.a.Rubric, answer)
	switch s {
	case passed:
		p.Answer = read
	case rejected:
		p.Problem = fmt.Sprintf("its answer was refused twice, at last since %v", problem)
	case failed:
		p.Problem = problem.Error()
	}
	return p, nil
}
