package shim_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/internal/shim"
	"tandem/internal/standin/standintest"
)

func overlay(t *testing.T, dir, ollama string) (program string, o shim.OverlayOptions) {
	t.Helper()
	o = shim.OverlayOptions{Ollama: ollama, Shim: standintest.Shim(t), SlotDir: filepath.Join(dir, "slots"), RunDir: filepath.Join(dir, "run")}
	program, err := shim.Overlay(t.Context(), dir, o)
	must(t, err)
	return program, o
}

func TestOverlayServesFromEachLayoutWithoutTouchingIt(t *testing.T) {
	models := models(t)
	for _, f := range fakes(t) {
		t.Run(string(f.layout), func(t *testing.T) {
			write(t, filepath.Join(f.library, "vulkan", "libsome.txt"), []byte("a backend"), 0o644)
			before := tree(t, f.root)
			dir := t.TempDir()
			program, o := overlay(t, dir, f.command)
			url, stop := serve(t, program, models)
			text := generate(t, url)
			savesSlots(t, o.RunDir, o.SlotDir)
			stop()
			sameTree(t, tree(t, f.root), before)
			if b := read(t, filepath.Join(dir, "lib", "ollama", "vulkan", "libsome.txt")); string(b) != "a backend" {
				t.Errorf("a backend's library is %q in the overlay", b)
			}
			if all, err := shim.LiveAll(o.RunDir); err != nil || len(all) != 0 {
				t.Errorf("after the end: %+v, %v; want none", all, err)
			}

			url, stop = serve(t, f.command, models)
			if own := generate(t, url); own != text {
				t.Errorf("from the overlay it writes %q, by itself %q", text, own)
			}
			stop()
		})
	}
}

func TestOverlayFollowsAnUpgrade(t *testing.T) {
	f := fakes(t)[0]
	dir := t.TempDir()
	program, _ := overlay(t, dir, f.command)
	first := tree(t, dir)
	overlay(t, dir, f.command)
	sameTree(t, tree(t, dir), first)

	must(t, os.Remove(filepath.Join(f.library, "libmtmd.txt")))
	write(t, filepath.Join(f.library, "libnew.txt"), []byte("new"), 0o644)
	write(t, f.binary+".new", append(read(t, f.binary), 0), 0o755)
	must(t, os.Rename(f.binary+".new", f.binary))
	overlay(t, dir, f.command)
	if _, err := os.Lstat(filepath.Join(dir, "lib", "ollama", "libmtmd.txt")); !os.IsNotExist(err) {
		t.Errorf("a file that the new version does not have: %v", err)
	}
	if b := read(t, filepath.Join(dir, "lib", "ollama", "libnew.txt")); string(b) != "new" {
		t.Errorf("the new version's file is %q", b)
	}
	if a, b := read(t, program), read(t, f.binary); len(a) != len(b) {
		t.Error("the overlay has the old version's program")
	}
}

// Its own shim would leave the records elsewhere.
func TestOverlayOfAnOllamaWithTheShimHasTheRealServer(t *testing.T) {
	f := fakes(t)[0]
	in, o := look(t, f), options(t)
	_, err := in.Install(t.Context(), o)
	must(t, err)
	dir := t.TempDir()
	overlay(t, dir, f.command)
	real, err := os.Readlink(filepath.Join(dir, "lib", "ollama", "llama-server.real"))
	if err != nil || real != f.server()+".real" {
		t.Errorf("the overlay's real server is %s, %v; want %s", real, err, f.server()+".real")
	}
	if b := read(t, filepath.Join(dir, "lib", "ollama", "llama-server.tandem.json")); !strings.Contains(string(b), dir) {
		t.Errorf("configuration %s, want folders of its own", b)
	}
}

func TestOverlayErrors(t *testing.T) {
	f := fakes(t)[0]
	for says, change := range map[string]func(o *shim.OverlayOptions){
		"find ollama":          func(o *shim.OverlayOptions) { o.Ollama = filepath.Join(t.TempDir(), "none") },
		"real llama-server":    func(o *shim.OverlayOptions) { o.LlamaServer = filepath.Join(t.TempDir(), "none") },
		"no such file":         func(o *shim.OverlayOptions) { o.Shim = filepath.Join(t.TempDir(), "none") },
		"does not know --slot": func(o *shim.OverlayOptions) { o.LlamaServer = "/bin/true" },
	} {
		dir := t.TempDir()
		o := shim.OverlayOptions{Ollama: f.command, Shim: standintest.Shim(t), SlotDir: filepath.Join(dir, "slots"), RunDir: filepath.Join(dir, "run")}
		change(&o)
		if _, err := shim.Overlay(t.Context(), dir, o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want an error with %q", err, says)
		}
	}
}

func TestFind(t *testing.T) {
	program := standintest.Shim(t)
	t.Setenv(shim.EnvProgram, "")
	t.Setenv("PATH", "")
	if _, err := shim.Find(); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("%v; want the remedy", err)
	}
	t.Setenv("PATH", filepath.Dir(program))
	if path, err := shim.Find(); err != nil || path != program {
		t.Errorf("in PATH: %s, %v; want %s", path, err, program)
	}
	self, err := os.Executable()
	must(t, err)
	beside := filepath.Join(filepath.Dir(self), shim.Name)
	write(t, beside, read(t, program), 0o755)
	defer os.Remove(beside)
	if path, err := shim.Find(); err != nil || path != beside {
		t.Errorf("beside this program: %s, %v; want %s", path, err, beside)
	}
	t.Setenv(shim.EnvProgram, "/bin/sh")
	if _, err := shim.Find(); err == nil || !strings.Contains(err.Error(), "is no llama-server-shim") {
		t.Errorf("%v; want a refusal of another program", err)
	}
	t.Setenv(shim.EnvProgram, program)
	if path, err := shim.Find(); err != nil || path != program {
		t.Errorf("named: %s, %v; want %s", path, err, program)
	}
}
