package shim_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tandem/internal/shim"
)

// other is a user who is not root.
const other = 65534

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("what root refuses can be seen only as root")
	}
}

// shared is options for root and another user.
func shared(t *testing.T) shim.InstallOptions {
	t.Helper()
	o := options(t)
	o.Group = os.Getgid()
	return o
}

// wantRefusal installs, which must change nothing and say why.
func wantRefusal(t *testing.T, f fake, o shim.InstallOptions, says string) {
	t.Helper()
	before := tree(t, f.root)
	for _, o.DryRun = range []bool{true, false} {
		done, err := look(t, f).Install(t.Context(), o)
		if err == nil || done != nil || !strings.Contains(err.Error(), says) {
			t.Errorf("dry run %t: did %q, %v; want nothing, and an error with %q", o.DryRun, done, err, says)
		}
	}
	sameTree(t, tree(t, f.root), before)
}

// A folder that is there already may be anybody's: it must not be opened to a group.
func TestInstallRefusesFoldersThatAreNotItsOwn(t *testing.T) {
	file := func(t *testing.T, dir string, mode os.FileMode) {
		must(t, os.Mkdir(dir, mode))
		write(t, filepath.Join(dir, "a file"), nil, 0o600)
	}
	for name, tt := range map[string]struct {
		root  bool
		make  func(t *testing.T, dir string)
		says  string
		below string // the folder is this far below the one that was made
	}{
		"not empty": {false, func(t *testing.T, dir string) { file(t, dir, 0o755) }, "not empty", ""},
		"a link":    {false, func(t *testing.T, dir string) { must(t, os.Symlink(t.TempDir(), dir)) }, "link", ""},
		"a file":    {false, func(t *testing.T, dir string) { write(t, dir, nil, 0o600) }, "file", ""},
		"another's": {true, func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir, 0o700))
			must(t, os.Chown(dir, other, -1))
		}, "belongs to user 65534", ""},
		"in another's folder": {true, func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir, 0o755))
			must(t, os.Chown(dir, other, -1))
		}, "belongs to user 65534", "of/it"},
		"in a folder that the group may write": {true, func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir, 0o755))
			must(t, os.Chmod(dir, 0o775))
		}, "may be written by others", "it"},
		"behind another's link": {true, func(t *testing.T, dir string) {
			must(t, os.Symlink(t.TempDir(), dir))
			must(t, os.Lchown(dir, other, -1))
		}, "belongs to user 65534", "it"},
		"behind a link into another's folder": {true, func(t *testing.T, dir string) {
			theirs := t.TempDir()
			must(t, os.Symlink(t.TempDir(), filepath.Join(theirs, "link")))
			must(t, os.Chown(theirs, other, -1))
			must(t, os.Symlink(filepath.Join(theirs, "link"), dir))
		}, "belongs to user 65534", "it"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.root {
				asRoot(t)
			}
			f, o := fakes(t)[0], shared(t)
			tt.make(t, o.SlotDir)
			before := tree(t, filepath.Dir(o.SlotDir))
			o.SlotDir = filepath.Join(o.SlotDir, tt.below)
			wantRefusal(t, f, o, tt.says)
			wantRefusal(t, f, o, "--slot-dir")
			sameTree(t, tree(t, filepath.Dir(o.RunDir)), before)
		})
	}
}

// Root's own links, as /var on macOS, and what is empty or as it should be already will do. Everything is made so that
// Ollama's user can read it.
func TestInstallTakesFoldersThatAreItsOwn(t *testing.T) {
	f, o := fakes(t)[0], shared(t)
	base := filepath.Dir(o.SlotDir)
	must(t, os.Mkdir(filepath.Join(base, "real"), 0o755))
	must(t, os.Symlink("../"+filepath.Base(base)+"/real", filepath.Join(base, "link")))
	o.SlotDir = filepath.Join(base, "link", "deep", "slots")
	must(t, os.Mkdir(o.RunDir, 0o755))
	defer syscall.Umask(syscall.Umask(0o077))
	in := look(t, f)
	if _, err := in.Install(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{
		o.SlotDir: os.ModeDir | os.ModeSetgid | 0o770, o.RunDir: os.ModeDir | os.ModeSetgid | 0o770,
		filepath.Dir(o.SlotDir): os.ModeDir | 0o755, f.server() + ".tandem.json": 0o644,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want mode %v", path, info.Mode(), err, want)
		}
	}
	write(t, filepath.Join(o.SlotDir, "a.state"), nil, 0o600)
	if done, err := in.Install(t.Context(), o); err != nil || done != nil {
		t.Errorf("the second time it did %q, %v", done, err)
	}
}

