package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSmallFleetByAllPolicies is the benchmark in small: every policy answers every job of two classes, and the report has all of it. How long it took is
// not looked at: in such short runs, engines that make up for being woken late can be faster than the bound.
func TestSmallFleetByAllPolicies(t *testing.T) {
	dir := t.TempDir()
	var printed bytes.Buffer
	_, err := Run(t.Context(), &printed, options{
		fleetDir: "../fleets", fleets: "spark-mac-qwen", loads: "class-2500,alone-1000", jobs: "5,4", policies: strings.Join(allPolicies(), ","),
		timeScale: 0.004, atOnce: 2, sizeScale: 0.001, text: true, out: dir, timeline: dir, trace: dir, work: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "plans.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []figures
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 4 || rows[1].Load != "class-2500" || rows[1].Jobs != 4 || rows[2].Load != "alone-1000" || rows[2].Jobs != 5 {
		t.Fatalf("the figures are of %d rows, want two for each of two loads:\n%s", len(rows), data)
	}
	works := map[string]string{wholeMachines: "spark mac", allLocal: "mac", disaggregated: "spark mac"} // auto may do as it likes
	for _, r := range rows {
		if len(r.Policies) != len(allPolicies()) || r.Bound <= 0 || len(r.Goals) == 0 {
			t.Errorf("%s: %d policies, bound %v, %d goals; want all of them", r.Load, len(r.Policies), r.Bound, len(r.Goals))
		}
		for _, p := range r.Policies {
			answered := 0
			for _, n := range p.Ways {
				answered += n
			}
			if len(p.Wrong) > 0 || answered != r.Jobs || p.Seconds <= 0 || len(p.Slots) != 2 {
				t.Errorf("%s, %s: %d of %d jobs, wrong %q, %.1f s, %d slots; want all right, some time, and two slots",
					r.Load, p.Policy, answered, r.Jobs, p.Wrong, p.Seconds, len(p.Slots))
			}
			if told := p.Foretold > 0; told == (p.Policy == wholeMachines) {
				t.Errorf("%s, %s: foretold %.1f s", r.Load, p.Policy, p.Foretold)
			}
			for _, s := range p.Slots {
				idle := s.Start >= p.Seconds
				if must, known := works[p.Policy]; known && idle == strings.Contains(must, s.Machine) {
					t.Errorf("%s, %s: %s did nothing: %t", r.Load, p.Policy, s.Machine, idle)
				}
			}
			picture := filepath.Join(dir, fmt.Sprintf("spark-mac-qwen-%s-%d-%s.svg", r.Load, r.Jobs, strings.ReplaceAll(p.Policy, " ", "-")))
			if _, err := os.Stat(picture); err != nil {
				t.Error(err)
			}
			if p.Policy == disaggregated && p.Bytes < float64(r.Jobs*1000*98_320) {
				t.Errorf("%s: %.0f bytes moved, which are too few for %d states", r.Load, p.Bytes, r.Jobs)
			}
		}
	}
	trace, err := os.ReadFile(filepath.Join(dir, "spark-mac-qwen-class-2500-5", "disaggregated-mac.log"))
	if err != nil || !bytes.Contains(trace, []byte("POST /slots/0?action=restore")) || !bytes.Contains(trace, []byte("$JS.ACK.RELAY")) {
		t.Errorf("the trace of a decode worker, %d bytes, shows no state that is read, or no acknowledgement: %v", len(trace), err)
	}
	table, err := os.ReadFile(filepath.Join(dir, "plans.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"### spark-mac-qwen", "| class-2500 | 5 |", "| alone-1000 | 5 |", "4 classes measured"} {
		if !strings.Contains(string(table), want) || !strings.Contains(printed.String(), want) {
			t.Errorf("the report, or what was printed of it, lacks %q:\n%s", want, table)
		}
	}
	if want := "spark-mac-qwen, alone-1000, 5 jobs, auto"; !strings.Contains(printed.String(), want) {
		t.Errorf("no timeline of %q was printed", want)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := options{fleetDir: "../fleets", jobs: "60,16", policies: "auto", seconds: 1, sizeScale: 1, atOnce: 1}
	if c, err := good.choose(); err != nil || len(c.fleets) == 0 || len(c.loads) != len(allLoads()) || len(c.jobs) != 2 || len(c.policies) != 1 {
		t.Errorf("choose = %+v, %v; want every fleet and load", c, err)
	}
	for want, change := range map[string]func(*options){
		"fleets: \"none\"":   func(o *options) { o.fleets = "none" },
		"loads: \"none\"":    func(o *options) { o.loads = "giant,none" },
		"policies: \"none\"": func(o *options) { o.policies = "none" },
		"jobs: \"0\"":        func(o *options) { o.jobs = "0" },
		"size-scale 0":       func(o *options) { o.sizeScale = 0 },
		"at-once 0":          func(o *options) { o.atOnce = 0 },
	} {
		o := good
		change(&o)
		if _, err := o.choose(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("choose = %v, want an error with %q", err, want)
		}
	}
}
