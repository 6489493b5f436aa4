package submitter

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"tandem/internal/sanitize"
	"tandem/jobs"
)

// plainEvery is how often progress is told where there is no terminal to redraw a line on.
const plainEvery = 5 * time.Second

// progress tells how far long work is: one line that is redrawn on a terminal, plain lines now and
// then otherwise. It is safe for concurrent use.
type progress struct {
	w     io.Writer
	live  bool
	quiet bool
	width int // columns of the terminal
	total int
	start time.Time

	mu     sync.Mutex
	done   int
	before int // of those, done before start
	failed int
	tokens int       // generated since start
	stages string    // how many jobs wait and run where
	ends   time.Time // as far as that was foreseen; zero if it was not
	drawn  bool      // a live line is on the screen
	told   time.Time
}

// newProgress starts the clock for total jobs, of which some were done before.
func newProgress(w io.Writer, quiet bool, total int) *progress {
	now := time.Now()
	p := &progress{w: w, live: isTerminal(w), quiet: quiet, width: 80, total: total, start: now, told: now}
	if f, ok := w.(interface{ Fd() uintptr }); ok && p.live {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			p.width = width
		}
	}
	return p
}

// had counts a job that an earlier run finished.
func (p *progress) had(r *jobs.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before++
	p.count(r)
}

// result counts a job that ended now, and says why if it failed.
func (p *progress) result(r *jobs.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(r)
	p.tokens += r.Usage.GeneratedTokens
	if r.Status != jobs.Succeeded {
		p.line("%s: %s", cell(nameOf(r)), problem(r))
	}
	p.show()
}

func (p *progress) count(r *jobs.Result) {
	p.done++
	if r.Status != jobs.Succeeded {
		p.failed++
	}
}

// stage says where the jobs are; the line is redrawn.
func (p *progress) stage(where string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stages = where
	p.show()
}

// foresee takes how long it will take still; without ok the pace so far must do.
func (p *progress) foresee(left time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ends = time.Now().Add(left); !ok {
		p.ends = time.Time{}
	}
}

// say prints a line of its own.
func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.quiet {
		p.line("%s", line)
	}
}

// stop takes the live line away.
func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) line(format string, args ...any) {
	p.clear()
	fmt.Fprintf(p.w, format+"\n", args...)
}

func (p *progress) clear() {
	if p.drawn {
		io.WriteString(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

func (p *progress) show() {
	now := time.Now()
	switch {
	case p.quiet:
	case p.live:
		p.clear()
		text := []rune(p.text(now))
		io.WriteString(p.w, string(text[:min(len(text), p.width-1)]))
		p.drawn = true
	case p.done == p.total, now.Sub(p.told) >= plainEvery:
		p.told = now
		fmt.Fprintln(p.w, p.text(now))
	}
}

// text is the line: jobs done, failures, time left, speed and, last since it may be cut off, stages.
func (p *progress) text(now time.Time) string {
	parts := []string{fmt.Sprintf("%d of %d jobs done", p.done, p.total)}
	if p.failed > 0 {
		parts[0] += fmt.Sprintf(" (%d failed)", p.failed)
	}
	elapsed := now.Sub(p.start)
	fresh := p.done - p.before
	switch {
	case p.done == p.total:
		parts = append(parts, clock(elapsed))
	case p.ends.After(now):
		parts = append(parts, "about "+clock(p.ends.Sub(now))+" left")
	case fresh > 0:
		parts = append(parts, "about "+clock(elapsed/time.Duration(fresh)*time.Duration(p.total-p.done))+" left")
	default:
		parts = append(parts, clock(elapsed))
	}
	if p.tokens > 0 && elapsed > 0 {
		parts = append(parts, rate(float64(p.tokens)/elapsed.Seconds()))
	}
	if p.stages != "" && p.done < p.total {
		parts = append(parts, sanitize.Text(p.stages))
	}
	return strings.Join(parts, " · ")
}

// nameOf is what the submitter calls the job.
func nameOf(r *jobs.Result) string {
	if r.CustomID != "" {
		return r.CustomID
	}
	return r.JobID
}
