package grader

import (
	"fmt"
	"slices"

	"tandem/internal/grader/report"
	"tandem/internal/grader/rubric"
	"tandem/internal/grader/score"
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
	if err := r.dir.WriteStudent(record, r.a.Rubric); err != nil {
		return err
	}
	r.done(s, record)
	return nil
}

// keep lets the report stand that an earlier run wrote, if there is one.
func (r *run) keep(s *submission) error {
	record, err := r.dir.ReadStudent(s.file.ID)
	if err != nil {
		return err
	}
	if record != nil {
		r.done(s, record)
	}
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
		record.Status, record.Problem = report.Failed, s.problem.Error()
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
	judged := score.Judgements{}
	for _, by := range judges {
		p := parts[by]
		if p.Answer == nil && !g.o.WithoutAsk {
			record.Reasons = append(record.Reasons, fmt.Sprintf("the %s model gave no answer that counts: %s", by, p.Problem))
		}
		if p.Counted {
			judged[by] = map[string]score.Verdict{}
			for _, c := range p.Answer.Criteria {
				judged[by][c.ID] = c.Verdict
			}
		}
	}
	record.Score = score.Compute(g.a.Rubric, s.layer1, s.layer2, judged)
	record.Reasons = append(record.Reasons, s.reasons...)
	record.Status = report.Graded
	if !record.Score.Certain || len(record.Reasons) > 0 {
		record.Status = report.Review
	}
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
