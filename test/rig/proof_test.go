package rig

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/test/rig/check"
)

// whole is the verdict on a run in which all of a plan happened.
func whole(p *Plan) check.Counts {
	c := check.Counts{Submitted: p.Jobs(), Compared: p.Jobs(), HandedOver: p.Jobs(), Cancelled: 1, Expired: p.Shape.Expiring, Faults: map[string]int{}, Ways: map[string]int{}}
	c.Succeeded = p.Jobs() - c.Cancelled - c.Expired
	for _, a := range p.Actions {
		c.Faults[a.What]++
		c.Ways[a.What+": "+string(a.Step)]++
	}
	return c
}

func TestShort(t *testing.T) {
	p := NewPlan(1, RealStorm(1))
	for i := range p.Batches[0].Jobs[:10] {
		p.Batches[0].Jobs[i].Cancel = true
	}
	for name, test := range map[string]struct {
		change func(*check.Counts)
		want   string // empty: it is a proof
	}{
		"all happened":      {func(*check.Counts) {}, ""},
		"one fault missed":  {func(c *check.Counts) { c.Faults[Caller]-- }, ""},
		"some kills missed": {func(c *check.Counts) { c.Faults[Kill] = 33 }, `33 of 44 faults "kill" struck`},
		"no bad answer":     {func(c *check.Counts) { delete(c.Faults, Answer) }, `0 of 9 faults "answer" struck`},
		"no transfer":       {func(c *check.Counts) { delete(c.Ways, "kill: in a send") }, `0 of 3 faults "kill: in a send" struck there`},
		"no step":           {func(c *check.Counts) { c.Ways = map[string]int{"kill: anywhere": 38} }, `0 of 3 faults "kill: before publish" struck there`},
		"one at its step":   {func(c *check.Counts) { c.Ways["kill: before publish"] = 1 }, ""},
		"a job less":        {func(c *check.Counts) { c.Submitted-- }, "309 jobs were submitted, and 310 were to be"},
		"a job twice":       {func(c *check.Counts) { c.Submitted++ }, "311 jobs were submitted, and 310 were to be"},
		"one never taken":   {func(c *check.Counts) { c.Succeeded-- }, "309 jobs ended, and 310 were to"},
		"no text compared":  {func(c *check.Counts) { c.Compared = 0 }, "greedy texts were compared"},
		"nothing cancelled": {func(c *check.Counts) { c.Cancelled, c.Succeeded = 0, 310 }, "jobs that were to be cancelled were in time"},
		"no hand-over":      {func(c *check.Counts) { c.HandedOver = 0 }, "0 of 309 jobs that succeeded were handed over"},
		"nothing succeeded": {func(c *check.Counts) { c.Succeeded, c.Compared, c.HandedOver = 0, 0, 0 }, "handed over"},
	} {
		t.Run(name, func(t *testing.T) {
			c := whole(p)
			c.Faults = maps.Clone(c.Faults)
			test.change(&c)
			short := strings.Join(p.Short(check.Verdict{Counts: c}, true), "\n")
			if test.want == "" && short != "" || !strings.Contains(short, test.want) {
				t.Errorf("it falls short in %q, want %q", short, test.want)
			}
		})
	}
	noop := NewPlan(1, NoopStorm(0.1))
	c := whole(noop)
	c.HandedOver = 0
	if short := noop.Short(check.Verdict{Counts: c}, false); len(short) > 0 {
		t.Errorf("without hand-overs it falls short in %q", short)
	}
}

func TestProgramsThatBreak(t *testing.T) {
	for text, sound := range map[string]bool{
		`{"msg":"a job failed: panic: of the engine"}` + "\n":        true,
		"all is well\npanic: runtime error\n\ngoroutine 1 [running]": false,
		"==================\nWARNING: DATA RACE\n":                   false,
		"fatal error: concurrent map writes\n":                       false,
		`{"level":"ERROR","msg":"NATS refuses a permission"}` + "\n": false,
	} {
		s := &System{Options: Options{Dir: t.TempDir()}}
		if err := os.MkdirAll(s.path("callers", "a"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.path("callers", "a"), "log"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.sound(); (err == nil) != sound {
			t.Errorf("after %q: error %v", text, err)
		}
	}
}
