package deploy

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestUnits has systemd itself check the units, as they would be found in /etc/systemd/system, and how hardened they are.
func TestUnits(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("systemd")); err != nil {
		t.Fatal(err)
	}
	// A drop-in that a person may add stands where they would put it.
	drop := filepath.Join(folder, "tandem-prefill@.service.d")
	if err := os.Mkdir(drop, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(folder, "supervised-engine.conf"), filepath.Join(drop, "engine.conf")); err != nil {
		t.Fatal(err)
	}
	units, err := filepath.Glob(filepath.Join(folder, "*.service"))
	if err != nil || len(units) != 4 {
		t.Fatalf("found units %v, want 4 (%v)", units, err)
	}
	shared := read(t, "systemd/tandem-.service.d/hardening.conf")
	for _, unit := range units {
		name := filepath.Base(unit)
		t.Run(name, func(t *testing.T) {
			role := strings.Trim(strings.TrimPrefix(strings.TrimSuffix(name, ".service"), "tandem-"), "@")
			for _, want := range []string{"User=tandem-" + role, "Group=tandem-" + role, "StateDirectory=tandem/" + role, "StateDirectoryMode=0700", "LimitCORE=0"} {
				if !slices.Contains(strings.Split(shared+read(t, unit), "\n"), want) {
					t.Errorf("it has no %s", want)
				}
			}
			installed := regexp.MustCompile(`/usr/local/bin/[a-z-]+`).FindString(read(t, unit))
			rewrite(t, unit, unit, installed, "/bin/true") // what make build and install.sh put there
			if out := analyze(t, folder, "verify", unit); out != "" {
				t.Errorf("systemd-analyze verify says:\n%s", out)
			}
			out := analyze(t, folder, "security", "--offline=yes", unit)
			exposure := regexp.MustCompile(`exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
			if exposure == nil {
				t.Fatalf("systemd-analyze security names no exposure level:\n%s", out)
			}
			// 0 is a service that can do nothing; 9.6 one without any hardening. Ours are at 1.4, or 2.5 with a GPU.
			if level, err := strconv.ParseFloat(exposure[1], 64); err != nil || level > 2.5 {
				t.Errorf("exposure level is %s, want at most 2.5: is hardening.conf still applied?", exposure[1])
			}
		})
	}
}

// analyze runs systemd-analyze with the units of a folder before the machine's own, and returns what it says.
func analyze(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "systemd-analyze", args...)
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+folder+":", "SYSTEMD_COLORS=0")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatal("found no systemd-analyze: install systemd (tools/needs.sh systemd-analyze)")
	}
	if err != nil {
		t.Errorf("systemd-analyze %s: %v", args[0], err)
	}
	return string(out)
}
