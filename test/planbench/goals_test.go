package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"tandem/jobs"
)

// measured is a row with a bound of 100 s in which the policies took so many seconds.
func measured(fleet, load string, n int, took map[string]float64) *row {
	r := &row{Fleet: fleet, Load: load, Jobs: n, TimeScale: 0.5, Bound: 100}
	for _, p := range allPolicies() {
		if s, ok := took[p]; ok {
			r.Outcomes = append(r.Outcomes, &outcome{Policy: p, Took: time.Duration(s * 0.5 * float64(time.Second))})
		}
	}
	return r
}

func TestGoals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		row    *row
		missed []string
	}{
		{"all well", measured("twins", "giant", 60, map[string]float64{wholeMachines: 102, allLocal: 200, disaggregated: 150, auto: 103}), nil},
		{"far from the bound", measured("twins", "giant", 60, map[string]float64{wholeMachines: 200, auto: 104}), []string{"÷ bound 1.040, at most 1.03"}},
		{"few jobs may take more", measured("twins", "giant", 16, map[string]float64{wholeMachines: 200, auto: 107}), nil},
		{"few jobs, far", measured("twins", "giant", 16, map[string]float64{wholeMachines: 200, auto: 109}), []string{"÷ bound 1.090, at most 1.08"}},
		{"another policy is better", measured("twins", "giant", 16, map[string]float64{wholeMachines: 110, disaggregated: 104, auto: 107}),
			[]string{"÷ best other 1.029, at most 1.02"}},
		{"no better than whole machines", measured("spark-mac-x", "class-2500", 60, map[string]float64{wholeMachines: 105, auto: 104}),
			[]string{"÷ bound 1.040, at most 1.03", "÷ whole machines 0.990, at most 0.97"}},
		{"the bound forbids more", measured("spark-mac-x", "class-2500", 60, map[string]float64{wholeMachines: 103, auto: 102}), nil},
		{"long prompts", measured("spark-mac-x", "class-10800", 60, map[string]float64{wholeMachines: 119, auto: 104}),
			[]string{"÷ bound 1.040, at most 1.03", "÷ whole machines 0.874, at most 0.86"}},
		{"other machines need not beat whole ones", measured("twins", "class-10800", 60, map[string]float64{wholeMachines: 103, auto: 103}), nil},
		{"faster than can be", measured("twins", "giant", 60, map[string]float64{wholeMachines: 98, auto: 99.9}), []string{"bound ÷ whole machines 1.020, at most 1.00"}},
		{"without auto there is nothing to miss", measured("twins", "giant", 60, map[string]float64{wholeMachines: 500}), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, want := verdict(tt.row.goals()), "met"
			if tt.missed != nil {
				want = "NOT MET: " + strings.Join(tt.missed, "; ")
			}
			if got != want {
				t.Errorf("verdict = %q, want %q", got, want)
			}
			if met := printSum(&bytes.Buffer{}, []*row{tt.row}); met != (tt.missed == nil) {
				t.Errorf("printSum says that all goals are met: %t", met)
			}
		})
	}
}

// TestForetold: what is foretold of each plan is held to what it took, but where a machine becomes slower than anybody can know.
func TestForetold(t *testing.T) {
	r := measured("twins", "giant", 60, map[string]float64{wholeMachines: 150, disaggregated: 200, auto: 102})
	r.Outcomes[1].Foretold, r.Outcomes[2].Foretold = 180.5, 113.2
	if got, want := verdict(r.goals()), "NOT MET: foretold ÷ auto 1.110, 0.90 to 1.10"; got != want {
		t.Errorf("verdict = %q, want %q", got, want)
	}
	var b bytes.Buffer
	if printRow(&b, r, []string{wholeMachines, disaggregated, auto}); !strings.Contains(b.String(), "| disaggregated 0.902, auto 113.2 s (1.110) |") {
		t.Errorf("the row does not say what was foretold: %s", b.String())
	}
	r.Outcomes[2].Foretold = 91
	if got, want := verdict(r.goals()), "NOT MET: foretold ÷ auto 0.892, 0.90 to 1.10"; got != want {
		t.Errorf("verdict = %q, want %q", got, want)
	}
	r.Slows = true
	if got := verdict(r.goals()); got != "met" {
		t.Errorf("verdict = %q where nobody can foretell it", got)
	}
}

// TestWrongResultsAreNoGoal: figures of a run that lost a job mean nothing.
func TestWrongResultsAreNoGoal(t *testing.T) {
	r := measured("twins", "giant", 60, map[string]float64{wholeMachines: 150, auto: 101})
	r.Outcomes[0].Wrong = []string{"run-003: no result"}
	if got := verdict(r.goals()); got != "NOT MET: wrong results of whole machines 1.000, at most 0.00" {
		t.Errorf("verdict = %q", got)
	}
}

func TestCheckOfResults(t *testing.T) {
	result := func(id string, status jobs.Status, tokens int) *jobs.Result {
		return &jobs.Result{CustomID: id, Status: status, Usage: jobs.Usage{GeneratedTokens: tokens}}
	}
	list := []job{{CustomID: "a", answer: 5}, {CustomID: "b", answer: 5}, {CustomID: "c", answer: 5}, {CustomID: "d", answer: 5}}
	lost := result("d", jobs.Succeeded, 5)
	lost.Handover = &jobs.HandoverReport{Failure: jobs.FailSave}
	b := &batch{results: []*jobs.Result{result("a", jobs.Succeeded, 5), result("a", jobs.Succeeded, 5), result("b", jobs.Succeeded, 4), result("e", jobs.Succeeded, 5), lost}}
	got := strings.Join(b.check(list), "\n")
	for _, want := range []string{"a: two results", "b: 4 tokens generated, want 5", "c: no result", "e: a result of no job", "d: hand-over failed"} {
		if !strings.Contains(got, want) {
			t.Errorf("check lacks %q:\n%s", want, got)
		}
	}
	good := &batch{results: []*jobs.Result{result("a", jobs.Succeeded, 5)}}
	if got := good.check(list[:1]); got != nil {
		t.Errorf("check of a good result = %q", got)
	}
}
