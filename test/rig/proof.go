package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"tandem/test/rig/check"
)

// Short says in what a run fell short of its plan, a sentence each; none if it did not. A verdict without violations proves nothing if the faults never struck, or
// if nothing was there to be harmed. handOvers is whether its engines hand KV states over.
func (p *Plan) Short(v check.Verdict, handOvers bool) (short []string) {
	c := v.Counts
	want := func(have, least, of int, what string) {
		if have < least {
			short = append(short, fmt.Sprintf("%d of %d %s", have, of, what))
		}
	}
	if c.Submitted != p.Jobs() {
		short = append(short, fmt.Sprintf("%d jobs were submitted, and %d were to be", c.Submitted, p.Jobs()))
	}
	if ended := c.Succeeded + c.Failed + c.Cancelled + c.Expired; ended != p.Jobs() { // one that its submitter gave up on, unaccepted, broke no promise
		short = append(short, fmt.Sprintf("%d jobs ended, and %d were to", ended, p.Jobs()))
	}
	planned, atStep, greedy, cancels, expiring := map[string]int{}, map[string]int{}, 0, 0, 0
	for _, a := range p.Actions {
		planned[a.What]++
		if (a.What == Kill || a.What == Freeze || a.What == Engine) && a.Step != Anywhere {
			atStep[a.What+": "+string(a.Step)]++
		}
	}
	for _, b := range p.Batches {
		for _, j := range b.Jobs {
			switch {
			case b.Deadline > 0:
				expiring++
			case j.Cancel:
				cancels++
			case j.Temperature == 0:
				greedy++
			}
		}
	}
	for _, what := range sortedKeys(planned) {
		n := planned[what]
		want(c.Faults[what], mostOf(n), n, fmt.Sprintf("faults %q struck", what))
	}
	for _, way := range sortedKeys(atStep) { // a worker that does not come to the step in time is struck wherever it is
		n := atStep[way]
		want(c.Ways[way], (n-1)/2, n, fmt.Sprintf("faults %q struck there", way))
	}
	want(c.Compared, greedy*8/10, greedy, "greedy texts were compared")
	want(c.Cancelled, cancels/10, cancels, "jobs that were to be cancelled were in time") // the others had ended
	want(c.Expired, expiring/25, expiring, "jobs that were to expire did")
	if handOvers {
		want(c.HandedOver, max(1, c.Succeeded/4), c.Succeeded, "jobs that succeeded were handed over as a KV state")
	}
	return short
}

// mostOf is how many faults of so many have to strike: nine tenths, and of few ones, in a run that may end before a worker comes to a step again, half.
func mostOf(n int) int {
	if n < 10 {
		return n / 2
	}
	return n * 9 / 10
}

// broke is what a Go program says when it fails by its own fault, and a worker when it lacks a right.
var broke = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE|\{.*"msg":"NATS refuses a permission".*)`)

// sound looks whether a worker or a submitter broke by its own fault, which its restart would hide, or a worker tried what it has no right to, which may
// only cost time.
func (s *System) sound() error {
	var errs []error
	for _, logs := range []string{s.path("*.log"), s.path("callers", "*", "log"), s.path("callers", "log")} {
		names, err := filepath.Glob(logs)
		errs = append(errs, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			errs = append(errs, err)
			if what := broke.Find(text); what != nil {
				errs = append(errs, fmt.Errorf("%s says %q", name, what))
			}
		}
	}
	return errors.Join(errs...)
}
