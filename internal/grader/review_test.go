package grader

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem/internal/grader/overrides"
	"tandem/internal/grader/report"
	"tandem/internal/grader/score"
	"tandem/jobs"
)

// review opens the bench's reports.
func (b *bench) review() *Review {
	b.t.Helper()
	r, err := OpenReview(b.out, "instructor")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = r.Close() })
	return r
}

// decide takes decisions and closes the review.
func (b *bench) decide(lines ...overrides.Line) {
	b.t.Helper()
	r := b.review()
	for _, n := range lines {
		if _, err := r.Decide(n); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		b.t.Fatal(err)
	}
}

var total = score.Thing{Kind: "variable", Section: "sum", Name: "total"}

func TestDecisions(t *testing.T) {
	for name, tt := range map[string]struct {
		decide func(id string) []overrides.Line
		points float64
		status report.Status
	}{
		"nothing": {func(string) []overrides.Line { return nil }, 50, report.Graded},
		"whole": {func(id string) []overrides.Line {
			return []overrides.Line{{Do: overrides.Points, Student: id, Points: new(71.5), Why: "shown in person"}}
		}, 71.5, report.Graded},
		"element": {func(id string) []overrides.Line {
			return []overrides.Line{{Do: overrides.Points, Student: id, Element: "why", Points: new(20.0), Why: "said it well"}}
		}, 50, report.Graded}, // the completion cap still holds
		"credit": {func(id string) []overrides.Line {
			return []overrides.Line{
				{Do: overrides.Credit, Student: id, Thing: &total, Credit: new(1.0), Why: "called sum_total"},
				{Do: overrides.Credit, Student: id, Thing: &score.Thing{Kind: score.Output, Section: "sum", Name: "total"}, Credit: new(1.0), Why: "called sum_total"},
			}
		}, 100, report.Graded},
		"final": {func(id string) []overrides.Line {
			return []overrides.Line{{Do: overrides.Final, Student: id}}
		}, 50, report.Final},
		"taken back": {func(id string) []overrides.Line {
			return []overrides.Line{
				{Do: overrides.Points, Student: id, Points: new(3.0), Why: "a mistake"},
				{Do: overrides.Undo, Of: 1},
			}
		}, 50, report.Graded},
		"taken back, and that, too": {func(id string) []overrides.Line {
			return []overrides.Line{
				{Do: overrides.Points, Student: id, Points: new(3.0), Why: "a mistake"},
				{Do: overrides.Undo, Of: 1}, {Do: overrides.Undo, Of: 2},
			}
		}, 3, report.Graded},
		"counts for nobody": {func(string) []overrides.Line {
			return []overrides.Line{
				{Do: overrides.Class, Thing: &total, Verdict: report.Ignore, Why: "was never asked for"},
				{Do: overrides.Class, Thing: &score.Thing{Kind: score.Output, Section: "sum", Name: "total"}, Verdict: report.Ignore, Why: "likewise"},
			}
		}, 100, report.Graded},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 2)
			b.student(1, solved()[:2]...) // without the total
			b.grade()
			id := b.id(1)
			b.decide(tt.decide(id)...)
			check := func(when string) {
				t.Helper()
				if s := b.record(id); s.Score.Points != tt.points || s.Status != tt.status || !s.Score.Certain {
					t.Errorf("%s: %v points, %s; want %v, %s\n%s", when, s.Score.Points, s.Status, tt.points, tt.status, strings.Join(s.Score.Reasons, "\n"))
				}
				row := b.summary().Students[slices.IndexFunc(b.summary().Students, func(row report.Row) bool { return row.ID == id })]
				if row.Points != tt.points {
					t.Errorf("%s: the class has %v points, want %v", when, row.Points, tt.points)
				}
			}
			check("after the decision")
			b.grade(func(o *Options) { o.Resume = true })
			check("after a later run")
		})
	}
}

// A decision that rested on something else is applied again, and a person looks again.
func TestDecisionsOnAChangedNotebook(t *testing.T) {
	b := newBench(t, 1)
	b.grade()
	id := b.id(1)
	b.decide(
		overrides.Line{Do: overrides.Points, Student: id, Points: new(88.0), Why: "late"},
		overrides.Line{Do: overrides.Final, Student: id},
	)
	if s := b.record(id); s.Status != report.Final || s.Score.Points != 88 {
		t.Fatalf("%s with %v points, want final with 88", s.Status, s.Score.Points)
	}
	b.student(1, append(solved(), cell{markdown: true, source: "More."})...)
	b.grade(func(o *Options) { o.Resume = true })
	s := b.record(id)
	if s.Status != report.Review || s.Score.Points != 88 {
		t.Errorf("after the notebook changed: %s with %v points, want needs_review with 88", s.Status, s.Score.Points)
	}
	for _, d := range s.Overrides.Decisions {
		if d.Now == "" {
			t.Errorf("line %d does not say that the notebook is another one", d.Line)
		}
	}
}

