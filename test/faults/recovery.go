package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"tandem/internal/rig"
	"tandem/internal/rig/host"
)

// errMissed says that all is well, but not soon enough.
var errMissed = errors.New("goal missed")

// recovery measures how long it takes until work goes on after a fault, and prints a table.
func recovery(ctx context.Context, o options, programs *host.Programs, stdout, stderr io.Writer) error {
	const atOnce = 3 // they mostly wait for what a struck worker held to be delivered again
	measures, err := o.chosen()
	if err != nil {
		return err
	}
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(stderr, "%7.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	turns := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	rows, errs := make([][]rig.Recovery, len(measures)), make([]error, len(measures))
	for i, m := range measures {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			took, verdict, err := m.Run(ctx, o.path("recovery-"+m.Name), programs, o.rounds, say)
			if err == nil && len(verdict.Violations) > 0 {
				_ = verdict.Write(stderr) // a report for a person
				err = fmt.Errorf("%s: %w", m.Name, errBroken)
			}
			rows[i], errs[i] = took, err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	list := slices.Concat(rows...)
	if err := rig.WriteRecoveries(stdout, list); err != nil {
		return err
	}
	if slices.ContainsFunc(list, rig.Recovery.Missed) {
		return errMissed
	}
	return nil
}

// chosen are the measures that were asked for.
func (o options) chosen() (list []rig.Measure, err error) {
	all := rig.Measures()
	if len(o.measures) == 0 {
		return all, nil
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
		if slices.Contains(o.measures, m.Name) {
			list = append(list, m)
		}
	}
	return list, named("measure", o.measures, names)
}
