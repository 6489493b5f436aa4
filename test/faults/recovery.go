package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"tandem/test/rig"
	"tandem/test/rig/host"
)

// errMissed says that all is well, but not soon enough.
var errMissed = errors.New("goal missed")

// recovery measures how long it takes until work goes on after a fault, and prints a table.
func recovery(ctx context.Context, o options, programs *host.Programs, stdout, stderr io.Writer) error {
	measures, err := pick("measure", rig.Measures(), func(m rig.Measure) string { return m.Name }, o.measures)
	if err != nil {
		return err
	}
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(stderr, "%7.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	rows, errs := make([][]rig.Recovery, len(measures)), make([]error, len(measures))
	inTurns(measures, func(i int, m rig.Measure) {
		took, verdict, err := m.Run(ctx, o.path("recovery-"+m.Name), programs, o.rounds, say)
		if err == nil && len(verdict.Violations) > 0 {
			_ = verdict.Write(stderr) // a report for a person
			err = fmt.Errorf("%s: %w", m.Name, errBroken)
		}
		rows[i], errs[i] = took, err
	})
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
