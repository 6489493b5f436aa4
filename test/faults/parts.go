package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"

	"tandem/test/rig"
	"tandem/test/rig/host"
	"tandem/test/rig/power"
)

// part is something that can be run by its name.
type part struct {
	name, what string
	usual      bool                      // run if nothing is named
	plan       func(o options) *rig.Plan // nil if there is none
	run        func(ctx context.Context, o options, p *host.Programs, stdout, stderr io.Writer) error
}

// allParts are in the order in which they are run.
func allParts() []part {
	storms := []struct {
		name, what string
		shape      func(share float64) rig.Shape
		system     func(dir string, p *host.Programs) rig.Options
		possible   func() error
	}{
		{"noop", "no-op engines, for volume", rig.NoopStorm, rig.NoopSystem, nil},
		{"real", "Ollama and llama-server, KV states handed over", rig.RealStorm, rig.RealSystem, nil},
		{"cluster", "three NATS servers that are lost one or two at a time", rig.ClusterStorm, rig.ClusterSystem, nil},
		{"power", "a NATS server whose machine loses power", rig.PowerStorm, rig.PowerSystem, power.Possible},
	}
	var all []part
	for _, s := range storms {
		plan := func(o options) *rig.Plan { return rig.NewPlan(o.seed, s.shape(o.share)) }
		all = append(all, part{s.name, "a storm: " + s.what, true, plan, func(ctx context.Context, o options, p *host.Programs, stdout, stderr io.Writer) error {
			if s.possible != nil {
				if err := s.possible(); err != nil {
					fmt.Fprintf(stdout, "%s: NOT RUN: %v\n", s.name, err)
					return nil
				}
			}
			return storm{s.what, plan(o), s.system}.run(ctx, o.path(s.name), p, stdout, stderr)
		}})
	}
	return append(all,
		part{"scenarios", "what a storm does not bring about: poison, full disks and queues, clocks that jump, two versions side by side", false, nil, scenarios},
		part{"recovery", "how soon work goes on after each kind of fault", false, nil, recovery},
		part{"mutants", "broken builds, each of which the judge must catch", false, nil, mutants},
	)
}

// parts are those of the given names, or the usual ones.
func (o options) parts(names []string) ([]part, error) {
	list, err := pick("part", allParts(), func(p part) string { return p.name }, names)
	if len(names) == 0 {
		list = slices.DeleteFunc(list, func(p part) bool { return !p.usual })
	}
	return list, err
}

func usage(w io.Writer, set *flag.FlagSet) {
	fmt.Fprint(w, "usage: faults [flags] [part ...]\n       faults judge history.jsonl ...\n\nThe parts; the storms are run if none is named:\n")
	for _, p := range allParts() {
		fmt.Fprintf(w, "  %-10s %s\n", p.name, p.what)
	}
	fmt.Fprint(w, "\njudge looks once more at the histories of earlier runs.\n\nFlags:\n")
	set.PrintDefaults()
}
