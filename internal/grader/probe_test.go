package grader

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/internal/grader/score"
	"tandem/jobs"
)

// probe asks about a bench's first students once more.
func (b *bench) probe(students int, variants []Variant, answer func(*jobs.Job) score.Verdict) *Probed {
	b.t.Helper()
	a := b.load()
	r := b.review()
	c, err := r.Calibrate(b.out)
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	models := newFake()
	models.verdict = answer
	p, err := c.Probe(b.t.Context(), a, b.options(), c.Sample(students), variants, models, func(string, Event) {})
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func TestProbeRepeats(t *testing.T) {
	b := newBench(t, 4)
	b.grade()
	p := b.probe(4, Repeats(3), func(j *jobs.Job) score.Verdict {
		if *j.Options.Seed == 2 && j.Model == coder {
			return score.NotMet
		}
		return score.Met
	})
	if len(p.Criteria) != 3 || p.Submissions != 4 {
		t.Fatalf("%d criteria of %d submissions, want 3 of 4", len(p.Criteria), p.Submissions)
	}
	for _, k := range p.Criteria {
		changed, same := 4, 2.0/3
		if k.Judge == "feedback" {
			changed, same = 0, 1
		}
		if k.Asked != 12 || k.Changed != changed || k.Same.Value != same {
			t.Errorf("criterion %s: asked %d times, changed of %d, same %v; want 12, %d, %v", k.ID, k.Asked, k.Changed, k.Same.Value, changed, same)
		}
	}
}

func TestProbeStresses(t *testing.T) {
	b := newBench(t, 3)
	for i := range 3 {
		b.student(i+1, append(solved(), cell{source: "helper = prices[0]\nhelper", shown: "1", count: 3}, cell{markdown: true, source: fmt.Sprintf("I am number %d.", i+1)})...)
	}
	b.grade()
	p := b.probe(3, Stresses(), func(j *jobs.Job) score.Verdict {
		if strings.Contains(j.Prompt, "most brilliant") {
			return score.NotMet
		}
		return score.Met
	})
	for i, want := range []Moved{
		{Variant: "flattery", Submissions: 3, Mean: 10, Most: -10},
		{Variant: "longer", Submissions: 3},
		{Variant: "renamed", Submissions: 3},
		{Variant: "instructed", Submissions: 3, Flagged: 3},
	} {
		got := p.Variants[i]
		if got.MostOf = ""; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	for name, want := range map[string]string{"renamed": "the_helper = prices[0]", "longer": `number 1.\n\nI am number 1.\n\nI am number 1.`} {
		files, err := filepath.Glob(filepath.Join(b.out, "instructor", "probes", name, "submissions", "*.ipynb"))
		if err != nil || len(files) != 3 {
			t.Fatalf("%s: %v, %v", name, files, err)
		}
		var all strings.Builder
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(data)
		}
		if !strings.Contains(all.String(), want) {
			t.Errorf("no notebook that is %s has %q", name, want)
		}
	}
}
