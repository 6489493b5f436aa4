package grader

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem/internal/grader/report"
	"tandem/internal/grader/rubric"
	"tandem/internal/grader/score"
	"tandem/jobs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rubricFile asks for two variables, has two criteria for the code model and one for the feedback model.
const rubricFile = `{
  "assignment_info": {"name": "sums", "title": "Sums", "total_points": 100},
  "rubric_elements": {
    "work": {"weight": 0.8, "criteria": [
      {"id": "right", "text": "The total is right.", "judge": "code"},
      {"id": "clear", "text": "The names are clear.", "judge": "code"}]},
    "why": {"weight": 0.2, "criteria": [{"id": "said", "text": "Says why.", "judge": "feedback"}]}
  },
  "autograder_checks": {
    "required_variables": ["prices", "total"],
    "sections": {"sum": {"name": "Sum", "points": 10, "variables": ["prices", "total"]}}
  },
  "tandem": {"models": {"code": "coder:1b", "feedback": "talker:1b"}}
}`

const (
	coder  = "coder:1b"
	talker = "talker:1b"
)

// cell is a code cell with what it showed; it was not run if count is 0.
type cell struct {
	markdown bool
	source   string
	shown    string
	failed   string // the message of an error that it ended in
	count    int
}

// solved are the cells of a good notebook.
func solved() []cell {
	return []cell{
		{markdown: true, source: "# Sum"},
		{source: "prices = [1, 2, 3]\nprices", shown: "[1, 2, 3]", count: 1},
		{source: "total = sum(prices)\ntotal", shown: "6", count: 2},
	}
}

