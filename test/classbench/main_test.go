package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestClassIsGradedOnceThroughKills is the benchmark in small: the submitter and a worker are killed in the middle, and nothing is lost or graded twice.
func TestClassIsGradedOnceThroughKills(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin+string(filepath.Separator), "tandem/cmd/...").CombinedOutput(); err != nil {
		t.Fatalf("build the programs: %v\n%s", err, out)
	}
	f, err := Run(t.Context(), options{students: 6, medianKB: 40, largestKB: 120, bin: bin, dir: t.TempDir(), work: t.Output()})
	if f != nil {
		f.print(t.Output())
	}
	if err != nil {
		t.Error(err)
	}
}
