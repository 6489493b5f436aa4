package submitter

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem/internal/grader"
	"tandem/internal/grader/report"
	"tandem/internal/sanitize"
	"tandem/jobs"
)

// gradeProgress tells how far a grading is: submissions, answers by model, where the jobs are.
type gradeProgress struct {
	*progress
	inTurns bool // one model answers at a time, not both side by side

	// mu guards these, too.
	last   grader.Event
	begun  bool
	answer time.Time           // when the last one came
	counts map[string]*answers // by model
}

// answers are what a model answered in this run.
type answers struct {
	jobs, tokens int
	took         time.Duration // by the clock, up to the last of them
}

func newGradeProgress(s *session, inTurns bool) *gradeProgress {
	p := &gradeProgress{progress: newProgress(s), inTurns: inTurns, counts: map[string]*answers{}}
	p.answer, p.lines = p.start, p.table
	return p
}

// graded takes what the grader tells.
func (p *gradeProgress) graded(e grader.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.begun, p.last = true, e
	if e.Result != nil {
		p.count(e.Result, now)
	}
	if f := e.Finished; f != nil && f.Status != report.Graded && !p.quiet {
		p.line(fmt.Sprintf("%s: %s", f.ID, sanitize.Text(why(f.Status, f.Problem, f.Reasons))))
	}
	p.show(now)
}

func (p *gradeProgress) count(r *jobs.Result, now time.Time) {
	a := p.counts[r.Model]
	if a == nil {
		a = &answers{}
		p.counts[r.Model] = a
	}
	delete(p.phases, r.JobID)
	a.jobs++
	a.tokens += r.Usage.GeneratedTokens
	if p.inTurns {
		a.took += now.Sub(p.answer)
	} else {
		a.took = now.Sub(p.start)
	}
	p.answer = now
}

// why says in one line what is the matter with a submission.
func why(status report.Status, problem string, reasons []string) string {
	if problem != "" {
		return "failed: " + problem
	}
	return strings.ReplaceAll(string(status), "_", " ") + ": " + strings.Join(reasons, "; ")
}

func (p *gradeProgress) table(now time.Time) (lines []string, done bool) {
	e := p.last
	if !p.begun {
		return nil, false
	}
	first := []string{fmt.Sprintf("%d of %d submissions reported", e.Done, e.Submissions)}
	for _, more := range []struct {
		n    int
		what string
	}{{e.Review, "to review"}, {e.Failed, "failed"}} {
		if more.n > 0 {
			first = append(first, fmt.Sprintf("%d %s", more.n, more.what))
		}
	}
	models := p.models()
	if left, ok := p.left(models, now); ok {
		first = append(first, "about "+clock(left)+" left")
	} else {
		first = append(first, clock(now.Sub(p.start)))
	}
	lines = []string{strings.Join(first, ", ")}
	for _, m := range models {
		line := fmt.Sprintf("%s: %d of %d answers", m.Model, m.Answered, m.Jobs)
		if a := p.counts[m.Model]; a != nil && a.tokens > 0 {
			line += ", " + rate(float64(a.tokens)/max(a.took.Seconds(), 1e-3))
		}
		lines = append(lines, line)
	}
	done = e.Done == e.Submissions
	if where := p.where(); where != "" && !done {
		lines = append(lines, where)
	}
	return lines, done
}

// models are those that are asked, each once.
func (p *gradeProgress) models() []grader.Share {
	var list []grader.Share
	for _, s := range p.last.Judges {
		switch n := len(list); {
		case s.Jobs == 0:
		case n > 0 && list[n-1].Model == s.Model:
			list[n-1].Jobs += s.Jobs
			list[n-1].Answered += s.Answered
		default:
			list = append(list, s)
		}
	}
	return list
}

// left is how long the answers that are missing will take, each model being as fast as it was so far: as long as the slower model needs, or both if they take turns. ok is false if nothing
// is missing, or if a model has not answered yet from which that can be told. What was foreseen counts more.
func (p *gradeProgress) left(models []grader.Share, now time.Time) (left time.Duration, ok bool) {
	missing := slices.ContainsFunc(models, func(m grader.Share) bool { return m.Answered < m.Jobs })
	if missing && p.ends.After(now) {
		return p.ends.Sub(now), true
	}
	var all answers
	for _, a := range p.counts {
		all.jobs, all.took = all.jobs+a.jobs, all.took+a.took
	}
	for _, m := range models {
		if m.Answered == m.Jobs {
			continue
		}
		a := p.counts[m.Model]
		if a == nil && p.inTurns {
			a = &all // its turn is to come: as if it were as fast as the other
		}
		if a == nil || a.jobs == 0 {
			return 0, false
		}
		n := time.Duration(m.Jobs - m.Answered)
		if p.inTurns {
			left += a.took / time.Duration(a.jobs) * n
		} else {
			left = max(left, now.Sub(p.start)/time.Duration(a.jobs)*n)
		}
		ok = true
	}
	return left, ok
}
