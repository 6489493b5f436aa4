package shim_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tandem/internal/shim"
	"tandem/internal/standin/standintest"
)

// options install for one user, with folders of the test.
func options(t *testing.T) shim.InstallOptions {
	t.Helper()
	dir := t.TempDir()
	return shim.InstallOptions{
		Shim: standintest.Shim(t), SlotDir: filepath.Join(dir, "slots"), RunDir: filepath.Join(dir, "run"), Group: shim.NoGroup,
	}
}

func look(t *testing.T, f fake) *shim.Installation {
	t.Helper()
	in, err := shim.Look(f.command)
	must(t, err)
	if in.Binary != f.binary || in.Library != f.library || in.Layout != f.layout {
		t.Fatalf("found %+v, want %+v", in, f)
	}
	return in
}

func wantState(t *testing.T, in *shim.Installation, runDir string, want shim.State) shim.Status {
	t.Helper()
	s, err := in.Status(runDir)
	if err != nil || s.State != want {
		t.Fatalf("status %+v, %v; want %q", s, err, want)
	}
	return s
}

// From nothing over an upgrade back to nothing, with a real Ollama that works all the time.
func TestInstalledShimServesARealOllama(t *testing.T) {
	models := models(t)
	for _, f := range fakes(t) {
		t.Run(string(f.layout), func(t *testing.T) {
			in, o := look(t, f), options(t)
			before := tree(t, f.library)
			wantState(t, in, o.RunDir, shim.Absent)
			url, stop := serve(t, f.command, models)
			text := generate(t, url)
			stop()

			done, err := in.Install(t.Context(), o)
			if err != nil || len(done) == 0 {
				t.Fatalf("install: %q, %v", done, err)
			}
			if s := wantState(t, in, o.RunDir, shim.Installed); s.Config.SlotDir != o.SlotDir || s.Config.RunDir != o.RunDir || s.Program != f.server() {
				t.Errorf("status %+v", s)
			}
			url, stop = serve(t, f.command, models)
			if again := generate(t, url); again != text {
				t.Errorf("with the shim it writes %q, without %q", again, text)
			}
			savesSlots(t, o.RunDir, o.SlotDir)

			// A new version puts its own server there, while the old one runs.
			write(t, f.server()+".new", append(read(t, f.server()+".real"), "# a newer version\n"...), 0o755)
			must(t, os.Rename(f.server()+".new", f.server()))
			upgraded := read(t, f.server())
			wantState(t, in, o.RunDir, shim.Replaced)
			if _, err := in.Install(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			wantState(t, in, o.RunDir, shim.Installed)
			if real := read(t, f.server()+".real"); string(real) != string(upgraded) {
				t.Errorf("the real server is %q, want the newer version", real)
			}
			stop()

			if done, err := in.Remove(o.RunDir, false); err != nil || len(done) == 0 {
				t.Fatalf("remove: %q, %v", done, err)
			}
			wantState(t, in, o.RunDir, shim.Absent)
			if b := read(t, f.server()); string(b) != string(upgraded) {
				t.Errorf("the server is %q, want %q", b, upgraded)
			}
			for _, dir := range []string{o.SlotDir, o.RunDir} {
				if _, err := os.Stat(dir); !os.IsNotExist(err) {
					t.Errorf("folder %s: %v; want it gone", dir, err)
				}
			}
			write(t, f.server(), start(standintest.Engines(t).LlamaServer), 0o755)
			sameTree(t, tree(t, f.library), before)
			url, stop = serve(t, f.command, models)
			if again := generate(t, url); again != text {
				t.Errorf("after removal it writes %q, before %q", again, text)
			}
			stop()
		})
	}
}

func TestRemoveRestoresByteForByte(t *testing.T) {
	for _, f := range fakes(t) {
		in, o := look(t, f), options(t)
		before := tree(t, f.root)
		for range 2 {
			if _, err := in.Install(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if _, err := in.Remove(o.RunDir, false); err != nil {
				t.Fatal(err)
			}
			sameTree(t, tree(t, f.root), before)
		}
		if done, err := in.Remove(o.RunDir, false); err != nil || done != nil {
			t.Errorf("removed what is not there: %q, %v", done, err)
		}
	}
}

func TestInstallTwiceDoesNothingAndChangesAreTakenOver(t *testing.T) {
	f := fakes(t)[0]
	in, o := look(t, f), options(t)
	dry := o
	dry.DryRun = true
	before := tree(t, f.root)
	would, err := in.Install(t.Context(), dry)
	must(t, err)
	sameTree(t, tree(t, f.root), before)
	if _, err := os.Stat(o.RunDir); !os.IsNotExist(err) {
		t.Errorf("a dry run made %s", o.RunDir)
	}
	done, err := in.Install(t.Context(), o)
	if err != nil || !slices.Equal(done, would) {
		t.Errorf("did %q, %v; said that it would %q", done, err, would)
	}
	installed := tree(t, f.root)
	if done, err := in.Install(t.Context(), o); err != nil || done != nil {
		t.Errorf("the second time it did %q, %v", done, err)
	}
	sameTree(t, tree(t, f.root), installed)

	// Other folders, for two users.
	moved := o
	moved.SlotDir, moved.Group = filepath.Join(t.TempDir(), "elsewhere"), os.Getgid()
	if _, err := in.Install(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	if s := wantState(t, in, o.RunDir, shim.Installed); s.Config.SlotDir != moved.SlotDir || !s.Config.Shared {
		t.Errorf("configuration %+v, want shared and %s", s.Config, moved.SlotDir)
	}
	for _, dir := range []string{moved.SlotDir, moved.RunDir} {
		if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|os.ModeSetgid|0o770 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}

	// A new version of the shim.
	write(t, f.server(), append(read(t, o.Shim), 0), 0o755)
	wantState(t, in, o.RunDir, shim.Installed)
	if done, err := in.Install(t.Context(), moved); err != nil || len(done) != 1 {
		t.Errorf("to bring the shim up to date it did %q, %v; want one step", done, err)
	}

	would, err = in.Remove(o.RunDir, true)
	must(t, err)
	wantState(t, in, o.RunDir, shim.Installed)
	if done, err := in.Remove(o.RunDir, false); err != nil || !slices.Equal(done, would) {
		t.Errorf("did %q, %v; said that it would %q", done, err, would)
	}
	sameTree(t, tree(t, f.root), before)
}

// Ollama's own script removes the whole library folder first.
func TestStatusKnowsAnUpgradeThatLeftNothing(t *testing.T) {
	f := fakes(t)[0]
	in, o := look(t, f), options(t)
	if _, err := in.Install(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	real := read(t, f.server()+".real")
	must(t, os.RemoveAll(f.library))
	must(t, os.Mkdir(f.library, 0o755))
	write(t, f.server(), real, 0o755)
	if s := wantState(t, in, o.RunDir, shim.Replaced); s.Config.SlotDir != o.SlotDir {
		t.Errorf("status %+v, want the folders that it had", s)
	}
	wantState(t, in, t.TempDir(), shim.Absent)
	if _, err := in.Remove(o.RunDir, false); err != nil {
		t.Fatal(err)
	}
	wantState(t, in, o.RunDir, shim.Absent)
	if b := read(t, f.server()); string(b) != string(real) {
		t.Errorf("the server is %q now", b)
	}
}

func TestAServerThatIsALinkStaysOne(t *testing.T) {
	f := fakes(t)[0]
	must(t, os.Rename(f.server(), f.server()+"-0.34"))
	must(t, os.Symlink("llama-server-0.34", f.server()))
	in, o := look(t, f), options(t)
	before := tree(t, f.root)
	if _, err := in.Install(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(f.server() + ".real"); err != nil || to != "llama-server-0.34" {
		t.Errorf("the real server leads to %q, %v", to, err)
	}
	if _, err := in.Remove(o.RunDir, false); err != nil {
		t.Fatal(err)
	}
	sameTree(t, tree(t, f.root), before)
}

func TestInstallRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, f fake, in *shim.Installation, o shim.InstallOptions)
		says  string
	}{
		"a file of that name by somebody else": {func(t *testing.T, f fake, _ *shim.Installation, _ shim.InstallOptions) {
			write(t, f.server()+".real", []byte("mine"), 0o644)
		}, "Tandem did not make"},
		"the real server is lost": {func(t *testing.T, f fake, in *shim.Installation, o shim.InstallOptions) {
			_, err := in.Install(t.Context(), o)
			must(t, err)
			must(t, os.Remove(f.server()+".real"))
		}, "install Ollama again"},
		"a server that cannot save slots": {func(t *testing.T, f fake, _ *shim.Installation, _ shim.InstallOptions) {
			write(t, f.server(), []byte("#!/bin/sh\necho '--model FILE'\n"), 0o755)
		}, "--slot-save-path"},
		"a server that does not run": {func(t *testing.T, f fake, _ *shim.Installation, _ shim.InstallOptions) {
			write(t, f.server(), []byte("#!/bin/sh\necho no such library >&2; exit 127\n"), 0o755)
		}, "no such library"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fakes(t)[0]
			in, o := look(t, f), options(t)
			tt.spoil(t, f, in, o)
			before := tree(t, f.library)
			done, err := in.Install(t.Context(), o)
			if err == nil || done != nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("did %q, %v; want nothing, and an error with %q", done, err, tt.says)
			}
			sameTree(t, tree(t, f.library), before)
		})
	}
}

