package submitter

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem/client/admin"
	"tandem/internal/grader"
	"tandem/internal/grader/report"
	"tandem/jobs"
)

// told is a grading of ten submissions as the grader tells it: the quick model answers every second, the slow one every ten.
type told struct {
	p     *gradeProgress
	event grader.Event
}

func tell(t *testing.T, out *strings.Builder, inTurns, live bool) *told {
	p := newGradeProgress(&session{err: out}, inTurns)
	p.live = live
	w := &told{p: p, event: grader.Event{Submissions: 10, Judges: [2]grader.Share{{Model: "quick", Jobs: 10}, {Model: "slow", Jobs: 10}}}}
	p.graded(w.event)
	return w
}

func (w *told) answer(judge int) {
	s := &w.event.Judges[judge]
	s.Answered++
	e := w.event
	e.Result = &jobs.Result{Model: s.Model, Usage: jobs.Usage{GeneratedTokens: 50}}
	w.p.graded(e)
}

func (w *told) finish(n int) {
	for range n {
		w.event.Done++
		e := w.event
		e.Finished = &report.Student{ID: "s-000001", Status: report.Graded}
		w.p.graded(e)
	}
}

// first is the first line that there is to tell.
func first(w *told) string {
	lines, _ := w.p.table(time.Now())
	return lines[0]
}

// TestTimeLeftIsTheSlowerModels: an average over both would promise a tenth of it when the quick model is done.
func TestTimeLeftIsTheSlowerModels(t *testing.T) {
	for _, tt := range []struct {
		name    string
		inTurns bool
		want    []string // after the quick model's first answer, its last, the slow one's first
	}{
		{"side by side", false, []string{", 1 s", "about 1 min 30 s left", "about 1 min 20 s left"}},
		{"in turns", true, []string{"about 19 s left", "about 10 s left", "about 1 min 30 s left"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := tell(t, &strings.Builder{}, tt.inTurns, false)
				check := func(i int) {
					t.Helper()
					if !strings.HasSuffix(first(w), tt.want[i]) {
						t.Errorf("%q is said, want %q at the end", first(w), tt.want[i])
					}
				}
				<-time.After(time.Second) // of the bubble's clock
				w.answer(0)
				check(0)
				if !tt.inTurns {
					<-time.After(9 * time.Second)
					w.answer(1)
				}
				for range 9 {
					if tt.inTurns {
						<-time.After(time.Second)
					}
					w.answer(0)
				}
				check(1)
				<-time.After(10 * time.Second)
				w.answer(1)
				check(2)
			})
		})
	}
}

func TestPlainProgressIsALineNowAndThenAndOneAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		w := tell(t, &out, false, false)
		for i := range 10 {
			w.p.event(&jobs.Event{Type: jobs.EventAccepted, JobID: strconv.Itoa(i)})
		}
		w.p.event(&jobs.Event{Type: jobs.EventPrefillBegun, JobID: "3"})
		<-time.After(5 * time.Second)
		w.answer(0)
		w.answer(1)
		w.finish(10)
		w.p.graded(w.event)
		w.p.redraw()
		w.p.stop()
		want := "0 of 10 submissions reported, 5 s · quick: 1 of 10 answers, 10.0 tok/s · slow: 0 of 10 answers · prefill 1 running, 9 waiting · decode 0 running, 0 waiting\n"
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("was told:\n%swant:\n%s", out.String(), want)
		}
		if n := strings.Count(out.String(), "10 of 10 submissions reported"); n != 1 || strings.Count(out.String(), "\n") != 2 {
			t.Errorf("the end was told %d times:\n%s", n, out.String())
		}
	})
}

// TestTheTableIsDrawnOverItself: what did not change is not drawn again, nothing is erased before it is written anew, and at the end nothing is left.
func TestTheTableIsDrawnOverItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		w := tell(t, &out, false, true)
		if got, want := out.String(), "0 of 10 submissions reported, 0 s\x1b[K\nquick: 0 of 10 answers\x1b[K\nslow: 0 of 10 answers\x1b[K\n\x1b[J"; got != want {
			t.Fatalf("drew %q, want %q", got, want)
		}
		out.Reset()
		w.p.graded(w.event)
		if out.Len() > 0 {
			t.Errorf("drew %q, and nothing had changed", out.String())
		}
		w.p.looked(&admin.Overview{}, []string{strings.Repeat("long ", 40)}, nil)
		for line := range strings.Lines(out.String()) {
			if text, _, _ := strings.Cut(line, "\x1b[K"); len([]rune(strings.TrimPrefix(text, "\r\x1b[3A"))) > 79 {
				t.Errorf("line %q is wider than the terminal", line)
			}
		}
		if !strings.HasPrefix(out.String(), "\r\x1b[3A0 of 10") {
			t.Errorf("drew %q, want it over the three lines before", out.String())
		}
		out.Reset()
		w.p.stop()
		if got, want := out.String(), "\r\x1b[4A\x1b[J"; got != want {
			t.Errorf("ended with %q, want %q", got, want)
		}
	})
}
