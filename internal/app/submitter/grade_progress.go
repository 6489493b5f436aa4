package submitter

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"tandem/internal/grader"
	"tandem/internal/grader/report"
	"tandem/internal/inert"
)

// gradeProgress tells how far a grading is: a small table that is redrawn on a terminal, plain lines now
// and then otherwise. It is safe for concurrent use.
type gradeProgress struct {
	w      io.Writer
	live   bool
	quiet  bool
	width  int // columns of the terminal
	start  time.Time
	models []string

	mu     sync.Mutex
	last   grader.Event
	before int // answers that were there at the start
	begun  bool
	counts map[string]*answers // by model
	where  string              // where the jobs are
	drawn  int                 // lines on the screen
	told   time.Time
}

// answers are what a model answered in this run.
type answers struct{ jobs, tokens int }

func newGradeProgress(s *session, models []string) *gradeProgress {
	now := time.Now()
	p := &gradeProgress{w: s.err, live: isTerminal(s.err), quiet: s.Quiet, width: 80, start: now, told: now, models: models, counts: map[string]*answers{}}
	for _, m := range models {
		p.counts[m] = &answers{}
	}
	if f, ok := s.err.(interface{ Fd() uintptr }); ok && p.live {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			p.width = width
		}
	}
	return p
}

// event takes what the grader tells.
func (p *gradeProgress) event(e grader.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		p.begun, p.before = true, e.Answered
	}
	p.last = e
	if r := e.Result; r != nil && p.counts[r.Model] != nil {
		p.counts[r.Model].jobs++
		p.counts[r.Model].tokens += r.Usage.GeneratedTokens
	}
	if f := e.Finished; f != nil && f.Status != report.Graded && !p.quiet {
		p.clear()
		fmt.Fprintf(p.w, "%s: %s\n", f.ID, inert.Text(why(f.Status, f.Problem, f.Reasons)))
	}
	p.show()
}

// why says in one line what is the matter with a submission.
func why(status report.Status, problem string, reasons []string) string {
	if problem != "" {
		return "failed: " + problem
	}
	return strings.ReplaceAll(string(status), "_", " ") + ": " + strings.Join(reasons, "; ")
}

// stage says where the jobs are.
func (p *gradeProgress) stage(where string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.where = where
	p.show()
}

// stop takes the table away.
func (p *gradeProgress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *gradeProgress) clear() {
	if p.drawn > 0 {
		fmt.Fprintf(p.w, "\r\x1b[%dA\x1b[J", p.drawn)
		p.drawn = 0
	}
}

func (p *gradeProgress) show() {
	now := time.Now()
	lines := p.lines(now)
	switch {
	case p.quiet || !p.begun:
	case p.live:
		p.clear()
		for _, l := range lines {
			text := []rune(l)
			fmt.Fprintln(p.w, string(text[:min(len(text), p.width-1)]))
		}
		p.drawn = len(lines)
	case p.last.Done == p.last.Submissions && p.last.Finished != nil, now.Sub(p.told) >= plainEvery:
		p.told = now
		fmt.Fprintln(p.w, strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l == "" }), " · "))
	}
}

// lines are the table: submissions, answers by model, where the jobs are.
func (p *gradeProgress) lines(now time.Time) []string {
	e := p.last
	first := fmt.Sprintf("%d of %d submissions reported", e.Done, e.Submissions)
	for _, more := range []struct {
		n    int
		what string
	}{{e.Review, "need review"}, {e.Failed, "failed"}} {
		if more.n > 0 {
			first += fmt.Sprintf(", %d %s", more.n, more.what)
		}
	}
	elapsed := now.Sub(p.start)
	if fresh := e.Answered - p.before; fresh > 0 && e.Answered < e.Jobs {
		first += ", about " + clock(elapsed/time.Duration(fresh)*time.Duration(e.Jobs-e.Answered)) + " left"
	} else {
		first += ", " + clock(elapsed)
	}
	lines := []string{first, fmt.Sprintf("%d of %d answers", e.Answered, e.Jobs)}
	for _, m := range p.models {
		c := p.counts[m]
		lines = append(lines, fmt.Sprintf("%s: %d answers, %s", m, c.jobs, rate(float64(c.tokens)/max(elapsed.Seconds(), 1e-3))))
	}
	if p.where != "" && e.Answered < e.Jobs {
		lines = append(lines, p.where)
	}
	return lines
}
