package grader

import "tandem/internal/grader/rubric"

// judges are the two that each submission goes to.
var judges = [...]rubric.Judge{rubric.JudgeCode, rubric.JudgeFeedback}

// Plan says what Run would send.
func (g *Grading) Plan() (*Plan, error) {
	p := &Plan{Submissions: len(g.submissions), Warnings: g.warnings, SelfCheck: g.a.selfCheck}
	for _, s := range g.submissions {
		if s.problem != nil {
			p.Failed++
			p.Problems = append(p.Problems, ProblemPlan{ID: s.file.ID, Problem: s.problem.Error()})
		}
	}
	if g.o.WithoutAsk {
		return p, nil
	}
	for _, judge := range judges {
		m := ModelPlan{Model: g.a.model(judge), Judge: string(judge)}
		for _, q := range g.sendingOrder() {
			if q.judge == judge {
				m.add(q)
			}
		}
		p.Models = append(p.Models, m)
	}
	return p, nil
}

// add counts a request. One that was asked and is not answered yet is sent, in case it was not.
func (m *ModelPlan) add(q *request) {
	switch {
	case q.settled():
		m.Reused++
	case !q.held:
		m.Jobs++
		m.SharedTokens = q.sharedTokens // the same for the whole class
		m.OwnTokens += q.ownTokens
		m.LongestOwn = max(m.LongestOwn, q.ownTokens)
		m.AnswerTokens += q.answerTokens
		m.Requests = append(m.Requests, RequestPlan{q.ownTokens, q.answerTokens})
		m.Context = max(m.Context, q.context)
		if q.cut > 0 {
			m.Cut++
		}
	}
}