func TestInstallSaysThatItNeedsAnAdministrator(t *testing.T) {
	f := fakes(t)[0]
	in, o := look(t, f), options(t)
	write(t, f.server(), []byte("#!/bin/sh\necho ' --slot-save-path PATH'\n"), 0o755)
	write(t, filepath.Join(f.root, shim.Name), read(t, o.Shim), 0o755)
	o.Shim = filepath.Join(f.root, shim.Name)
	must(t, os.Chmod(f.library, 0o555))
	defer func() { must(t, os.Chmod(f.library, 0o755)) }()
	must(t, os.Chmod(filepath.Dir(f.root), 0o755))
	if os.Geteuid() == 0 {
		must(t, syscall.Setreuid(-1, 65534))
		defer func() { must(t, syscall.Setreuid(-1, 0)) }()
	}
	done, err := in.Install(t.Context(), o)
	if err == nil || done != nil || !strings.Contains(err.Error(), "with sudo") {
		t.Errorf("did %q, %v; want nothing, and an error with the remedy", done, err)
	}
}

func TestLookSaysWhatIsMissing(t *testing.T) {
	old := filepath.Join(t.TempDir(), "ollama")
	write(t, old, []byte("#!/bin/sh\n"), 0o755)
	if _, err := shim.Look(old); err == nil || !strings.Contains(err.Error(), "older than 0.30") {
		t.Errorf("an Ollama without llama-server: %v", err)
	}
	if _, err := shim.Look(filepath.Join(t.TempDir(), "ollama")); err == nil {
		t.Error("found an Ollama that is not there")
	}
	t.Setenv("PATH", filepath.Dir(fakes(t)[0].command))
	if in, err := shim.Look(""); err != nil || in.Layout != shim.Package {
		t.Errorf("in PATH: %+v, %v", in, err)
	}
}

// A configuration that was spoilt is written anew; the shim itself goes without one.
func TestInstallRepairsAConfiguration(t *testing.T) {
	f := fakes(t)[0]
	in, o := look(t, f), options(t)
	_, err := in.Install(t.Context(), o)
	must(t, err)
	config := f.server() + ".tandem.json"
	for _, spoil := range []func() error{
		func() error { return os.Remove(config) },
		func() error { return os.WriteFile(config, []byte("{"), 0o644) },
	} {
		must(t, spoil())
		if _, err := in.Status(o.RunDir); err == nil || !strings.Contains(err.Error(), "run install again") {
			t.Errorf("status: %v", err)
		}
		if done, err := in.Install(t.Context(), o); err != nil || len(done) != 1 {
			t.Errorf("did %q, %v; want one step", done, err)
		}
		wantState(t, in, o.RunDir, shim.Installed)
	}
}
