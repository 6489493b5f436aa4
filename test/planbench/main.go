// Command planbench compares the plans of Tandem with two whole machines behind a load balancer, and all of them with a lower bound, on fleets of machines
// that nobody needs to have: the real submitter, workers and nats-server run as processes over engines that take as long as tables say. It prints the
// tables of docs/MEASUREMENTS.md; `make bench-plans` runs it, and fails if a goal is missed. With the word real first it does the same with pairs of real
// engines; `make bench-real-plans` runs that.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "real" {
		realMain(os.Args[2:])
		return
	}
	o := options{fleetDir: "test/fleets", work: os.Stderr}
	flag.StringVar(&o.fleets, "fleets", "", "fleets by name, separated by commas; all of test/fleets if empty")
	flag.StringVar(&o.loads, "loads", "", "loads by name; all if empty: "+strings.Join(loadNames(), ","))
	flag.StringVar(&o.jobs, "jobs", "60,16", "numbers of jobs")
	flag.StringVar(&o.policies, "policies", strings.Join(allPolicies(), ","), "what to compare")
	flag.Float64Var(&o.timeScale, "time-scale", 0, "seconds here for one of the fleet's; 0: such that the lower bound for 60 jobs takes --seconds")
	flag.Float64Var(&o.seconds, "seconds", 120, "that the lower bound for 60 jobs takes here, without --time-scale")
	flag.Float64Var(&o.sizeScale, "size-scale", 0.003, "bytes of a KV state here for one of the fleet's; what a token costs beside its rows, some 16 bytes, is not scaled")
	flag.IntVar(&o.atOnce, "at-once", 6, "loads to run at the same time, each on engines, workers and a NATS server of its own: engines sleep most of the time, and at --seconds 120 6 keep two processors less than half busy")
	flag.BoolVar(&o.sequential, "sequential", false, "run the policies one after the other instead of side by side")
	flag.StringVar(&o.out, "out", "", "folder for plans.md and plans.json")
	flag.StringVar(&o.timeline, "timeline", "", "folder for a picture of each run's slots, as SVG")
	flag.StringVar(&o.trace, "trace", "", "folder for what passes between each worker, its engine and NATS, with times; it costs some")
	flag.BoolVar(&o.text, "text", false, "print what each slot did, and how long it was idle between what")
	flag.StringVar(&o.dir, "dir", "", "folder in which to keep logs, states and queues; they are removed if empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	met, err := Run(ctx, os.Stdout, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "planbench:", err)
	}
	if err != nil || !met {
		os.Exit(1)
	}
}

func loadNames() (names []string) {
	for _, l := range allLoads() {
		names = append(names, l.Name)
	}
	return names
}
