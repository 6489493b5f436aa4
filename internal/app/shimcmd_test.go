package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tandem/internal/shim"
)

// shimCall runs `prefill-worker shim …`.
func shimCall(args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = PrefillWorkerMain(append([]string{"shim"}, args...), &out, &err)
	return code, out.String(), err.String()
}

func TestShimCommands(t *testing.T) {
	program, dir := ollamaHere(t), t.TempDir()
	slotDir, runDir := filepath.Join(dir, "slots"), filepath.Join(dir, "run")
	library := filepath.Join(filepath.Dir(program), "..", "lib", "ollama")
	real, err := os.ReadFile(filepath.Join(library, "llama-server"))
	if err != nil {
		t.Fatal(err)
	}
	group := groupName(t)
	// Each call follows on the one before.
	for _, tt := range []struct {
		args  string
		code  int
		wants []string // on standard output
		says  string   // on standard error
	}{
		{"status", ExitDegraded, []string{"not installed", "(package)"}, ""},
		{"remove", ExitDone, []string{"nothing to do"}, ""},
		{"install --dry-run --group " + group, ExitDone, []string{"would make folder " + slotDir, "would put the shim at"}, ""},
		{"status", ExitDegraded, []string{"not installed"}, ""},
		{"install --group no-such-group", ExitUsage, nil, "no-such-group"},
		{"install --group " + group, ExitDone, []string{"put the shim at", "restart Ollama", "must both be in group " + group, "--shim-run-dir " + runDir}, ""},
		{"install --group " + group, ExitDone, []string{"installed in", "already"}, ""},
		{"status", ExitDone, []string{"shim      installed", slotDir, runDir, "running   none"}, ""},
		{"remove --dry-run", ExitDone, []string{"would put the real server back"}, ""},
		{"status", ExitDone, []string{"shim      installed"}, ""},
		{"remove", ExitDone, []string{"put the real server back", "Restart Ollama"}, ""},
		{"status", ExitDegraded, []string{"not installed"}, ""},
		{"status --unknown", ExitUsage, nil, "shim --help"},
		{"", ExitUsage, nil, "expected one of"},
		{"--help", ExitDone, []string{"install", "status", "remove", "--ollama-binary"}, ""},
	} {
		args := strings.Fields(tt.args)
		if len(args) > 0 && args[0] != "--help" {
			args = append(args, "--ollama", program, "--run-dir", runDir)
		}
		if len(args) > 0 && args[0] == "install" {
			args = append(args, "--slot-dir", slotDir)
		}
		code, out, errs := shimCall(args...)
		if code != tt.code || !strings.Contains(errs, tt.says) || (tt.says == "") != (errs == "") {
			t.Fatalf("%s: exit %d, %q; want %d and a word on %q\n%s", tt.args, code, errs, tt.code, tt.says, out)
		}
		for _, want := range tt.wants {
			if !strings.Contains(out, want) {
				t.Errorf("%s: output has no %q:\n%s", tt.args, want, out)
			}
		}
	}
	for _, main := range []func([]string, io.Writer, io.Writer) int{PrefillWorkerMain, DecodeWorkerMain} {
		var out strings.Builder
		if code := main([]string{"--help"}, &out, io.Discard); code != ExitDone || !strings.Contains(out.String(), "-worker shim'") {
			t.Errorf("the worker's help says nothing of the subcommand:\n%s", out.String())
		}
	}
	if b, err := os.ReadFile(filepath.Join(library, "llama-server")); err != nil || !slices.Equal(b, real) {
		t.Errorf("the server is not what it was: %v", err)
	}
}

// groupName is a group that this process is in.
func groupName(t *testing.T) string {
	t.Helper()
	g, err := user.LookupGroupId(strconv.Itoa(os.Getgid()))
	if err != nil {
		t.Fatal(err)
	}
	return g.Name
}

