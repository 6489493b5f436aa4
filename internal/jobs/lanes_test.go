package jobs

import (
	"slices"
	"testing"
)

func TestLanes(t *testing.T) {
	for user, want := range map[string]string{ // other programs compute these, too
		"ada": "batch-5", "alan": "batch-3", "grace": "batch", "js-grader": "batch-4", "Übung 1": "batch-2",
	} {
		j := &Job{User: user, Model: "m:7b", Class: Batch, ID: testID}
		if got := j.IntakeSubject(); got != "jobs.prefill.m:7b."+want+"."+testID {
			t.Errorf("user %s: %s, want class token %s", user, got, want)
		}
		j.Class = Interactive
		if got := j.IntakeSubject(); got != "jobs.prefill.m:7b.interactive."+testID {
			t.Errorf("user %s: %s", user, got)
		}
	}
	if got, want := Tokens(RolePrefill), []Class{"interactive", "batch", "batch-1", "batch-2", "batch-3", "batch-4", "batch-5", "batch-6", "batch-7"}; !slices.Equal(got, want) {
		t.Errorf("tokens %s, want %s", got, want)
	}
	if got := Tokens(RoleDecode); !slices.Equal(got, Classes[:]) {
		t.Errorf("tokens of decode: %s", got)
	}
}
