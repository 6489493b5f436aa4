package grader

import (
	"cmp"
	"slices"

	"tandem/jobs"
)

// sendingOrder is the order of all requests in which a class is done soonest: the longest submissions first, so that no long one is left for the end. With plan
// disaggregated decode waits for the first prompt, so the shortest goes before them. If one model is both judges, it is asked all
// of one kind in a row, since its prompts share the beginning. The same rule for files of jobs: internal/app/submitter/order.go.
func (g *Grading) sendingOrder() (order []*request) {
	list := slices.DeleteFunc(slices.Clone(g.submissions), func(s *submission) bool { return len(s.requests) == 0 })
	slices.SortStableFunc(list, func(a, b *submission) int { return cmp.Compare(b.ownTokens(), a.ownTokens()) })
	if n := len(list); n > 2 && (g.o.Plan == "" || g.o.Plan == jobs.PlanDisaggregated) {
		list = slices.Insert(list[:n-1], 0, list[n-1])
	}
	if g.a.model(judges[0]) != g.a.model(judges[1]) {
		for _, s := range list {
			order = append(order, s.requests...)
		}
		return order
	}
	for i := range judges {
		for _, s := range list {
			order = append(order, s.requests[i])
		}
	}
	return order
}

// ownTokens is about how long the student's part is.
func (s *submission) ownTokens() (n int) {
	for _, q := range s.requests {
		n += q.ownTokens
	}
	return n
}
