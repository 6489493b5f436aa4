package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tandem/test/rig/host"
	"tandem/test/rig/paced/fleet"
)

// options say what to measure: see the flags.
type options struct {
	fleetDir, fleets, loads, jobs, policies string
	timeScale, seconds, sizeScale           float64
	atOnce                                  int // loads
	sequential, text, keep                  bool
	out, timeline, trace, dir               string
	work                                    io.Writer // what goes on
}

// chosen are the options, read.
type chosen struct {
	fleets   []*fleet.Fleet
	loads    []load
	jobs     []int
	policies []string
}

// Run measures what the options ask for, writes the report and says whether all goals were met.
func Run(ctx context.Context, w io.Writer, o options) (met bool, err error) {
	c, err := o.choose()
	if err != nil {
		return false, err
	}
	o.keep = o.dir != ""
	remove, err := workFolder(&o.dir, o.out, o.timeline, o.trace)
	if err != nil {
		return false, err
	}
	defer remove()
	programs, err := host.Build(ctx, filepath.Join(o.dir, "bin"), host.BuildOptions{
		Only: []string{"submitter", "prefill-worker", "decode-worker", "nats-server", "pacedserver"},
	})
	if err != nil {
		return false, err
	}
	var report bytes.Buffer
	to := io.MultiWriter(w, &report)
	all, err := o.measure(ctx, w, to, programs, c)
	met = printSum(to, all) && err == nil
	if o.out == "" {
		return met, err
	}
	if failed := os.WriteFile(filepath.Join(o.out, "plans.md"), report.Bytes(), 0o644); failed != nil {
		err = errors.Join(err, fmt.Errorf("write report: %w", failed))
	}
	return met, errors.Join(err, writeFigures(filepath.Join(o.out, "plans.json"), all))
}

// workFolder makes the folders that are named, and in the first a new one, which takes its place. remove removes that if the first had no name.
func workFolder(dir *string, others ...string) (remove func(), err error) {
	keep := *dir != ""
	for _, d := range append(others, *dir) {
		if d == "" {
			continue
		}
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("make folder: %w", err)
		}
	}
	made, err := os.MkdirTemp(*dir, "planbench-")
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	*dir = made
	return func() {
		if !keep {
			_ = os.RemoveAll(made)
		}
	}, nil
}

// rounds are the numbers of jobs to be run on the same engines and workers: all, unless a machine becomes slower, which workers that have seen it know.
func rounds(f *fleet.Fleet, jobs []int) (list [][]int) {
	if !slows(f) {
		return [][]int{jobs}
	}
	for _, n := range jobs {
		list = append(list, []int{n})
	}
	return list
}

// slows reports whether one of the machines is slower than it was when it was measured.
func slows(f *fleet.Fleet) bool {
	return slices.ContainsFunc(f.Machines, func(m fleet.Machine) bool { return m.Slower > 0 })
}

// draw shows what the slots did in a row's runs.
func (o options) draw(w io.Writer, r *row) error {
	for i, t := range r.timelines() {
		if o.text {
			t.text(w, 150, r.TimeScale)
		}
		if o.timeline == "" {
			continue
		}
		var b bytes.Buffer
		if err := t.svg(&b); err != nil {
			return err
		}
		name := fmt.Sprintf("%s-%s-%d-%s.svg", r.Fleet, r.Load, r.Jobs, strings.ReplaceAll(r.Outcomes[i].Policy, " ", "-"))
		if err := os.WriteFile(filepath.Join(o.timeline, name), b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("write timeline: %w", err)
		}
	}
	return nil
}

// choose reads the options that are lists.
func (o options) choose() (c chosen, err error) {
	if o.timeScale < 0 || o.timeScale == 0 && o.seconds <= 0 || o.sizeScale <= 0 {
		return c, fmt.Errorf("time-scale %v, seconds %v, size-scale %v: want numbers above 0", o.timeScale, o.seconds, o.sizeScale)
	}
	if o.atOnce < 1 {
		return c, fmt.Errorf("at-once %d: want at least 1", o.atOnce)
	}
	files, err := filepath.Glob(filepath.Join(o.fleetDir, "*.json"))
	if err != nil {
		return c, err
	}
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".json"))
	}
	if names, err = pick("fleets", o.fleets, names); err != nil {
		return c, err
	}
	for _, name := range names {
		f, err := fleet.Read(filepath.Join(o.fleetDir, name+".json"))
		if err != nil {
			return c, err
		}
		c.fleets = append(c.fleets, f)
	}
	loads, err := pick("loads", o.loads, loadNames())
	if err != nil {
		return c, err
	}
	for _, l := range allLoads() {
		if slices.Contains(loads, l.Name) {
			c.loads = append(c.loads, l)
		}
	}
	if c.policies, err = pick("policies", o.policies, allPolicies()); err != nil {
		return c, err
	}
	for s := range strings.SplitSeq(o.jobs, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return c, fmt.Errorf("jobs: %q; want numbers of at least 1, separated by commas", s)
		}
		c.jobs = append(c.jobs, n)
	}
	return c, nil
}

// pick returns the names of a list that the user asked for, in the list's order; all if he named none.
func pick(flag, asked string, list []string) (picked []string, err error) {
	if asked == "" {
		return list, nil
	}
	wanted := strings.Split(asked, ",")
	for _, name := range wanted {
		if !slices.Contains(list, name) {
			return nil, fmt.Errorf("%s: %q is unknown; there are %s", flag, name, strings.Join(list, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !slices.Contains(wanted, name) }), nil
}