func TestComments(t *testing.T) {
	b := newBench(t, 1)
	b.grade()
	id := b.id(1)
	said := b.record(id).Feedback.Answer
	b.decide(
		overrides.Line{Do: overrides.Comment, Student: id, Comment: "summary", Text: "Well done."},
		overrides.Line{Do: overrides.Comment, Student: id, Text: "See me on Monday."},
		overrides.Line{Do: overrides.Comment, Student: id, Text: "A slip."},
		overrides.Line{Do: overrides.Comment, Student: id, Comment: "notes.3"},
		overrides.Line{Do: overrides.Comment, Student: id, Comment: "notes.2", Text: "See me on Tuesday."},
	)
	s := b.record(id)
	if got := s.Said(); got.Summary != "Well done." || s.Feedback.Answer.Summary != said.Summary {
		t.Errorf("the summary is %q, and the model's own %q; want the instructor's, and the model's kept", got.Summary, s.Feedback.Answer.Summary)
	}
	if notes := s.Notes(); len(notes) != 1 || notes[0].Text != "See me on Tuesday." {
		t.Errorf("notes are %v, want the one that was changed", notes)
	}
}

func TestDecisionsThatCannotBeTaken(t *testing.T) {
	b := newBench(t, 2)
	b.write(studentFile(2), []byte("<html>"))
	b.grade()
	id, broken := b.id(1), b.id(2)
	r := b.review()
	for name, tt := range map[string]struct {
		line overrides.Line
		want string
	}{
		"nobody":                          {overrides.Line{Do: overrides.Final, Student: "s-000000"}, `no submission is called "s-000000"`},
		"too many points":                 {overrides.Line{Do: overrides.Points, Student: id, Points: new(100.5), Why: "x"}, "points are 100.5; want a number from 0 to 100"},
		"too many of one":                 {overrides.Line{Do: overrides.Points, Student: id, Element: "why", Points: new(21.0), Why: "x"}, "want a number from 0 to 20"},
		"no element":                      {overrides.Line{Do: overrides.Points, Student: id, Element: "style", Points: new(1.0), Why: "x"}, `no element "style"; want one of work, why`},
		"no reason":                       {overrides.Line{Do: overrides.Points, Student: id, Points: new(1.0)}, "no reason is given"},
		"credit":                          {overrides.Line{Do: overrides.Credit, Student: id, Thing: &total, Credit: new(2.0), Why: "x"}, "credit is 2; want a share from 0 to 1"},
		"a credit for what was not asked": {overrides.Line{Do: overrides.Credit, Student: id, Thing: &score.Thing{Kind: "variable", Name: "z"}, Credit: new(1.0), Why: "x"}, "was not asked for variable z"},
		"no such comment":                 {overrides.Line{Do: overrides.Comment, Student: id, Comment: "improvements.9", Text: "x"}, `has no comment "improvements.9"`},
		"no points yet":                   {overrides.Line{Do: overrides.Final, Student: broken}, "has no certain points yet"},
		"element of none":                 {overrides.Line{Do: overrides.Points, Student: broken, Element: "why", Points: new(1.0), Why: "x"}, "could not be graded"},
		"nothing like that":               {overrides.Line{Do: overrides.Class, Thing: &score.Thing{Kind: "variable", Name: "z"}, Verdict: report.Count, Why: "x"}, `the rubric asks for no variable "z"`},
		"no such line":                    {overrides.Line{Do: overrides.Undo, Of: 1}, "there is no line 1 to take back"},
	} {
		if _, err := r.Decide(tt.line); jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: %v; want an error of code invalid that says %q", name, err, tt.want)
		}
	}
	if lines, _ := r.History(""); len(lines) > 0 {
		t.Errorf("%d lines were written", len(lines))
	}
	if _, err := OpenReview(b.out, "another"); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("a second reviewer: %v; want a refusal", err)
	}
}