// Whoever writes the run folder must not say what root does at the next install.
func TestNotesOfOthersAreNotTrusted(t *testing.T) {
	f, o := fakes(t)[0], shared(t)
	in := look(t, f)
	_, err := in.Install(t.Context(), o)
	must(t, err)
	for _, name := range []string{".tandem.json", ".real"} { // an upgrade leaves nothing
		must(t, os.Rename(f.server()+name, f.server()+".was"))
	}
	must(t, os.Rename(f.server()+".was", f.server()))
	victim := t.TempDir()
	forged := fmt.Appendf(nil, `{"library": %q, "config": {"slot_dir": %q, "run_dir": %q, "shared": true}}`, in.Library, victim, o.RunDir)
	write(t, filepath.Join(o.RunDir, "installed.json"), forged, 0o644)
	if s := wantState(t, in, o.RunDir, shim.Replaced); s.Config.SlotDir != o.SlotDir {
		t.Errorf("the states' folder is %s, want %s as it was", s.Config.SlotDir, o.SlotDir)
	}

	asRoot(t)
	note := o.RunDir + ".installed.json"
	write(t, note, forged, 0o644)
	must(t, os.Chown(note, other, -1))
	wantState(t, in, o.RunDir, shim.Absent)
	must(t, os.Chown(note, 0, -1))
	must(t, os.Chmod(note, 0o664))
	wantState(t, in, o.RunDir, shim.Absent)
	must(t, os.Chmod(note, 0o644))
	must(t, os.Chown(filepath.Dir(note), other, -1))
	wantState(t, in, o.RunDir, shim.Absent)
	must(t, os.Chown(filepath.Dir(note), 0, -1))
	wantState(t, in, o.RunDir, shim.Replaced)
}

func TestRootRunsNoProgramsOfOthers(t *testing.T) {
	asRoot(t)
	for name, tt := range map[string]struct {
		give func(f fake) error
		says string
	}{
		"the server":           {func(f fake) error { return os.Chown(f.server(), other, -1) }, "llama-server belongs to user 65534"},
		"a server to write to": {func(f fake) error { return os.Chmod(f.server(), 0o775) }, "llama-server may be written by others"},
		"the library folder":   {func(f fake) error { return os.Chown(f.library, other, -1) }, "belongs to user 65534"},
		"a folder above":       {func(f fake) error { return os.Chmod(f.root, 0o777) }, "may be written by others"},
		"another's library":    {func(f fake) error { return os.Chown(filepath.Join(f.library, "libmtmd.txt"), other, -1) }, "libmtmd.txt belongs"},
		"where all may add one": {func(f fake) error {
			return os.Chmod(filepath.Join(f.library, "vulkan"), os.ModeSticky|0o777)
		}, "vulkan may be written by others"},
		"a library elsewhere": {func(f fake) error {
			elsewhere := filepath.Join(f.root, "elsewhere")
			return errors.Join(os.Rename(f.library, elsewhere), os.Chown(filepath.Join(elsewhere, "libmtmd.txt"), other, -1), os.Symlink(elsewhere, f.library))
		}, "libmtmd.txt belongs"},
		"a server elsewhere": {func(f fake) error {
			elsewhere := filepath.Join(f.root, "elsewhere")
			return errors.Join(os.Mkdir(elsewhere, 0o755), os.Rename(f.server(), filepath.Join(elsewhere, "server")),
				os.Symlink(filepath.Join(elsewhere, "server"), f.server()), os.Chown(elsewhere, other, -1))
		}, "elsewhere belongs to user 65534"},
	} {
		t.Run(name, func(t *testing.T) {
			f, o := fakes(t)[0], shared(t)
			ran := filepath.Join(t.TempDir(), "ran")
			write(t, f.server(), []byte("#!/bin/sh\ntouch '"+ran+"'\necho ' --slot-save-path PATH'\n"), 0o755)
			must(t, tt.give(f))
			wantRefusal(t, f, o, tt.says)
			wantRefusal(t, f, o, "as the user whose Ollama it is")
			if _, err := os.Stat(ran); err == nil {
				t.Error("root ran it")
			}
			if done, err := look(t, f).Remove(o.RunDir, false); err == nil || done != nil {
				t.Errorf("removal did %q, %v; want nothing, and an error", done, err)
			}
		})
	}
}

// What stands in the place of the run folder later is not emptied.
func TestRootRemovesNothingBehindLinks(t *testing.T) {
	asRoot(t)
	for name, theirs := range map[string]bool{"the folder is a link": false, "it is in another's folder": true} {
		t.Run(name, func(t *testing.T) {
			f, o := fakes(t)[0], shared(t)
			in := look(t, f)
			_, err := in.Install(t.Context(), o)
			must(t, err)
			must(t, os.RemoveAll(o.RunDir))
			victim := o.RunDir
			if theirs {
				must(t, os.Mkdir(victim, 0o755))
				must(t, os.Chown(filepath.Dir(victim), other, -1))
			} else {
				victim = t.TempDir()
				must(t, os.Symlink(victim, o.RunDir))
			}
			leave(t, victim, shim.Record{PID: 4711, Host: "127.0.0.1", Port: 1, Model: "m"})
			if _, err := in.Remove(o.RunDir, false); err == nil {
				t.Error("removed it all")
			}
			if _, err := os.Stat(recordName(victim, 4711)); err != nil {
				t.Error(err)
			}
			if b := read(t, f.server()); !strings.HasPrefix(string(b), "#!") {
				t.Error("the real server is not back")
			}
		})
	}
}
