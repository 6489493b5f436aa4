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
	"tandem/internal/sanitize"
	"tandem/jobs"
)

// gradeProgress tells how far a grading is: a small table that is redrawn on a terminal, plain lines now
// and then otherwise. It is safe for concurrent use.
type gradeProgress struct {
	w       io.Writer
	live    bool
	quiet   bool
	inTurns bool // one model answers at a time, not both side by side
	start   time.Time

	mu     sync.Mutex
	last   grader.Event
	begun  bool
	answer time.Time           // when the last one came
	counts map[string]*answers // by model
	where  string              // where the jobs are
	ends   time.Time           // as far as that was foreseen; zero if it was not
	drawn  []string            // lines on the screen
	told   time.Time
	ended  bool // the last plain line was told
}

// answers are what a model answered in this run.
type answers struct {
	jobs, tokens int
	took         time.Duration // by the clock, up to the last of them
}

func newGradeProgress(s *session, inTurns bool) *gradeProgress {
	now := time.Now()
	return &gradeProgress{
		w: s.err, live: isTerminal(s.err), quiet: s.Quiet, inTurns: inTurns, start: now, answer: now, told: now, counts: map[string]*answers{},
	}
}

// event takes what the grader tells.
func (p *gradeProgress) event(e grader.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.begun, p.last = true, e
	if e.Result != nil {
		p.count(e.Result, now)
	}
	if f := e.Finished; f != nil && f.Status != report.Graded && !p.quiet {
		p.clear()
		fmt.Fprintf(p.w, "%s: %s\n", f.ID, sanitize.Text(why(f.Status, f.Problem, f.Reasons)))
	}
	p.show(now)
}

func (p *gradeProgress) count(r *jobs.Result, now time.Time) {
	a := p.counts[r.Model]
	if a == nil {
		a = &answers{}
		p.counts[r.Model] = a
	}
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

// stage says where the jobs are.
func (p *gradeProgress) stage(where string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.where = where
	p.show(time.Now())
}

// foresee takes how long the answers that are missing will take; without ok the pace so far must do.
func (p *gradeProgress) foresee(left time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ends = time.Now().Add(left); !ok {
		p.ends = time.Time{}
	}
}

// say prints a line of its own.
func (p *gradeProgress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.quiet {
		p.clear()
		fmt.Fprintln(p.w, line)
	}
}

// stop takes the table away.
func (p *gradeProgress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *gradeProgress) clear() {
	if n := len(p.drawn); n > 0 {
		fmt.Fprintf(p.w, "\r\x1b[%dA\x1b[J", n)
		p.drawn = nil
	}
}

func (p *gradeProgress) show(now time.Time) {
	if p.quiet || !p.begun {
		return
	}
	lines := p.lines(now)
	done := p.last.Done == p.last.Submissions
	switch {
	case p.live:
		p.draw(lines)
	case done && !p.ended, !done && now.Sub(p.told) >= plainEvery:
		p.told, p.ended = now, done
		fmt.Fprintln(p.w, strings.Join(lines, " · "))
	}
}

// draw puts the table over the one before, in one piece and without erasing what stays, so that nothing flickers.
func (p *gradeProgress) draw(lines []string) {
	width := terminalWidth(p.w)
	for i, l := range lines {
		text := []rune(l)
		lines[i] = string(text[:min(len(text), width-1)])
	}
	if slices.Equal(lines, p.drawn) {
		return
	}
	var b strings.Builder
	if n := len(p.drawn); n > 0 {
		fmt.Fprintf(&b, "\r\x1b[%dA", n)
	}
	for _, l := range lines {
		b.WriteString(l + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	io.WriteString(p.w, b.String())
	p.drawn = lines
}

// terminalWidth is how many columns the terminal has now; 80 if it does not say.
func terminalWidth(w io.Writer) int {
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

// lines are the table: submissions, answers by model, where the jobs are.
func (p *gradeProgress) lines(now time.Time) []string {
	e := p.last
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
	lines := []string{strings.Join(first, ", ")}
	for _, m := range models {
		line := fmt.Sprintf("%s: %d of %d answers", m.Model, m.Answered, m.Jobs)
		if a := p.counts[m.Model]; a != nil && a.tokens > 0 {
			line += ", " + rate(float64(a.tokens)/max(a.took.Seconds(), 1e-3))
		}
		lines = append(lines, line)
	}
	if p.where != "" && e.Done < e.Submissions {
		lines = append(lines, p.where)
	}
	return lines
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
