package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tandem/internal/tinymodel"
	"tandem/test/rig/host"
)

// realOptions say what to measure on real engines: see the flags.
type realOptions struct {
	engines, loads, policies string
	rounds                   int
	pin                      bool
	out, trace, dir          string
	spec                     tinymodel.Spec
	jobs                     int // of each load; 0 leaves it as it is
	work                     io.Writer
}

// The policies on real engines, in order.
const (
	realWhole = "two whole engines"
	realAgain = "each job asked twice" // on two whole engines; the second time its prompt is cached, as if it had been handed over
)

func realPolicies() []string { return []string{realWhole, realAgain, disaggregated, auto} }

// realLimit is how long a class may take, and the start of everything.
const realLimit = 5 * time.Minute

// realOutcome is how a class went by one policy.
type realOutcome struct {
	Policy  string            `json:"policy"`
	Seconds float64           `json:"seconds"`
	Ways    map[string]int    `json:"ways"`
	Equal   int               `json:"equal_texts"` // to one of those that whole engines gave
	CPU     cpuTimes          `json:"cpu_seconds"`
	Wrong   []string          `json:"wrong,omitempty"`
	texts   map[string]string // by custom id
}

// realRow is a class on a pair of engines, by each policy.
type realRow struct {
	Engine   string         `json:"engine"`
	Load     string         `json:"load"`
	Jobs     int            `json:"jobs"`
	Round    int            `json:"round"`
	Late     float64        `json:"late_seconds"` // as in figures
	Outcomes []*realOutcome `json:"outcomes"`
	Goals    []goal         `json:"goals"`
}

// realMain compares the plans on two real engines with a model of 120 million random weights; `make bench-real-plans` runs it.
func realMain(args []string) {
	o := realOptions{work: os.Stderr, spec: tinymodel.Visible(tinymodel.BPE)}
	flags := flag.NewFlagSet("planbench real", flag.ExitOnError)
	flags.StringVar(&o.engines, "engines", "", "llama-server, ollama, or both if empty")
	flags.StringVar(&o.loads, "loads", "", "loads by name, separated by commas; all if empty")
	flags.StringVar(&o.policies, "policies", "", "what to compare; all if empty: "+strings.Join(realPolicies(), ","))
	flags.IntVar(&o.rounds, "rounds", 1, "how often")
	flags.BoolVar(&o.pin, "pin", true, "hold each engine to a processor of its own (taskset, on Linux)")
	flags.StringVar(&o.out, "out", "", "file for the figures, as JSON")
	flags.StringVar(&o.trace, "trace", "", "folder for what passes between each worker, its engine and NATS, with times; it costs some")
	flags.StringVar(&o.dir, "dir", "", "folder in which to keep logs and queues; they are removed if empty")
	_ = flags.Parse(args) // it exits
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	met, err := runReal(ctx, os.Stdout, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "planbench real:", err)
	}
	if err != nil || !met {
		os.Exit(1)
	}
}

func runReal(ctx context.Context, w io.Writer, o realOptions) (met bool, err error) {
	var loadNames []string
	for _, l := range realLoads() {
		loadNames = append(loadNames, l.Name)
	}
	engines, err := pick("engines", o.engines, []string{"llama-server", "ollama"})
	if err != nil {
		return false, err
	}
	loads, err := pick("loads", o.loads, loadNames)
	if err != nil {
		return false, err
	}
	policies, err := pick("policies", o.policies, realPolicies())
	if err != nil {
		return false, err
	}
	keep := o.dir != ""
	remove, err := workFolder(&o.dir, o.trace)
	if err != nil {
		return false, err
	}
	defer remove()
	programs, err := host.Build(ctx, filepath.Join(o.dir, "bin"), host.BuildOptions{Only: []string{"submitter", "prefill-worker", "decode-worker", "nats-server"}})
	if err != nil {
		return false, err
	}
	var rows []*realRow
	for round := range o.rounds {
		for _, engine := range engines {
			for _, l := range realLoads() {
				if !slices.Contains(loads, l.Name) {
					continue
				}
				if o.jobs > 0 {
					l.Jobs = o.jobs
				}
				r := &realRow{Engine: engine, Load: l.Name, Jobs: l.Jobs, Round: round + 1}
				dir := filepath.Join(o.dir, fmt.Sprintf("%d-%s-%s", r.Round, engine, strings.ReplaceAll(l.Name, " ", "-")))
				stop := watchLateness()
				for _, policy := range policies {
					one, err := o.one(ctx, programs, engine, policy, l, filepath.Join(dir, strings.ReplaceAll(policy, " ", "-")))
					if err != nil {
						stop()
						return false, fmt.Errorf("%s, %s, %s: %w", engine, l.Name, policy, err)
					}
					r.add(one)
				}
				r.Late = stop().Seconds()
				r.Goals = r.goals()
				rows = append(rows, r)
				printReal(o.work, rows[len(rows)-1:])
				if !keep {
					if err := os.RemoveAll(dir); err != nil {
						return false, fmt.Errorf("remove files of a run: %w", err)
					}
				}
			}
		}
	}
	met = printReal(w, rows)
	if o.out == "" {
		return met, nil
	}
	data, err := json.MarshalIndent(rows, "", "\t")
	if err != nil {
		return false, fmt.Errorf("write figures: %w", err)
	}
	if err := os.WriteFile(o.out, append(data, '\n'), 0o644); err != nil {
		return false, fmt.Errorf("write figures: %w", err)
	}
	return met, nil
}

// one runs a load by one policy, on engines that know nothing of it.
func (o realOptions) one(ctx context.Context, programs *host.Programs, engine, policy string, l realLoad, dir string) (out *realOutcome, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, realLimit, fmt.Errorf("not done after %v", realLimit))
	defer cancel()
	p, err := startPair(ctx, realStarts()[engine], dir, o.spec, l.batches, o.pin)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	list := makeRealJobs(l)
	switch policy {
	case realWhole:
		out, err = p.share(ctx, list, 1)
	case realAgain:
		out, err = p.share(ctx, list, 2)
	default:
		traceDir := ""
		if o.trace != "" {
			traceDir = filepath.Join(o.trace, filepath.Base(filepath.Dir(dir)))
			if err := os.MkdirAll(traceDir, 0o755); err != nil {
				return nil, fmt.Errorf("trace: %w", err)
			}
		}
		if err := p.join(ctx, programs, dir, traceDir); err != nil {
			return nil, err
		}
		out, err = p.through(ctx, policy, list)
	}
	if err != nil {
		return nil, err
	}
	out.Policy = policy
	return out, nil
}
