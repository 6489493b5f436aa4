// Command faults is the proof of docs/RELIABILITY.md: it runs the real programs as processes under a storm of faults and has a checker that knows nothing of
// them judge what was seen. `make faults` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"tandem/test/rig"
	"tandem/test/rig/check"
	"tandem/test/rig/history"
	"tandem/test/rig/host"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // disks are to be unmounted
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// options are what is run.
type options struct {
	seed  uint64
	share float64
	dir   string
	only  []string // names of mutants; all if there is none
	print bool
	race  bool

	rounds   int      // of each measure of recovery
	measures []string // names of those; all if there is none

	scenarios []string // names of those to play; all if there is none
}

// errBroken says that a promise was not kept.
var errBroken = errors.New("a promise was broken; the history is kept")

// errShort says that no promise was broken, and that this proves nothing.
var errShort = errors.New("the run fell short of its plan, and proves nothing")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	set := flag.NewFlagSet("faults", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Uint64Var(&o.seed, "seed", 1, "of the jobs and the faults: the same seed has the same ones")
	set.Float64Var(&o.share, "share", 1, "of the jobs and faults of a full run; 0.1 is a short one")
	set.StringVar(&o.dir, "dir", "", "where everything of the run goes, and stays (default: a temporary folder, removed if all is well)")
	set.BoolVar(&o.print, "print", false, "only print the jobs and faults of the seed")
	set.BoolVar(&o.race, "race", false, "build the programs with the race detector")
	set.IntVar(&o.rounds, "rounds", 5, "with recovery: how often each time is measured")
	set.Func("measure", "with recovery: only this one; may be repeated", func(name string) error {
		o.measures = append(o.measures, name)
		return nil
	})
	set.Func("mutant", "with mutants: only this one; may be repeated", func(name string) error {
		o.only = append(o.only, name)
		return nil
	})
	set.Func("scenario", "with scenarios: only this one; may be repeated", func(name string) error {
		o.scenarios = append(o.scenarios, name)
		return nil
	})
	set.Usage = func() { usage(stderr, set) }
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	if set.Arg(0) == "judge" {
		return judge(set.Args()[1:], stdout)
	}
	parts, err := o.parts(set.Args())
	if err != nil {
		return err
	}
	switch {
	case !(o.share > 0 && o.share <= 10): // also NaN
		return fmt.Errorf("--share is %v; want more than 0, at most 10", o.share)
	case o.rounds < 1:
		return fmt.Errorf("--rounds is %d; want at least 1", o.rounds)
	}
	if o.print {
		for _, p := range parts {
			if p.plan != nil {
				if err := p.plan(o).Print(stdout); err != nil {
					return err
				}
			}
		}
		return nil
	}
	temporary := o.dir == ""
	if temporary {
		dir, err := os.MkdirTemp("", "faults-")
		if err != nil {
			return err
		}
		o.dir = dir
	}
	programs, err := host.Build(ctx, filepath.Join(o.dir, "bin"), host.BuildOptions{Race: o.race})
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := p.run(ctx, o, programs, stdout, stderr); err != nil {
			return fmt.Errorf("%s, seed %d: %w; everything of the run is in %s", p.name, o.seed, err, o.path(p.name))
		}
	}
	if temporary {
		return os.RemoveAll(o.dir)
	}
	return nil
}

func (o options) path(elem string) string { return filepath.Join(o.dir, elem) }

// storm is a plan and the system that it goes over.
type storm struct {
	name   string
	plan   *rig.Plan
	system func(dir string, p *host.Programs) rig.Options
}

// run runs it and prints what came of it.
func (s storm) run(ctx context.Context, dir string, p *host.Programs, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	o := s.system(dir, p)
	o.Say = func(format string, args ...any) {
		fmt.Fprintf(stderr, "%7.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	system, err := rig.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, system.Stop()) }()
	verdict, err := system.Storm(s.plan)
	if err != nil && len(verdict.Violations) == 0 {
		return err
	}
	fmt.Fprintf(stdout, "%s, seed %d, %s\n", s.name, s.plan.Seed, time.Since(began).Round(time.Second))
	if err := verdict.Write(stdout); err != nil {
		return err
	}
	if len(verdict.Violations) > 0 {
		return errors.Join(errBroken, err)
	}
	short := s.plan.Short(verdict, o.Real)
	for _, what := range short {
		fmt.Fprintf(stdout, "NOT A PROOF: %s\n", what)
	}
	if len(short) > 0 {
		return errShort
	}
	return nil
}

// judge has the judge look at histories that were kept.
func judge(files []string, stdout io.Writer) error {
	if len(files) == 0 {
		return errors.New("judge what? name the history.jsonl of a run")
	}
	broken := false
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		events, err := history.Read(f)
		f.Close() // was only read
		if err != nil {
			return err
		}
		v := check.Check(events)
		if err := v.Write(stdout); err != nil {
			return err
		}
		broken = broken || len(v.Violations) > 0
	}
	if broken {
		return errBroken
	}
	return nil
}
