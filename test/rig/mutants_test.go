package rig

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMutantsFit: what is taken out is there in today's source, once. Only `make faults-mutants` builds all of them.
func TestMutantsFit(t *testing.T) {
	for _, m := range Mutants() {
		if len(m.Edits) == 0 || m.Plan(1).Jobs() == 0 {
			t.Errorf("mutant %q lacks nothing, or has no jobs", m.Name)
		}
		for _, e := range slices.Concat(m.Fault, m.Edits) {
			text, err := os.ReadFile(filepath.Join("..", "..", e.File))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(text), e.Old); n != 1 {
				t.Errorf("mutant %q: %s has %q %d times, want once", m.Name, e.File, e.Old, n)
			}
		}
	}
}
