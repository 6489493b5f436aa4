package handover

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also runs what a test needs a process of its own for: see child.
func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		os.Exit(runChild(name))
	}
	goleak.VerifyTestMain(m)
}