// notebookFile is a notebook in Python.
func notebookFile(t testing.TB, language string, cells ...cell) []byte {
	t.Helper()
	type m = map[string]any
	list := []m{}
	for i, c := range cells {
		if c.markdown {
			list = append(list, m{"cell_type": "markdown", "id": fmt.Sprint("c", i), "metadata": m{}, "source": c.source})
			continue
		}
		var count any
		shown := []m{}
		if c.count > 0 {
			count = c.count
			if c.shown != "" {
				shown = append(shown, m{"output_type": "execute_result", "execution_count": c.count, "metadata": m{}, "data": m{"text/plain": c.shown}})
			}
			if c.failed != "" {
				shown = append(shown, m{"output_type": "error", "ename": "ValueError", "evalue": c.failed, "traceback": []string{c.failed}})
			}
		}
		list = append(list, m{"cell_type": "code", "id": fmt.Sprint("c", i), "metadata": m{}, "source": c.source, "execution_count": count, "outputs": shown})
	}
	data, err := json.Marshal(m{
		"nbformat": 4, "nbformat_minor": 5, "cells": list,
		"metadata": m{"kernelspec": m{"name": language, "language": language, "display_name": language}, "language_info": m{"name": language}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// bench is a folder with a class to grade, and the models that grade it.
type bench struct {
	t      testing.TB
	dir    string // with rubric.json, solution.ipynb and class/
	out    string
	models *fake
	clock  atomic.Int64 // seconds; each look at it takes one
	events []Event
	ids    []string
}

// newBench makes a class of good notebooks, student-01 and so on.
func newBench(t testing.TB, students int) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, dir: dir, out: filepath.Join(dir, "out"), models: newFake()}
	if err := os.Mkdir(filepath.Join(dir, "class"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.write("rubric.json", []byte(rubricFile))
	b.write("solution.ipynb", notebookFile(t, "python", solved()...))
	for i := range students {
		b.student(i+1, append(solved(), cell{markdown: true, source: fmt.Sprintf("I am number %d.", i+1)})...)
	}
	return b
}

func (b *bench) write(name string, data []byte) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), data, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// student writes a student's notebook.
func (b *bench) student(number int, cells ...cell) {
	b.t.Helper()
	b.write(studentFile(number), notebookFile(b.t, "python", cells...))
}

func studentFile(number int) string {
	return filepath.Join("class", fmt.Sprintf("student-%02d.ipynb", number))
}

// edit replaces text in a file of the bench.
func (b *bench) edit(name, before, after string) {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(before)) {
		b.t.Fatalf("%s does not hold %q", name, before)
	}
	b.write(name, bytes.ReplaceAll(data, []byte(before), []byte(after)))
}

func (b *bench) load() *Assignment {
	b.t.Helper()
	a, err := Load(Inputs{Rubric: filepath.Join(b.dir, "rubric.json"), Solution: filepath.Join(b.dir, "solution.ipynb")})
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// options are those of a first run, or as changed.
func (b *bench) options(change ...func(*Options)) Options {
	o := Options{
		Paths: []string{filepath.Join(b.dir, "class")}, Out: b.out, User: "teacher",
		Models: map[string]Model{coder: {ContextTokens: 8192, Digest: "sha256:c1"}, talker: {ContextTokens: 8192, Digest: "sha256:t1"}},
		Now:    func() time.Time { return time.Unix(b.clock.Add(1), 0) },
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func resume(o *Options) { o.Resume = true }

// open opens the grading until the test ends.
func (b *bench) open(change ...func(*Options)) *Grading {
	b.t.Helper()
	g, err := Open(b.t.Context(), b.load(), b.options(change...))
	if err != nil {
		b.t.Fatal(err)
	}
	return g
}

// grade makes one whole run.
func (b *bench) grade(change ...func(*Options)) *report.Class {
	b.t.Helper()
	g := b.open(change...)
	defer g.Close()
	b.events = nil
	c, err := g.Run(b.t.Context(), b.models, func(e Event) { b.events = append(b.events, e) })
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// record reads a student's report.
func (b *bench) record(id string) *report.Student {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.out, "reports", id+".json"))
	if err != nil {
		b.t.Fatal(err)
	}
	s := new(report.Student)
	if err := json.Unmarshal(data, s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// id is the pseudonym of a student, by number. It may not be called first while a grading is open.
func (b *bench) id(number int) string {
	b.t.Helper()
	if len(b.ids) < number {
		g := b.open(resume)
		defer g.Close()
		b.ids = nil
		for _, s := range g.submissions {
			b.ids = append(b.ids, s.file.ID)
		}
	}
	return b.ids[number-1]
}

// custom is the custom id of a student's job.
func (b *bench) custom(number int, rest string) string { return b.id(number) + "-" + rest }

// job is the job of a custom id.
func (b *bench) job(customID string) *jobs.Job {
	b.t.Helper()
	for _, j := range b.models.jobs {
		if j.CustomID == customID {
			return j
		}
	}
	b.t.Fatalf("no job is called %s", customID)
	return nil
}

// summary reads the class's record.
func (b *bench) summary() *report.Class {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.out, "summary.json"))
	if err != nil {
		b.t.Fatal(err)
	}
	c := new(report.Class)
	if err := json.Unmarshal(data, c); err != nil {
		b.t.Fatal(err)
	}
	return c
}

// ledger is the ledger's lines, each with its end.
func (b *bench) ledger() []string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.out, ledgerFile))
	if err != nil {
		b.t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(data)))
}

// wantStatuses compares how the submissions ended, in the order of the students.
func (b *bench) wantStatuses(c *report.Class, want ...report.Status) {
	b.t.Helper()
	byID := map[string]report.Status{}
	for _, row := range c.Students {
		byID[row.ID] = row.Status
	}
	for i, w := range want {
		if got := byID[b.id(i+1)]; got != w {
			b.t.Errorf("student %d is %q, want %q; why: %v", i+1, got, w, b.record(b.id(i+1)).Reasons)
		}
	}
}

// answer is one that passes: all criteria get one verdict.
func answer(judge rubric.Judge, v score.Verdict) string {
	type m = map[string]any
	said := m{"verdict": v, "evidence": "line 1"}
	a := m{"criteria": m{"right": said, "clear": said}, "issues": []m{}}
	if judge == rubric.JudgeFeedback {
		a = m{
			"criteria": m{"said": said}, "summary": "Good work.", "strengths": []string{"It is short."}, "question": "What if there are none?",
			"improvements": []m{{"what": "Say why.", "why": "It helps.", "how": "Write it down.", "example": "Since …"}},
		}
	}
	text, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return string(text)
}
