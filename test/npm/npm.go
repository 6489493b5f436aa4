// Package npm fetches what the tests that run node need.
package npm

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Install has npm fetch what package-lock.json in the test's folder names into node_modules there, unless it is there already.
func Install(t testing.TB) {
	t.Helper()
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	want, mark := hex.EncodeToString(sum[:]), filepath.Join("node_modules", ".installed")
	if have, err := os.ReadFile(mark); err == nil && string(have) == want {
		return
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci --ignore-scripts: %v; it needs node 20 or later, npm, and a package registry that it can reach\n%s", err, out)
	}
	if err := os.WriteFile(mark, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
