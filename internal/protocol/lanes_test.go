package protocol

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"tandem/jobs"
)

func TestLanes(t *testing.T) {
	for user, want := range map[string]string{ // other programs compute these, too
		"ada": "batch-5", "alan": "batch-3", "grace": "batch", "js-grader": "batch-4", "Übung 1": "batch-2",
	} {
		j := &jobs.Job{User: user, Model: "m:7b", Class: jobs.Batch, ID: testID}
		if got := SubjectOf(j, jobs.StagePrefill); got != "jobs.prefill.m:7b."+want+"."+jobs.EncodeToken(user)+"."+testID {
			t.Errorf("user %s: %s, want class token %s", user, got, want)
		}
		j.Class = jobs.Interactive
		if got := SubjectOf(j, jobs.StagePrefill); got != "jobs.prefill.m:7b.interactive."+jobs.EncodeToken(user)+"."+testID {
			t.Errorf("user %s: %s", user, got)
		}
	}
	if got, want := Tokens(RolePrefill), []jobs.Class{"interactive", "batch", "batch-1", "batch-2", "batch-3", "batch-4", "batch-5", "batch-6", "batch-7"}; !slices.Equal(got, want) {
		t.Errorf("tokens %s, want %s", got, want)
	}
	if got := Tokens(RoleDecode); !slices.Equal(got, jobs.Classes[:]) {
		t.Errorf("tokens of decode: %s", got)
	}
}

// The lanes shown in the protocol's description are those that the code computes.
func TestProtocolLanes(t *testing.T) {
	page, err := os.ReadFile("../../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("\\| `([^`]+)` \\| `[0-9a-f]{2}` \\| `([^`]+)` \\|").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 3 {
		t.Fatalf("found %d rows of users and lanes, want 3 or more", len(rows))
	}
	for _, row := range rows {
		if got := Lane(LaneOf(row[1])); string(got) != row[2] {
			t.Errorf("the page says that jobs of %q wait in %s; it is %s", row[1], row[2], got)
		}
	}
}