func TestShimRemoveTellsOfStatesThatAreLeft(t *testing.T) {
	program, dir := ollamaHere(t), t.TempDir()
	slotDir, runDir := filepath.Join(dir, "slots"), filepath.Join(dir, "run")
	if code, _, errs := shimCall("install", "--ollama", program, "--slot-dir", slotDir, "--run-dir", runDir, "--group", groupName(t)); code != ExitDone {
		t.Fatal(errs)
	}
	state := filepath.Join(slotDir, "a.state")
	if err := os.WriteFile(state, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := shimCall("remove", "--ollama", program); code != ExitDone || !strings.Contains(out, "left in "+slotDir) {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if _, err := os.Stat(state); err != nil {
		t.Error(err)
	}
}

// After an upgrade the folders are those of before, without being named again.
func TestShimInstallAfterAnUpgradeKeepsItsFolders(t *testing.T) {
	program, dir := ollamaHere(t), t.TempDir()
	slotDir, runDir := filepath.Join(dir, "slots"), filepath.Join(dir, "run")
	server := filepath.Join(filepath.Dir(program), "..", "lib", "ollama", "llama-server")
	real, err := os.ReadFile(server)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errs := shimCall("install", "--ollama", program, "--slot-dir", slotDir, "--run-dir", runDir, "--group", groupName(t)); code != ExitDone {
		t.Fatal(errs)
	}
	if err := os.Remove(server); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(server, real, 0o755); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := shimCall("status", "--ollama", program); code != ExitDegraded || !strings.Contains(out, "run install again") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	if code, _, errs := shimCall("install", "--ollama", program); code != ExitDone {
		t.Fatal(errs)
	}
	in, err := shim.Look(program)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := in.Status(""); err != nil || s.State != shim.Installed || s.Config.SlotDir != slotDir || s.Config.RunDir != runDir || !s.Config.Shared {
		t.Errorf("status %+v, %v; want the folders and the group that it had", s, err)
	}
}

// Whoever writes the run folder must not choose which folders are opened to the group at the next install.
func TestShimInstallIgnoresNotesInTheRunFolder(t *testing.T) {
	program, dir, victim := ollamaHere(t), t.TempDir(), t.TempDir()
	slotDir, runDir := filepath.Join(dir, "slots"), filepath.Join(dir, "run")
	library := filepath.Join(filepath.Dir(program), "..", "lib", "ollama")
	server := filepath.Join(library, "llama-server")
	args := []string{"install", "--ollama", program, "--run-dir", runDir, "--group", groupName(t)}
	if code, _, errs := shimCall(append(args, "--slot-dir", slotDir)...); code != ExitDone {
		t.Fatal(errs)
	}
	forged := fmt.Sprintf(`{"library": %q, "config": {"slot_dir": %q, "run_dir": %q, "shared": true}}`, filepath.Clean(library), victim, runDir)
	// An upgrade removes what was there before.
	if err := errors.Join(os.WriteFile(filepath.Join(runDir, "installed.json"), []byte(forged), 0o644),
		os.Rename(server+".real", server), os.Remove(server+".tandem.json")); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := shimCall(args...); code != ExitDone || !strings.Contains(out, slotDir) || strings.Contains(out, victim) {
		t.Errorf("exit %d, want %s as before\n%s%s", code, slotDir, out, errs)
	}
	if info, err := os.Stat(victim); err != nil || info.Mode().Perm()&0o020 != 0 {
		t.Errorf("the folder that the note names has mode %v, %v", info.Mode(), err)
	}
}

func TestShimInstallWarnsOfASignedApp(t *testing.T) {
	dir := t.TempDir()
	resources := filepath.Join(dir, "Ollama.app", "Contents", "Resources")
	if err := os.MkdirAll(resources, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"ollama": "#!/bin/sh\n", "llama-server": "#!/bin/sh\necho ' --slot-save-path PATH'\n"} {
		if err := os.WriteFile(filepath.Join(resources, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ollamaHere(t) // for the shim
	code, out, errs := shimCall("install", "--dry-run", "--ollama", filepath.Join(resources, "ollama"), "--group", groupName(t),
		"--slot-dir", filepath.Join(dir, "slots"), "--run-dir", filepath.Join(dir, "run"))
	if code != ExitDone || !strings.Contains(out, "signature") || !strings.Contains(out, "--ollama-binary "+resources) {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}
