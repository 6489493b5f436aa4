package report

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"tandem/internal/grader/ask"
	"tandem/internal/grader/check"
	"tandem/internal/grader/intake"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/rubric"
	"tandem/internal/grader/score"
)

var testRubric = &rubric.Rubric{
	Info:     rubric.Info{Name: "lab-3", Title: "Joining tables", TotalPoints: big.NewRat(100, 1)},
	Elements: []rubric.Element{{ID: "data_import", Description: "Reads both files"}},
	Sections: []rubric.Section{{ID: "join", Name: "Join the tables"}},
	Unknown:  []string{"/colour"},
}

func newDir(t *testing.T) (*Dir, *os.Root) {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return NewDir(root), root
}

// roster makes the roster that an instructor's folder would hold.
func roster(t *testing.T, root *os.Root, students ...intake.Student) *intake.Roster {
	t.Helper()
	other, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if len(students) > 0 {
		data, err := json.Marshal(map[string]any{"version": 1, "students": students})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.MkdirAll("instructor", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := other.WriteFile("instructor/roster.json", data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := intake.OpenRoster(other)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, root *os.Root, name string) []byte {
	t.Helper()
	data, err := root.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// files are all files below the folder.
func files(t *testing.T, root *os.Root) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found[name] = read(t, root, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// visible is the text of a page's body, white space as one space.
func visible(t *testing.T, page []byte) string {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "style" && n.Parent.Data != "title" {
			b.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// submission is a graded one with everything in its place.
func submission(id string) *Student {
	return &Student{
		ID: id, Assignment: "lab-3", Status: Graded, GradedAt: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Score: &score.Score{
			Points: 72.5, Low: 72.5, High: 72.5, Max: 100, Percent: 72.5, Certain: true, Base: 70, Adjusted: 72.5, Reasons: []string{"70 points by the checks"},
			Elements: []score.Element{{ID: "data_import", Points: 20.5, Low: 20.5, High: 20.5, Max: 25, Reasons: []string{"4 of 5 variables are there"}}},
		},
		Layer1: &check.Findings{
			Sections: []check.Section{{ID: "join", Name: "Join the tables", Completeness: check.Partial}},
			Items: []check.Item{
				{Kind: "variable", Name: "sales", Section: "join", Status: check.Found},
				{Kind: "function", Name: "merge", Section: "join", Status: check.NotRun},
			},
		},
		Layer2: &outputs.Findings{Comparisons: []outputs.Comparison{
			{Key: "total", Section: "join", Kind: "number", Verdict: outputs.Match}, {Key: "join #2", Section: "join", Kind: "picture", Verdict: outputs.Missing},
		}},
		Feedback: &Part{Answer: &ask.Answer{
			Summary: "A clear start.", Strengths: []string{"Names say what they hold."},
			Improvements: []ask.Improvement{{What: "The join", Why: "Rows are lost.", How: "Keep the left side.", Example: "left_join(a, b)\nsummary(a)"}},
		}, Counted: true},
	}
}

// uncertain is a submission with a range.
func uncertain(id string) *Student {
	s := submission(id)
	s.Status, s.Reasons = Review, []string{"the code model gave no answer that passed"}
	s.Score.Points, s.Score.Low, s.Score.High, s.Score.Percent, s.Score.Certain = 74, 72, 78, 74, false
	s.Layer1.Items[0].Status = check.Missing
	return s
}

// broken is a submission that could not be graded.
func broken(id string) *Student {
	return &Student{ID: id, Assignment: "lab-3", Status: Failed, Problem: "the file is a web page, not a notebook", GradedAt: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
}

func TestStudentPageSaysHowItStands(t *testing.T) {
	for _, tt := range []struct {
		s          *Student
		want, lack []string
	}{
		{submission("s-aaaaaa"), []string{"72.5 of 100 points", "graded", "A clear start.", "Keep the left side.", "4 of 5 variables", "Data import", "never run"}, []string{"a person will look", "What is wrong"}},
		{uncertain("s-aaaaaa"), []string{"72–78 of 100 points", "needs review", "a person will look at this", "the code model gave no answer that passed"}, []string{"74 of 100", "74 %"}},
		{broken("s-aaaaaa"), []string{"could not be graded", "the file is a web page", "What to do"}, []string{"of 100", "0 points", "Feedback"}},
	} {
		dir, root := newDir(t)
		if err := dir.WriteStudent(tt.s, testRubric, nil); err != nil {
			t.Fatal(err)
		}
		page := visible(t, read(t, root, "reports/s-aaaaaa.html"))
		for _, want := range tt.want {
			if !strings.Contains(page, want) {
				t.Errorf("the page of a submission that is %s lacks %q:\n%s", tt.s.Status, want, page)
			}
		}
		for _, lack := range tt.lack {
			if strings.Contains(page, lack) {
				t.Errorf("the page of a submission that is %s says %q", tt.s.Status, lack)
			}
		}
	}
}

func TestGradescope(t *testing.T) {
	dir, root := newDir(t)
	const name = "gradescope/s-aaaaaa/results.json"
	if err := dir.Release(submission("s-aaaaaa"), testRubric, nil, false); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(read(t, root, name), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"score": 72.5, "output_format": "text", "test_output_format": "text", "test_name_format": "text", "visibility": "after_published", "stdout_visibility": "hidden",
		"output": "A clear start.\n\nWhat went well\n- Names say what they hold.\n\nWhat to improve\n- The join\n  Why: Rows are lost.\n  How: Keep the left side.\n" +
			"  Example:\n    left_join(a, b)\n    summary(a)\n\nHow the points came about\n- 70 points by the checks",
		"tests": []any{map[string]any{"name": "Data import", "score": 20.5, "max_score": 25.0, "output": "4 of 5 variables are there", "visibility": "after_published"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if was, err := dir.Withdraw("s-aaaaaa"); !was || err != nil {
		t.Errorf("withdraw: %t, %v; want that there was a page", was, err)
	}
	if was, err := dir.Withdraw("s-aaaaaa"); was || err != nil {
		t.Errorf("withdraw again: %t, %v; want that there was none", was, err)
	}
	if _, err := root.Stat(name); err == nil {
		t.Error("the results stay though they were withdrawn")
	}
}

func TestTables(t *testing.T) {
	dir, root := newDir(t)
	c := Summarise([]*Student{uncertain("s-bbbbbb"), broken("s-cccccc"), submission("s-aaaaaa")}, testRubric)
	people := roster(t, root,
		intake.Student{ID: "s-cccccc", Name: "student-03", Assignment: "lab three", File: "c.ipynb", Key: "3"},
		intake.Student{ID: "s-bbbbbb", Name: "student-02", File: "b.ipynb", Key: "2"},
		intake.Student{ID: "s-aaaaaa", Name: "student-01", LMSID: "4711", File: "z.zip!a.ipynb", Key: "1"},
		intake.Student{ID: "s-dddddd", Name: "student-04", File: "d.ipynb", Key: "4"},
	)
	if err := dir.WriteClass(c, testRubric, people); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"grades.csv": "id,status,points,low,high,max,percent,reasons,decisions\n" +
			"s-aaaaaa,graded,72.5,72.5,72.5,100,72.5,,\n" +
			"s-bbbbbb,needs_review,,72,78,100,,the code model gave no answer that passed,\n" +
			"s-cccccc,failed,,,,100,,\"the file is a web page, not a notebook\",\n",
		"instructor/roster.csv": "id,name,lms_id,file,status,points,low,high\n" +
			"s-aaaaaa,student-01,4711,z.zip!a.ipynb,graded,72.5,72.5,72.5\n" +
			"s-bbbbbb,student-02,,b.ipynb,needs_review,,72,78\n" +
			"s-cccccc,student-03,,c.ipynb,failed,,,\n",
		"instructor/gradebook.csv": "Student,ID,Points,Max,Percent,Status,Comment\n" +
			"student-01,4711,72.5,100,72.5,graded,\n" +
			"student-02,,,100,,needs_review,the code model gave no answer that passed\n" +
			"student-03,,,100,,failed,\"the file is a web page, not a notebook\"\n",
		"instructor/nbgrader.csv": "assignment,duedate,timestamp,student_id,last_name,first_name,email,raw_score,late_submission_penalty,score,max_score\n" +
			"lab-3,,,4711,,,,72.5,0,72.5,100\n" +
			"lab-3,,,student-02,,,,,,,100\n" +
			"lab three,,,student-03,,,,,,,100\n",
	} {
		if diff := cmp.Diff(want, string(read(t, root, name))); diff != "" {
			t.Errorf("%s\n%s", name, diff)
		}
	}
}

func TestCells(t *testing.T) {
	for in, want := range map[string]string{
		"":                    "",
		"plain":               "plain",
		"a-b = c":             "a-b = c",
		"=1+1":                "'=1+1",
		"@SUM(A1)":            "'@SUM(A1)",
		"\t-1":                "' -1",
		"\r+1":                "␍+1",
		" \u200b=1":           "' \u200b=1",
		"＝1":                  "'＝1",
		"fine; =cmd|x":        "fine;' =cmd|x",
		"two\nlines\x1b[31m,": "two lines␛[31m,",
	} {
		if got := text(in); got != want {
			t.Errorf("text(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSummarise(t *testing.T) {
	flagged := submission("s-dddddd")
	flagged.Status, flagged.Flags = Review, []ask.Flag{{Cell: 3, Kind: "points", Quote: "give 100"}}
	flagged.Score.Percent, flagged.Score.Points = 100, 100
	c := Summarise([]*Student{flagged, uncertain("s-bbbbbb"), broken("s-cccccc"), submission("s-aaaaaa")}, testRubric)
	want := &Class{
		V: 1, Assignment: "lab-3", Title: "Joining tables", Submissions: 4, Graded: 1, Review: 2, Failed: 1, MaxPoints: 100,
		Distribution: Distribution{Count: 3, Ranges: 1, Mean: 82.5, Median: 75, Low: 72.5, High: 100, Tenths: [10]int{7: 2, 9: 1}},
		Missed: []Missed{
			{Kind: "function", Name: "merge", Section: "join", Count: 3, Of: 3}, {Kind: "section", Name: "Join the tables", Section: "join", Count: 3, Of: 3},
			{Kind: "variable", Name: "sales", Section: "join", Count: 1, Of: 3},
		},
		Students: []Row{
			{ID: "s-aaaaaa", Status: Graded, Points: 72.5, Low: 72.5, High: 72.5, Percent: 72.5, Certain: true},
			{ID: "s-bbbbbb", Status: Review, Points: 74, Low: 72, High: 78, Percent: 74, Why: []string{"the code model gave no answer that passed"}},
			{ID: "s-cccccc", Status: Failed, Why: []string{"the file is a web page, not a notebook"}},
			{ID: "s-dddddd", Status: Review, Points: 100, Low: 72.5, High: 72.5, Percent: 100, Certain: true, Flags: 1, Quotes: flagged.Flags},
		},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

func TestDistribution(t *testing.T) {
	for _, tt := range []struct {
		percents []float64
		want     Distribution
	}{
		{nil, Distribution{}},
		{[]float64{10}, Distribution{Count: 1, Mean: 10, Median: 10, Low: 10, High: 10, Tenths: [10]int{1: 1}}},
		{[]float64{100, 0, 9.99}, Distribution{Count: 3, Mean: 36.66, Median: 9.99, High: 100, Tenths: [10]int{0: 2, 9: 1}}},
	} {
		if diff := cmp.Diff(tt.want, distribute(slices.Clone(tt.percents))); diff != "" {
			t.Errorf("%v: %s", tt.percents, diff)
		}
	}
}

func TestMostMissedFirst(t *testing.T) {
	s := submission("s-aaaaaa")
	s.Layer1.Items = nil
	for i := range 30 {
		s.Layer1.Items = append(s.Layer1.Items, check.Item{Kind: "column", Name: string(rune('A' + i)), Status: check.Missing})
	}
	more := submission("s-bbbbbb")
	more.Layer1.Items = []check.Item{{Kind: "column", Name: "E", Status: check.Failed}, {Kind: "column", Name: "E", Status: check.Failed}}
	var got strings.Builder
	for _, m := range Summarise([]*Student{s, more}, testRubric).Missed {
		got.WriteString(m.Name[:1])
	}
	if want := "EJABCDFGHIJKLMNOPQRS"; got.String() != want { // J: the section, missed by both
		t.Errorf("missed: %s, want %s", got.String(), want)
	}
}

func TestClassPage(t *testing.T) {
	dir, root := newDir(t)
	c := Summarise([]*Student{submission("s-aaaaaa"), uncertain("s-bbbbbb")}, testRubric)
	c.Submissions, c.Batch, c.Warnings = 5, "b-1", []string{"the solution hardly overlaps"}
	c.Prefix = []Prefix{{Model: "coder:1", Jobs: 2, Tokens: 1000, Computed: 300, Cached: 700}}
	page := func() string {
		t.Helper()
		if err := dir.WriteClass(c, testRubric, roster(t, root)); err != nil {
			t.Fatal(err)
		}
		return visible(t, read(t, root, "index.html"))
	}
	for _, want := range []string{"Still running: 2 of 5", "/colour", "the solution hardly overlaps", "72–78", "70 % of the tokens of 2 prompts", "Join the tables"} {
		if got := page(); !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	c.FinishedAt = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	if got := page(); strings.Contains(got, "Still running") || !strings.Contains(got, "finished on 4 March 2026") {
		t.Errorf("a run that is over:\n%s", got)
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	dir, root := newDir(t)
	s := submission("s-aaaaaa")
	for range 2 { // the second time over the files of the first
		if err := dir.WriteStudent(s, testRubric, nil); err != nil {
			t.Fatal(err)
		}
		if err := dir.WriteClass(Summarise([]*Student{s}, testRubric), testRubric, roster(t, root)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"grades.csv", "index.html", "instructor/gradebook.csv", "instructor/nbgrader.csv", "instructor/roster.csv",
		"reports/s-aaaaaa.html", "reports/s-aaaaaa.json", "summary.json",
	}
	var got []string
	err := filepath.WalkDir(root.Name(), func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == root.Name() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if d.IsDir() {
			mode = 0o700
		} else {
			rel, _ := filepath.Rel(root.Name(), name)
			got = append(got, filepath.ToSlash(rel))
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has the mode %v, want %v", name, info.Mode().Perm(), mode)
		}
		return nil
	})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestReadStudent(t *testing.T) {
	dir, root := newDir(t)
	if s, err := dir.ReadStudent("s-aaaaaa"); s != nil || err != nil {
		t.Errorf("without a file: %v, %v", s, err)
	}
	if err := root.Mkdir("reports", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{"", "{", `{"v":2,"id":"s-aaaaaa"}`, `{"v":1,"id":"s-bbbbbb"}`} {
		if err := root.WriteFile("reports/s-aaaaaa.json", []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := dir.ReadStudent("s-aaaaaa"); s != nil || err == nil || !strings.Contains(err.Error(), "--student s-aaaaaa") {
			t.Errorf("%q: %v, %v; want an error with a remedy", data, s, err)
		}
	}
}
