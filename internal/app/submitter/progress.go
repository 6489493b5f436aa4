package submitter

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"tandem/client/admin"
	"tandem/internal/protocol"
	"tandem/internal/sanitize"
	"tandem/jobs"
)

const (
	plainEvery = 5 * time.Second        // how often progress is told where there is no terminal to redraw lines on
	drawEvery  = 100 * time.Millisecond // how often events of jobs redraw them
	lookEvery  = 5 * time.Second        // how often the whole queue is looked at, for the forecast
)

// progress tells how far work is: a few lines that are redrawn on a terminal, one plain line now and then otherwise. Where jobs are it knows from their
// events. It is safe for concurrent use.
type progress struct {
	w     io.Writer
	live  bool // w is a terminal
	quiet bool
	start time.Time
	lines func(now time.Time) (lines []string, done bool) // what there is to tell; mu is held. No lines: nothing yet

	mu      sync.Mutex
	phases  phases
	missing []string  // what jobs wait for in vain
	ends    time.Time // as far as that was foreseen; zero if it was not
	drawn   []string  // lines on the screen
	drew    time.Time
	told    time.Time
	ended   bool // the last plain line was told
}

func newProgress(s *session) *progress {
	now := time.Now()
	return &progress{w: s.err, live: isTerminal(s.err), quiet: s.Quiet, start: now, told: now, phases: phases{}}
}

// watch follows the jobs of a batch, or one of them, until stop is called: by their events, and, for what only the queue as a whole can tell, by looking
// at it now and then. Without foresee the pace so far must do.
func (p *progress) watch(ctx context.Context, s *session, batch, jobID string, models []string, foresee func(*admin.Overview) (time.Duration, bool)) (stop func()) {
	if p.quiet {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	if events, err := s.client.Events(ctx, batch, jobID); err == nil { // else progress says less
		watching.Go(func() {
			for e := range events {
				p.event(e)
			}
		})
	}
	watching.Go(func() {
		look, draw := time.NewTicker(lookEvery), time.NewTicker(time.Second)
		defer look.Stop()
		defer draw.Stop()
		for {
			if o, err := s.client.Inspect(ctx); err == nil { // else the next one may succeed
				p.looked(o, models, foresee)
			}
			for waiting := true; waiting; {
				select {
				case <-draw.C:
					p.redraw()
				case <-look.C:
					waiting = false
				case <-ctx.Done():
					return
				}
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// event takes what happened to a job.
func (p *progress) event(e *jobs.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phases.event(e)
	if now := time.Now(); now.Sub(p.drew) >= drawEvery {
		p.show(now)
	}
}

// looked takes the state of the queue.
func (p *progress) looked(o *admin.Overview, models []string, foresee func(*admin.Overview) (time.Duration, bool)) {
	var missing []string
	for _, m := range models {
		if !serves(o, protocol.RoleDecode, m) {
			missing = append(missing, "no decode worker for "+m)
		}
	}
	left, ok := time.Duration(0), false
	if foresee != nil {
		left, ok = foresee(o)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing = missing
	p.foresee(left, ok)
	p.show(time.Now())
}

// foresee takes how long it will take still, if that is known.
func (p *progress) foresee(left time.Duration, ok bool) {
	if p.ends = time.Now().Add(left); !ok {
		p.ends = time.Time{}
	}
}

// where says where the jobs are that events told of, and what they wait for in vain; "" if nobody knows.
func (p *progress) where() string {
	list := p.missing
	if len(p.phases) > 0 {
		list = append(slices.Clone(list), p.phases.String())
	}
	return sanitize.Text(strings.Join(list, " · "))
}

func (p *progress) redraw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(time.Now())
}

// say prints a line of its own.
func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.quiet {
		p.line(line)
	}
}

// aside lets something else be written to the terminal.
func (p *progress) aside(write func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return write()
}

// stop takes the lines away.
func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) line(line string) {
	p.clear()
	fmt.Fprintln(p.w, line)
}

func (p *progress) clear() {
	if n := len(p.drawn); n > 0 {
		fmt.Fprintf(p.w, "\r\x1b[%dA\x1b[J", n)
		p.drawn = nil
	}
}

func (p *progress) show(now time.Time) {
	if p.quiet {
		return
	}
	lines, done := p.lines(now)
	switch {
	case len(lines) == 0:
	case p.live:
		p.draw(lines, now)
	case done && !p.ended, !done && now.Sub(p.told) >= plainEvery:
		p.told, p.ended = now, done
		fmt.Fprintln(p.w, strings.Join(lines, " · "))
	}
}

// draw puts the lines over those before, in one piece and without erasing what stays, so that nothing flickers.
func (p *progress) draw(lines []string, now time.Time) {
	width := terminalWidth(p.w)
	for i, l := range lines {
		text := []rune(l)
		lines[i] = string(text[:min(len(text), width-1)])
	}
	p.drew = now
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
