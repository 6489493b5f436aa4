package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/internal/tinymodel"
)

// TestRealEnginesBySmallModels is the benchmark of real engines in small: Tandem's texts are those that the engines give by themselves.
func TestRealEnginesBySmallModels(t *testing.T) {
	var printed bytes.Buffer
	out := filepath.Join(t.TempDir(), "real.json")
	met, err := runReal(t.Context(), &printed, realOptions{
		loads: exactLoad, policies: realWhole + "," + disaggregated, rounds: 1, jobs: 3, out: out, spec: tinymodel.Tiny(tinymodel.BPE), work: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !met || strings.Count(printed.String(), "3 of 3 texts equal") != 2 || strings.Count(printed.String(), "| met") != 2 {
		t.Errorf("met is %t; want all texts equal on each of two engines:\n%s", met, printed.String())
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var rows []realRow
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 {
		t.Fatalf("the figures are of %d rows; want 2:\n%s", len(rows), data)
	}
	for _, r := range rows {
		for _, o := range r.Outcomes {
			answered := 0
			for _, n := range o.Ways {
				answered += n
			}
			if answered != 3 || o.Seconds <= 0 {
				t.Errorf("%s, %s: %d of 3 jobs in %v s", r.Engine, o.Policy, answered, o.Seconds)
			}
		}
		if o := r.of(disaggregated); o.Ways["prefill → decode"] != 3 {
			t.Errorf("%s: the ways of disaggregated are %v; want all handed over", r.Engine, o.Ways)
		}
	}
}

func TestRealJobsShareABeginningOnly(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range realLoads() {
		list := makeRealJobs(l)
		for _, j := range list {
			shared, own := j.Prompt[:j.SharedPrefix], j.Prompt[j.SharedPrefix:]
			if shared != list[0].Prompt[:list[0].SharedPrefix] || seen[own] || j.Options["num_predict"] != l.Answer {
				t.Errorf("%s, job %s: %d bytes shared, own part seen before: %t, options %v", l.Name, j.CustomID, len(shared), seen[own], j.Options)
			}
			seen[own] = true
		}
		if len(list) != l.Jobs {
			t.Errorf("%s: %d jobs; want %d", l.Name, len(list), l.Jobs)
		}
	}
}

func TestRealGoals(t *testing.T) {
	row := func(load string, seconds float64, equal bool, wrong ...string) *realRow {
		r := &realRow{Load: load, Jobs: 1}
		text := "right"
		if !equal {
			text = "other"
		}
		r.add(&realOutcome{Policy: realWhole, Seconds: 10, texts: map[string]string{"000": "right"}})
		r.add(&realOutcome{Policy: auto, Seconds: seconds, texts: map[string]string{"000": text}, Wrong: wrong})
		return r
	}
	for name, tt := range map[string]struct {
		row  *realRow
		want string
	}{
		"as fast":                     {row("even", 10.2, true), "met"},
		"rounded otherwise":           {row("even", 10.2, false), "met"},
		"slower":                      {row("even", 10.4, true), "NOT MET: ÷ two whole engines 1.040, at most 1.03"},
		"slower, where texts count":   {row(exactLoad, 30, true), "met"},
		"another text where one is":   {row(exactLoad, 10, false), "NOT MET: other texts of auto 1.000, at most 0.00"},
		"a hand-over that has failed": {row("even", 10, true, "000: hand-over failed"), "NOT MET: wrong results of auto 1.000, at most 0.00"},
	} {
		if got := verdict(tt.row.goals()); got != tt.want {
			t.Errorf("%s: %s; want %s", name, got, tt.want)
		}
	}
}
