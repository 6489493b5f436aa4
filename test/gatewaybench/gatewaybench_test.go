package main

import (
	"os/exec"
	"testing"
)

// TestRun measures and kills a little of each: what is lost, twice or in another order fails it.
func TestRun(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "tandem/cmd/...").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	o := options{rounds: 10, streams: 50, requests: 200, killed: 300, lines: 1000, jobs: 300, bin: bin, work: t.Output()}
	if err := Run(t.Context(), o, t.Output()); err != nil {
		t.Error(err)
	}
}
