package forecast

import (
	"slices"
	"sync"
	"time"

	"tandem/client/admin"
	"tandem/internal/engine"
	"tandem/internal/grader"
	"tandem/jobs"
)

// Both judges are asked about each submission at once, neither waits for the other. So a class is done when the slower model is, or, if there is but one
// model, when that has done both parts.

// requests are what one model is asked, in the order in which it is sent.
type requests struct {
	model string
	list  []request
}

type request struct {
	judge               string // those of a judge share a prefix
	shared, own, answer int    // tokens; of the answer at most
}

// requestsOf are a plan's, model by model.
func requestsOf(p *grader.Plan) (list []requests) {
	for _, m := range p.Models {
		if m.Jobs == 0 {
			continue
		}
		i := slices.IndexFunc(list, func(r requests) bool { return r.model == m.Model })
		if i < 0 {
			i = len(list)
			list = append(list, requests{model: m.Model})
		}
		for _, q := range m.Requests {
			list[i].list = append(list[i].list, request{m.Judge, m.SharedTokens, q.OwnTokens, q.AnswerTokens})
		}
	}
	return list
}

// sizes estimates how large the requests are: tokens are the grader's estimate.
func (r *requests) sizes(l *Lookout) []engine.Size {
	sizes := make([]engine.Size, len(r.list))
	for i, q := range r.list {
		sizes[i] = engine.Size{Tokens: q.shared + q.own, Prefix: q.shared, Generated: int(engine.Answer(l.model, q.judge, q.answer, l.workers).Value), Key: q.judge}
	}
	return sizes
}

// Class estimates what a dry run of a grading would send; without an overview by published figures.
func Class(o *admin.Overview, p *grader.Plan, class jobs.Class, plan jobs.Plan) *Estimate {
	e := new(Estimate)
	for _, r := range requestsOf(p) {
		l := Look(o, r.model, class)
		e.Add(l.Estimate(r.sizes(l), plan))
	}
	return e
}

// ClassForesight foresees when a class will be done. It is safe for concurrent use.
type ClassForesight struct {
	requests []requests
	class    jobs.Class
	plan     jobs.Plan

	mu   sync.Mutex
	left map[string]int // requests without an answer, by model
}

// NewClassForesight foresees the end of what a plan lists.
func NewClassForesight(p *grader.Plan, class jobs.Class, plan jobs.Plan) *ClassForesight {
	return &ClassForesight{requests: requestsOf(p), class: class, plan: plan, left: map[string]int{}}
}

// Event takes what the grader tells.
func (f *ClassForesight) Event(e grader.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.left)
	for _, s := range e.Judges {
		f.left[s.Model] += s.Jobs - s.Answered
	}
}

// Until foresees when the rest will be answered; ok is false if that cannot be told. The last requests are those that are left, about, and those that
// ask again are like them.
func (f *ClassForesight) Until(o *admin.Overview) (left time.Duration, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.requests {
		l := Look(o, r.model, f.class)
		sizes := r.sizes(l)
		for len(sizes) > 0 && len(sizes) < f.left[r.model] {
			sizes = append(sizes, sizes[len(sizes)-1])
		}
		rest, ok := l.Until(sizes[len(sizes)-min(len(sizes), f.left[r.model]):], f.plan)
		if !ok {
			return 0, false
		}
		left = max(left, rest)
	}
	return left, true
}
