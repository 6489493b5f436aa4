package enginetest

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"tandem/jobs"
)

// CheckError checks the error of an answer that no engine should give: it has a code, by which the job goes elsewhere, and says
// what is wrong in a few printable words, with neither an escape sequence nor megabytes of the answer.
func CheckError(t testing.TB, err error) {
	t.Helper()
	if _, ok := errors.AsType[*jobs.Error](err); !ok {
		t.Errorf("%v has no code", err)
	}
	if s := err.Error(); len(s) > 1000 || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("the message has %d bytes: %.300q", len(s), s)
	}
}