// A process that dies after a decision was written, or while it is, loses none that was: the next one has the pages follow it.
func TestDecisionsSurviveAKill(t *testing.T) {
	b := newBench(t, 2)
	b.grade()
	id := b.id(1)
	before := map[string][]byte{}
	for _, name := range []string{"summary.json", "grades.csv", "index.html", "reports/" + id + ".json", "reports/" + id + ".html"} {
		data, err := os.ReadFile(filepath.Join(b.out, name))
		if err != nil {
			t.Fatal(err)
		}
		before[name] = data
	}
	b.decide(overrides.Line{Do: overrides.Points, Student: id, Points: new(12.0), Why: "first"}, overrides.Line{Do: overrides.Points, Student: id, Points: new(13.0), Why: "second"})
	file := filepath.Join(b.out, overrides.File)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.IndexByte(whole, '\n') + 1
	for cut := first; cut <= len(whole); cut++ {
		if err := os.WriteFile(file, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		for name, data := range before { // the pages were not written yet
			if err := os.WriteFile(filepath.Join(b.out, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := b.review()
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		want := 12.0
		if cut == len(whole) {
			want = 13
		}
		if got := b.record(id).Score.Points; got != want {
			t.Fatalf("cut at byte %d of %d: %v points, want %v", cut, len(whole), got, want)
		}
	}
	damaged := bytes.Replace(whole, []byte(`"points":12`), []byte(`"points":99`), 1)
	if err := os.WriteFile(file, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReview(b.out, "instructor"); jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(fmt.Sprint(err), "line 2 is damaged: it does not follow the line before") {
		t.Errorf("a line that was changed by hand: %v; want a refusal that names the line after it", err)
	}
}

// What hardly anybody has counts for nobody until the instructor says so.
func TestFairToTheClass(t *testing.T) {
	b := newBench(t, 12)
	for i := range 12 {
		if i > 0 {
			b.student(i+1, solved()[0], solved()[1], cell{source: fmt.Sprintf("sum_of_all = sum(prices)  # %d\nsum_of_all", i), shown: "7", count: 2})
		}
	}
	c := b.grade()
	if len(c.Rare) != 2 || c.Rare[0].Thing != total || c.Rare[0].Have != 1 || c.Rare[0].Of != 12 || !slices.Equal(c.Rare[0].Instead, []string{"sum_of_all (11)"}) {
		t.Fatalf("rare are %+v; want the variable total, which one of 12 has, and its output", c.Rare)
	}
	if got := b.record(b.id(2)).Score; got.Points != 100 {
		t.Errorf("a submission without what hardly anybody has: %v points, want 100:\n%s", got.Points, strings.Join(got.Elements[0].Reasons, "\n"))
	}
	b.decide(
		overrides.Line{Do: overrides.Class, Thing: &c.Rare[0].Thing, Verdict: report.Count, Why: "it was in the assignment"},
		overrides.Line{Do: overrides.Class, Thing: &c.Rare[1].Thing, Verdict: report.Count, Why: "likewise"},
	)
	if got := b.record(b.id(2)).Score.Points; got != 50 {
		t.Errorf("once it counts: %v points, want 50", got)
	}
	if c := b.summary(); c.Rare[0].Verdict != report.Count {
		t.Errorf("the verdict is %q, want that it counts", c.Rare[0].Verdict)
	}
	if c := b.grade(func(o *Options) { o.Resume = true }); c.Rare[0].Verdict != report.Count || b.record(b.id(2)).Score.Points != 50 {
		t.Error("a later run forgets the verdict")
	}
}

func TestRelease(t *testing.T) {
	b := newBench(t, 3)
	b.student(1, append(solved()[:2], cell{source: "total = 7\ntotal", shown: "7", count: 2})...)
	b.write(studentFile(3), []byte("<html>"))
	b.grade()
	b.id(3) // while nobody holds the folder
	r := b.review()
	got, err := r.Release(false)
	if err != nil {
		t.Fatal(err)
	}
	if want := []HeldBack{{b.id(3), "could not be graded"}}; got.Released != 2 || !slices.Equal(got.Held, want) {
		t.Errorf("released %d, held back %v; want 2 and %v", got.Released, got.Held, want)
	}
	page := func() string {
		data, err := os.ReadFile(filepath.Join(b.out, "students", b.id(1)+".html"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, want := range []string{"total = 7", "cell 3, In [2]", "REGRADE REQUEST", `<code>7</code>`} {
		if !strings.Contains(page(), want) {
			t.Errorf("the student's page lacks %q", want)
		}
	}
	if strings.Contains(page(), "expected") {
		t.Error("the student's page has a value of the solution")
	}
	if _, err := r.Release(true); err != nil || !strings.Contains(page(), "expected") {
		t.Errorf("with the solution's values: %v", err)
	}
	if _, err := r.Decide(overrides.Line{Do: overrides.Points, Student: b.id(3), Points: new(40.0), Why: "by hand"}); err != nil {
		t.Fatal(err)
	}
	if got, err = r.Release(false); err != nil || got.Released != 3 {
		t.Errorf("once it has points by hand: released %d, %v", got.Released, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	b.student(3, solved()...)
	b.grade(func(o *Options) { o.Resume = true })
	if got, err = b.review().Release(false); err != nil || !slices.Equal(got.Withdrawn, []string{b.id(3)}) {
		t.Errorf("after another notebook was handed in: withdrawn %v, %v; want its page taken back", got.Withdrawn, err)
	}
}

func TestRequests(t *testing.T) {
	b := newBench(t, 1)
	b.grade()
	id := b.id(1)
	if err := os.MkdirAll(filepath.Join(b.out, regradesDir), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a.txt": "REGRADE REQUEST\nsubmission: " + id + "\nassignment: sums\npart: work\nbecause: the total is\n  there, in cell 3\n",
		"b.txt": "please look again",
		"c.txt": strings.Repeat("x", maxRequest+1),
	} {
		if err := os.WriteFile(filepath.Join(b.out, regradesDir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.review().Requests()
	if want := []Request{{"a.txt", id, "work", "the total is there, in cell 3"}, {File: "b.txt"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("requests are %v, %v; want %v", got, err, want)
	}
}

func TestCalibrate(t *testing.T) {
	b := newBench(t, 8)
	for i := range 8 { // the models say met of each
		b.student(i+1, append(solved()[:2+i%2], cell{markdown: true, source: fmt.Sprintf("I am number %d.", i+1)})...)
	}
	b.grade()
	r := b.review()
	c, err := r.Calibrate(b.out)
	if err != nil {
		t.Fatal(err)
	}
	sample := c.Sample(4)
	if len(sample) != 4 {
		t.Fatalf("the sample is %v, want 4 submissions", sample)
	}
	for i, id := range sample {
		page, err := c.Page(id)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(b.out, page))
		if err != nil || bytes.Contains(data, []byte("found")) || !bytes.Contains(data, []byte("The names are clear.")) {
			t.Errorf("the blind page, %v, must have the criteria, and nothing that was found", err)
		}
		for _, k := range c.Open(id) {
			verdict := score.Met
			if k.ID == "clear" && i > 0 {
				verdict = score.NotMet
			}
			if err := c.Judge(id, k.ID, verdict); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Judge(sample[0], "clear", "perhaps"); jobs.CodeOf(err) != jobs.CodeInvalid {
		t.Errorf("a verdict that there is not: %v", err)
	}
	got := c.Agreement()
	if got.Submissions != 4 || len(got.Criteria) != 3 || got.Together.Pairs != 12 || got.Together.Exact.Value != 0.75 {
		t.Fatalf("agreement of %d submissions, %d criteria, %d pairs: %+v", got.Submissions, len(got.Criteria), got.Together.Pairs, got.Together.Exact)
	}
	clear := got.Criteria[1]
	if clear.ID != "clear" || clear.Bias.Value != 1.5 || !clear.Doubtful(0.6) || got.Criteria[0].Doubtful(0.6) {
		t.Errorf("criterion %s has the bias %+v, doubtful: %t; want clear with 1.5, as the only doubtful one", clear.ID, clear.Bias, clear.Doubtful(0.6))
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err = r.Calibrate(b.out); err != nil || !slices.Equal(c.Sample(4), sample) || len(c.Open(sample[0])) > 0 {
		t.Errorf("a later call begins anew: %v", err)
	}
	id := sample[1]
	if _, err := r.Decide(overrides.Line{Do: overrides.Class, Thing: &score.Thing{Kind: score.CriterionKind, Name: "clear"}, Verdict: report.Ignore, Why: "disagrees"}); err != nil {
		t.Fatal(err)
	}
	for _, e := range b.record(id).Score.Elements {
		for _, k := range e.Criteria {
			if k.ID == "clear" && (k.Judge != "nobody" || k.Change != 0) {
				t.Errorf("the criterion is judged by %s and changes %v; want by nobody, and nothing", k.Judge, k.Change)
			}
		}
	}
	if !c.Agreement().Criteria[1].Ignored {
		t.Error("the agreement does not say that the criterion does not count")
	}
}
