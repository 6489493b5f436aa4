package grader

import (
	"context"
	"fmt"

	"tandem/internal/grader/ask"
	"tandem/internal/grader/rubric"
	"tandem/jobs"
)

// takeAll takes answers until there are all: those of the jobs that are known now, then those of the jobs that ask again.
func (r *run) takeAll(ctx context.Context) error {
	for len(r.ids) > 0 {
		ids := r.ids
		r.ids = nil
		for answer, err := range r.models.Await(ctx, r.batch, ids) {
			if err != nil {
				return err
			}
			if err := r.take(answer); err != nil {
				return err
			}
		}
	}
	if len(r.waiting) > 0 {
		return jobs.Errorf(jobs.CodeEngineFailed, "the answers ended while %d requests had none", len(r.waiting))
	}
	return nil
}

// take stores an answer, says so in the ledger and does what follows: asks again, or writes the report. It belongs to the attempt of its custom id; the job may be a replay of the one
// that was sent. A second answer is ignored.
func (r *run) take(answer *jobs.Result) error {
	q := r.waiting[answer.CustomID]
	if q == nil {
		return nil
	}
	a := q.last()
	sha, err := r.answers.write(a, answer)
	if err != nil {
		return err
	}
	a.hear(r.a.Rubric, answer)
	end := &answered{Job: a.Job, State: a.state, SHA256: sha, At: r.o.Now().UTC()}
	if err := r.ledger.append(line{Answered: end}); err != nil {
		return err
	}
	delete(r.waiting, answer.CustomID)
	r.say(answer, nil, func(e *Event) {
		a.answer = end
		r.metrics.add(a, answer)
		e.share(q.judge).Answered++
	})
	r.changed = true
	switch {
	case !q.settled():
		r.ask(q)
	case q.of.settled():
		if err := r.finish(q.of); err != nil {
			return err
		}
	}
	return r.writeClassNow()
}

// hear judges an answer.
func (a *attempt) hear(r *rubric.Rubric, answer *jobs.Result) {
	a.digest = answer.Provenance.ModelDigest
	_, a.state, a.problem = judge(a.Judge, r, answer)
}

// judge reads an answer. If there is none that passes, the problem says why, without a word of it.
func judge(by rubric.Judge, r *rubric.Rubric, answer *jobs.Result) (read *ask.Answer, s state, problem error) {
	if answer.Status != jobs.Succeeded {
		return nil, failed, fmt.Errorf("the job ended as %s: %s", answer.Status, answer.Error.Message)
	}
	read, problem = ask.Parse(by, r, answer.Text, answer.FinishReason)
	if problem != nil {
		return nil, rejected, problem
	}
	return read, passed, nil
}
