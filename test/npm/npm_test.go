package npm

import (
	"errors"
	"os"
	"testing"
)

// TestInstallRunsNoScripts: what a package brings along to be run at its installation, is not run.
func TestInstallRunsNoScripts(t *testing.T) {
	t.Chdir(t.TempDir())
	err := errors.Join(
		os.WriteFile("package.json", []byte(`{"name": "a", "version": "1.0.0", "scripts": {"preinstall": "touch ran"}}`), 0o600),
		os.WriteFile("package-lock.json", []byte(`{"name": "a", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "a", "version": "1.0.0"}}}`), 0o600),
		os.Mkdir("node_modules", 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	Install(t)
	if _, err := os.Stat("ran"); !os.IsNotExist(err) {
		t.Errorf("the package's script ran: %v", err)
	}
}
