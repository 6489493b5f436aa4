package grader

import (
	"strings"
	"testing"

	"tandem/jobs"
)

func TestPanicIsOneSubmissionsProblem(t *testing.T) {
	err := guarded(func() { panic("what the student wrote") })
	if jobs.CodeOf(err) != jobs.CodePanic || strings.Contains(err.Error(), "student wrote") {
		t.Errorf("a panic became %v", err)
	}
	if err := guarded(func() {}); err != nil {
		t.Errorf("no panic became %v", err)
	}
}
