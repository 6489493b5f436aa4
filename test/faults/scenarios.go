package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"tandem/test/rig"
	"tandem/test/rig/host"
)

// scenarios plays each of them and prints a line for each: its name, how many jobs it had, and whether all went as it should. One that this machine cannot play
// is no failure, and said.
func scenarios(ctx context.Context, o options, programs *host.Programs, stdout, stderr io.Writer) error {
	list, err := pick("scenario", rig.Scenarios(), func(sc rig.Scenario) string { return sc.Name }, o.scenarios)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var errs []error
	inTurns(list, func(_ int, sc rig.Scenario) {
		began := time.Now()
		line, err := scenario(ctx, sc, o.path("scenario-"+folder(sc.Name)), programs)
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(stdout, "%-32s %6s  %s\n", sc.Name, time.Since(began).Round(time.Second), line)
		if err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", sc.Name, err)
			errs = append(errs, fmt.Errorf("scenario %q: %w", sc.Name, errBroken))
		}
	})
	return errors.Join(errs...)
}

// scenario plays one, and returns what there is to say of it in a line. The error has all that went wrong, with its history.
func scenario(ctx context.Context, sc rig.Scenario, dir string, programs *host.Programs) (line string, err error) {
	v, err := sc.Run(ctx, dir, programs, func(string, ...any) {})
	switch {
	case errors.Is(err, rig.ErrNotRun):
		return err.Error(), nil
	case err != nil:
		return "could not be played to its end", err
	case len(v.Violations) > 0:
		return fmt.Sprintf("%d jobs, %d VIOLATIONS", v.Counts.Submitted, len(v.Violations)), errors.New(v.String())
	}
	c := v.Counts
	return fmt.Sprintf("%d jobs: %d succeeded, %d failed, %d cancelled, %d expired; as it should be", c.Submitted, c.Succeeded, c.Failed, c.Cancelled, c.Expired), nil
}

// folder is a name without what does not belong into a path.
func folder(name string) string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(name)
}
