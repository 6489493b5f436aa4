package submitter

import (
	"fmt"
	"time"

	"tandem/jobs"
)

// batchProgress tells how far a batch is.
type batchProgress struct {
	*progress
	total int

	// mu guards these, too.
	done   int
	before int // of those, done before start
	failed int
	tokens int // of the others
}

// newBatchProgress starts the clock for total jobs, of which some were done before.
func newBatchProgress(s *session, total int) *batchProgress {
	p := &batchProgress{progress: newProgress(s), total: total}
	p.lines = p.text
	return p
}

// had counts a job that an earlier run finished.
func (p *batchProgress) had(r *jobs.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before++
	p.count(r)
}

// result counts a job that ended now, and says why if it failed.
func (p *batchProgress) result(r *jobs.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(r)
	p.tokens += r.Usage.GeneratedTokens
	if r.Status != jobs.Succeeded {
		p.line(fmt.Sprintf("%s: %s", cell(nameOf(r)), problem(r)))
	}
	p.show(time.Now())
}

func (p *batchProgress) count(r *jobs.Result) {
	delete(p.phases, r.JobID)
	p.done++
	if r.Status != jobs.Succeeded {
		p.failed++
	}
}

// text is: jobs done, failures, time left, speed; and where the others are.
func (p *batchProgress) text(now time.Time) (lines []string, done bool) {
	line := fmt.Sprintf("%d of %d jobs done", p.done, p.total)
	if p.failed > 0 {
		line += fmt.Sprintf(" (%d failed)", p.failed)
	}
	elapsed := now.Sub(p.start)
	fresh := p.done - p.before
	done = p.done == p.total
	switch {
	case done:
		line += " · " + clock(elapsed)
	case p.ends.After(now):
		line += " · about " + clock(p.ends.Sub(now)) + " left"
	case fresh > 0:
		line += " · about " + clock(elapsed/time.Duration(fresh)*time.Duration(p.total-p.done)) + " left"
	default:
		line += " · " + clock(elapsed)
	}
	if tokens := p.tokens + p.phases.tokens(); tokens > 0 && elapsed > 0 {
		line += " · " + rate(float64(tokens)/elapsed.Seconds())
	}
	if where := p.where(); where != "" && !done {
		if unheard := p.total - p.done - len(p.phases); unheard > 0 && len(p.phases) > 0 {
			where += fmt.Sprintf(" · %d not heard of yet", unheard)
		}
		return []string{line, where}, false
	}
	return []string{line}, done
}

// nameOf is what the submitter calls the job.
func nameOf(r *jobs.Result) string {
	if r.CustomID != "" {
		return r.CustomID
	}
	return r.JobID
}
