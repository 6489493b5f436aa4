package main

import (
	"path/filepath"
	"testing"

	"tandem/test/rig"
)

// TestScenarios plays those that are soon done. `go run ./test/faults scenarios` plays all of them.
func TestScenarios(t *testing.T) {
	turns := make(chan struct{}, 3) // they mostly wait, but start many programs
	for _, sc := range rig.Scenarios() {
		if !sc.Quick {
			continue
		}
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			line, err := scenario(t.Context(), sc, filepath.Join(t.TempDir(), "run"), programs)
			t.Log(line)
			if err != nil {
				t.Error(err)
			}
		})
	}
}
