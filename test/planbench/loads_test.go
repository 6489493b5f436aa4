package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJobsAreOfTheirLength looks at each load's prompts as an engine does: four bytes a token, and the answer's length at the end.
func TestJobsAreOfTheirLength(t *testing.T) {
	for _, l := range allLoads() {
		for _, n := range []int{16, 60} {
			kinds := l.kinds(n)
			if len(kinds) != n {
				t.Fatalf("%s has %d jobs, want %d", l.Name, len(kinds), n)
			}
			seen := map[string]bool{}
			for i, j := range makeJobs("m", "run", kinds) {
				k := kinds[i]
				if len(j.Prompt) != tokenBytes*k.prompt() || j.SharedPrefix != tokenBytes*k.Shared {
					t.Errorf("%s, job %d: %d bytes of prompt, %d of them shared; want %d and %d tokens", l.Name, i, len(j.Prompt), j.SharedPrefix, k.prompt(), k.Shared)
				}
				if first := j.Prompt[j.SharedPrefix:][:tokenBytes]; seen[first] {
					t.Errorf("%s, job %d: its own part begins like another's, with %q", l.Name, i, first)
				} else {
					seen[first] = true
				}
				if j.answer != k.Answer || j.Options["num_predict"] < k.Answer+k.Answer/2 {
					t.Errorf("%s, job %d: answer %d, bound %d; want %d, and half as much again", l.Name, i, j.answer, j.Options["num_predict"], k.Answer)
				}
			}
		}
	}
}

// TestRoundsHaveNothingInCommon: what one round left in a cache would be of use to another, else.
func TestRoundsHaveNothingInCommon(t *testing.T) {
	rounds := []string{"warm-disaggregated", "warm-local", "run-60", "run-16"}
	for _, k := range []kind{{100, 100, 40}, {0, 100, 40}} {
		first := map[string]bool{}
		for _, round := range rounds {
			for _, j := range makeJobs("m", round, same(k)(60)) {
				first[j.Prompt[:tokenBytes]] = true
			}
		}
		want := len(rounds) // with a shared part, one beginning for each
		if k.Shared == 0 {
			want *= 60
		}
		if len(first) != want {
			t.Errorf("%d shared tokens: the prompts of all rounds begin in %d ways, want %d", k.Shared, len(first), want)
		}
	}
}

// TestGiantAndSpread holds the two loads that have more than one kind to what their names say.
func TestGiantAndSpread(t *testing.T) {
	large := 0
	for _, k := range giant(16) {
		if k == (kind{0, 24_000, 1200}) {
			large++
		}
	}
	if large != 1 {
		t.Errorf("%d of 16 jobs are giants, want 1", large)
	}
	least, most, long := 10_000, 0, 0
	for _, k := range spread(60) {
		least, most = min(least, k.Answer), max(most, k.Answer)
		if k.Own == 10_800 {
			long++
		}
	}
	if least != 400 || most != 1200 || long != 30 {
		t.Errorf("answers of %d to %d tokens, %d jobs with long prompts; want 400 to 1,200, and half of them", least, most, long)
	}
}

func TestWriteJobs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := writeJobs(path, makeJobs("some:model", "run", []kind{{2, 4, 1200}})); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"custom_id":"run-000"`, `"model":"some:model"`, ` answer:1200"`, `"shared_prefix":8`, `"options":{"num_predict":1800}`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the file lacks %s:\n%s", want, got)
		}
	}
}
