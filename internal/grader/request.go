package grader

import (
	"fmt"
	"slices"
	"strings"

	"tandem/internal/grader/ask"
	"tandem/internal/grader/rubric"
	"tandem/jobs"
)

// request is what one model is asked about one submission.
type request struct {
	of    *submission
	judge rubric.Judge
	model string
	key   string // of what is asked

	sharedTokens, ownTokens, answerTokens int // about; of the answer: at most
	cut                                   int // bytes of the student's part that are left out
	context                               int // in tokens, in which nothing is left out

	// round is how it was asked what is asked now: not yet, once, or once and once more after an answer that did not pass. The last one rules.
	follower jobs.Following // what it is for the one before

	round []*attempt
	next  int  // number of the next attempt
	held  bool // not to be sent by this run
}

// newRequest measures a request.
func (g *Grading) newRequest(s *submission, p *ask.Prompt) (*request, error) {
	j := p.Job()
	key, err := keyOf(g.inputs(s), j)
	if err != nil {
		return nil, err
	}
	q := &request{of: s, judge: p.Kind, model: p.Model, key: key, answerTokens: p.Tokens, cut: p.Cut, context: p.ContextTokens(), next: 1, follower: jobs.FollowingOf(j)}
	q.sharedTokens, q.ownTokens = p.EstimateTokens()
	return q, nil
}

// last is the attempt that rules, nil if there is none.
func (q *request) last() *attempt {
	if len(q.round) == 0 {
		return nil
	}
	return q.round[len(q.round)-1]
}

// settled reports whether there is nothing to wait for: an answer that passed, none that passed after it was asked again, or a job that failed.
func (q *request) settled() bool {
	a := q.last()
	return a != nil && a.answer != nil && (a.state != rejected || a.Again)
}

// pending reports whether it was asked and not answered.
func (q *request) pending() bool {
	a := q.last()
	return a != nil && a.answer == nil
}

// problem is what was wrong with the answer before the last attempt, nil if that does not ask again.
func (q *request) problem() error {
	if len(q.round) < 2 {
		return nil
	}
	return q.round[len(q.round)-2].problem
}

// attempt adds one to the round of a request.
func (g *Grading) attempt(q *request) *attempt {
	a := &attempt{asked: asked{
		Student: q.of.file.ID, Judge: q.judge, Attempt: q.next, Again: len(q.round) > 0,
		Key: q.key, Digest: g.o.Models[q.model].Digest, Context: g.context(q.judge), Inputs: g.inputs(q.of), Job: jobs.NewID(), At: g.o.Now().UTC(),
	}}
	q.next++
	q.round = append(q.round, a)
	return a
}

// recall finds in the ledger what was asked and answered before, and still holds.
func (g *Grading) recall() error {
	byRequest := map[string][]*attempt{}
	lost := 0
	for _, a := range g.ledger.attempts {
		if a.answer != nil {
			r, err := g.answers.read(a)
			if err != nil {
				return err
			}
			if r == nil {
				lost++
				a.answer, a.lost = nil, true
			} else {
				a.hear(g.a.Rubric, r)
				g.metrics.add(a, r)
			}
		}
		id := a.Student + "-" + string(a.Judge)
		byRequest[id] = append(byRequest[id], a)
	}
	if lost > 0 {
		g.warn("answers were lost or changed in %s: %d; those that are still needed are asked for again", answersDir, lost)
	}
	changes := map[string]int{}
	for _, s := range g.submissions {
		for _, q := range s.requests {
			earlier := byRequest[s.file.ID+"-"+string(q.judge)]
			g.remember(q, earlier)
			if len(q.round) == 0 {
				if why := g.changed(q, earlier); why != "" {
					changes[why]++
				}
			}
		}
	}
	for _, why := range sortedKeys(changes) {
		g.warn("%s changed since; answers that are asked again: %d", why, changes[why])
	}
	return nil
}

// remember takes the latest round of a request that asked the same of the same model.
func (g *Grading) remember(q *request, earlier []*attempt) {
	var same []*attempt
	for _, a := range earlier {
		q.next = max(q.next, a.Attempt+1)
		if a.Key == q.key && (a.answer == nil || sameModel(a.digest, g.o.Models[q.model].Digest)) {
			same = append(same, a)
		}
	}
	n := len(same)
	switch {
	case n == 0:
	case !same[n-1].Again:
		q.round = same[n-1:]
	case n > 1 && same[n-2].Attempt == same[n-1].Attempt-1 && same[n-2].answer != nil:
		q.round = same[n-2:]
	}
}

// changed says what changed since a request was answered, "" if it never was.
func (g *Grading) changed(q *request, earlier []*attempt) string {
	i := len(earlier) - 1
	for i >= 0 && (earlier[i].answer == nil || earlier[i].answer.State != passed) {
		i--
	}
	if i < 0 {
		return ""
	}
	a, now := earlier[i], g.inputs(q.of)
	var what []string
	for _, part := range []struct{ name, then, now string }{
		{"the rubric", a.Inputs.Rubric, now.Rubric},
		{"the solution", a.Inputs.Solution, now.Solution},
		{"the template", a.Inputs.Template, now.Template},
		{"the prompt templates", a.Inputs.Prompts, now.Prompts},
		{"notebooks", a.Inputs.Notebook, now.Notebook},
	} {
		if part.then != part.now {
			what = append(what, part.name)
		}
	}
	switch {
	case len(what) > 0:
		return strings.Join(what, " and ")
	case a.Key == q.key:
		return fmt.Sprintf("the file of model %s", q.model)
	}
	return "the models, their contexts or this program"
}

// choose applies [Options.Only] and [Options.Student]: who is asked again, and who is not asked.
func (g *Grading) choose() error {
	if g.o.Student != "" {
		return g.chooseStudent()
	}
	if g.o.Only == "" {
		return nil
	}
	vain := 0
	for _, s := range g.submissions {
		again := 0
		for _, q := range s.requests {
			if q.settled() && (q.last().state == failed || g.o.Only == OnlyReview && q.last().state == rejected) {
				q.round = nil
				again++
			}
		}
		if again == 0 && len(s.reasons) > 0 && s.settled() {
			vain++
		}
	}
	if g.o.Only == OnlyReview && vain > 0 {
		g.warn("submissions that need review for what no other answer changes, and are not asked about again: %d", vain)
	}
	return nil
}

func (g *Grading) chooseStudent() error {
	if !slices.ContainsFunc(g.submissions, func(s *submission) bool { return s.file.ID == g.o.Student }) {
		return jobs.Errorf(jobs.CodeInvalid, "no submission is of student %q; instructor/roster.csv in %s says whose pseudonym is which", g.o.Student, g.o.Out)
	}
	for _, s := range g.submissions {
		for _, q := range s.requests {
			if s.file.ID == g.o.Student {
				q.round = nil
			} else {
				q.held = !q.settled()
			}
		}
	}
	return nil
}
