package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"tandem/test/rig"
	"tandem/test/rig/check"
	"tandem/test/rig/host"
)

// mutants runs broken builds, and says for each whether the judge saw what was taken out of it. The whole programs go through the same faults first, and
// must be found whole.
func mutants(ctx context.Context, o options, whole *host.Programs, stdout, stderr io.Writer) error {
	list, err := pick("mutant", rig.Mutants(), func(m rig.Mutant) string { return m.Name }, o.only)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var errs []error
	inTurns(list, func(_ int, m rig.Mutant) {
		caught, err := o.mutant(ctx, m, whole, stderr)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, fmt.Errorf("mutant %q: %w", m.Name, err))
			return
		}
		fmt.Fprintf(stdout, "%-34s caught: %s\n", m.Name, caught)
	})
	return errors.Join(errs...)
}

// mutant returns what the judge found in the broken build.
func (o options) mutant(ctx context.Context, m rig.Mutant, whole *host.Programs, stderr io.Writer) (string, error) {
	dir := o.path("mutant-" + strings.ReplaceAll(m.Name, " ", "-"))
	if len(m.Fault) > 0 {
		var err error
		if whole, err = host.Build(ctx, dir+"-whole-bin", host.BuildOptions{Edits: m.Fault}); err != nil {
			return "", err
		}
	}
	if v, err := judged(ctx, rig.MutantSystem(dir+"-whole", whole, m), m.Plan(o.seed)); err != nil {
		return "", fmt.Errorf("without the change: %w", err)
	} else if len(v.Violations) > 0 {
		_ = v.Write(stderr) // a report for a person
		return "", fmt.Errorf("the whole programs broke a promise under its faults: %w", errBroken)
	}
	broken, err := host.Build(ctx, dir+"-bin", host.BuildOptions{Edits: slices.Concat(m.Fault, m.Edits)})
	if err != nil {
		return "", err
	}
	v, err := judged(ctx, rig.MutantSystem(dir, broken, m), m.Plan(o.seed))
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(v.Violations, func(v check.Violation) bool { return v.Rule == m.Rule })
	if i < 0 {
		_ = v.Write(stderr) // likewise
		return "", fmt.Errorf("the judge saw nothing of the rule %q: either it is blind, or another defence stands behind what was taken out", m.Rule)
	}
	return fmt.Sprintf("%s, %d times; %s", m.Rule, v.Broken()[m.Rule], v.Violations[i].What), nil
}

// judged runs a plan on a system of its own.
func judged(ctx context.Context, o rig.Options, p *rig.Plan) (v check.Verdict, err error) {
	s, err := rig.Start(ctx, o)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	return s.Storm(p)
}
