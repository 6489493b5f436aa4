package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/test/rig"
	"tandem/test/rig/host"
	"tandem/test/rig/power"
)

// programs are those of every test here, built once.
var programs *host.Programs

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func build(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "faults-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if programs, err = host.Build(context.Background(), dir, host.BuildOptions{}); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// TestStorms is `make faults` in small; the storm on a cluster is TestClusterStorm.
func TestStorms(t *testing.T) {
	storms := map[string]storm{
		"no-op engines": {"no-op engines", rig.NewPlan(11, rig.NoopStorm(0.02)), rig.NoopSystem},
		"real engines":  {"real engines", rig.NewPlan(11, rig.RealStorm(0.06)), rig.RealSystem},
	}
	if err := power.Possible(); err != nil {
		t.Logf("NOT TESTED: a NATS server whose machine loses power: %v", err)
	} else {
		storms["loss of power"] = storm{"loss of power", rig.NewPlan(11, rig.PowerStorm(0.05)), rig.PowerSystem}
	}
	for name, s := range storms {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they mostly wait for what a struck worker held to be delivered again
			var verdict bytes.Buffer
			err := s.run(t.Context(), t.TempDir(), programs, &verdict, t.Output())
			t.Log(verdict.String())
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMutants has the judge look at broken builds: those that are built fastest. `make faults-mutants` shows it all of them.
func TestMutants(t *testing.T) {
	t.Parallel()
	o := options{seed: 1, dir: t.TempDir(), only: []string{"no Msg-Id", "result without expected sequence", "cancel unheeded"}}
	var caught bytes.Buffer
	if err := mutants(t.Context(), o, programs, &caught, t.Output()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(caught.String(), "caught:"); n != len(o.only) {
		t.Errorf("%d of %d mutants were caught:\n%s", n, len(o.only), caught.String())
	}
}

func TestPrintedPlans(t *testing.T) {
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := run(t.Context(), []string{"--print", "--seed", "5", "--share", "0.1"}, out, t.Output()); err != nil {
			t.Fatal(err)
		}
	}
	if first.Len() == 0 || first.String() != second.String() {
		t.Error("the same seed does not print the same jobs and faults")
	}
}

// TestNothingIsNoProof: where nothing would be run, or nothing judged, that is said, and what there is.
func TestNothingIsNoProof(t *testing.T) {
	args := func(args ...string) func() error {
		return func() error { return run(t.Context(), args, t.Output(), t.Output()) }
	}
	of := func(part func(context.Context, options, *host.Programs, io.Writer, io.Writer) error, o options) func() error {
		return func() error { return part(t.Context(), o, programs, t.Output(), t.Output()) }
	}
	hail := []string{"hail"}
	for name, c := range map[string]struct {
		run  func() error
		want []string
	}{
		"unknown part":     {args("hail"), []string{`"hail"`, "noop"}},
		"unknown measure":  {of(recovery, options{measures: hail}), []string{`"hail"`, "kill-decode"}},
		"unknown scenario": {of(scenarios, options{scenarios: hail}), []string{`"hail"`, "full queue"}},
		"unknown mutant":   {of(mutants, options{only: hail}), []string{`"hail"`, "silent burial"}},
		"flag after part":  {args("noop", "--seed", "2"), []string{`"--seed"`}},
		"no share":         {args("--share", "0"), []string{"--share is 0"}},
		"share of no size": {args("--share", "NaN", "--print"), []string{"--share is NaN"}},
		"no rounds":        {args("--rounds", "0", "recovery"), []string{"--rounds is 0"}},
		"no history":       {args("judge"), []string{"history.jsonl"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.run()
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want one with %s", err, want)
				}
			}
		})
	}
}

// TestFolderIsOfOneRun: the streams of an earlier run would be taken for inventions of this one, and its history would be gone.
func TestFolderIsOfOneRun(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "history.jsonl")
	if err := os.WriteFile(kept, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := rig.Start(t.Context(), rig.NoopSystem(dir, programs)); !errors.Is(err, os.ErrExist) {
		t.Errorf("error %v", err)
	}
	if text, err := os.ReadFile(kept); string(text) != "kept" {
		t.Errorf("the history of the earlier run is %q (%v)", text, err)
	}
}
