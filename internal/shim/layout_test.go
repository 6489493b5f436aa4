package shim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem/internal/shim"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/internal/supervisor"
	"tandem/internal/tinymodel"
)

// fake is an Ollama as somebody else would have installed it, made of real programs.
type fake struct {
	layout  shim.Layout
	root    string
	command string // what is in PATH: the program or a link to it
	binary  string // the program itself
	library string
}

// fakes makes one of each layout.
func fakes(t *testing.T) []fake {
	t.Helper()
	list := []fake{
		{layout: shim.Package, command: "usr/local/bin/ollama", binary: "usr/local/bin/ollama", library: "usr/local/lib/ollama"},
		{layout: shim.Homebrew, command: "homebrew/bin/ollama", binary: "homebrew/Cellar/ollama/0.34.0/libexec/ollama", library: "homebrew/Cellar/ollama/0.34.0/libexec/lib/ollama"},
		{layout: shim.MacApp, command: "usr/local/bin/ollama", binary: "Applications/Ollama.app/Contents/Resources/ollama", library: "Applications/Ollama.app/Contents/Resources"},
	}
	for i := range list {
		list[i].make(t)
	}
	return list
}

func (f *fake) make(t *testing.T) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f.root = root
	for _, path := range []*string{&f.command, &f.binary, &f.library} {
		*path = filepath.Join(root, *path)
	}
	e := standintest.Engines(t)
	for _, dir := range []string{filepath.Dir(f.command), filepath.Dir(f.binary), filepath.Join(f.library, "vulkan")} {
		must(t, os.MkdirAll(dir, 0o755))
	}
	if os.Link(e.Ollama, f.binary) != nil {
		write(t, f.binary, read(t, e.Ollama), 0o755)
	}
	if f.command != f.binary {
		must(t, os.Symlink(f.binary, f.command))
	}
	// Scripts, since these programs come from elsewhere and find their libraries there.
	write(t, f.server(), start(e.LlamaServer), 0o755)
	write(t, filepath.Join(f.library, "llama-quantize"), start(e.LlamaQuantize), 0o755)
	write(t, filepath.Join(f.library, "libmtmd.txt"), []byte("another file of the library"), 0o644)
}

func (f *fake) server() string { return filepath.Join(f.library, "llama-server") }

// start is a script that starts a program.
func start(program string) []byte { return fmt.Appendf(nil, "#!/bin/sh\nexec '%s' \"$@\"\n", program) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path string, b []byte, mode fs.FileMode) {
	t.Helper()
	must(t, os.WriteFile(path, b, mode))
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return b
}

// tree is what is in a folder: of each file its mode and content, of each link where it leads.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, content := strings.TrimPrefix(path, dir), ""
		switch {
		case d.Type() == fs.ModeSymlink:
			content, err = os.Readlink(path)
		case d.Type().IsRegular() && info.Size() < 1<<20:
			content = string(read(t, path))
		}
		files[name] = fmt.Sprint(info.Mode(), " ", content)
		return err
	}))
	return files
}

func sameTree(t *testing.T, got, want map[string]string) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	for name := range got {
		if got[name] != want[name] {
			t.Errorf("%s is now %.80q, was %.80q", name, got[name], want[name])
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is gone", name)
		}
	}
}

// modelName is what the model that serve serves is called.
const modelName = standin.CodeModel

// models makes a folder of models as Ollama keeps them.
func models(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := standin.StartOllama(t.Context(), standin.OllamaOptions{
		Engines: standintest.Engines(t), Dir: dir, Models: map[string]tinymodel.Spec{modelName: tinymodel.Tiny(tinymodel.BPE)},
	})
	must(t, err)
	must(t, s.Stop())
	return filepath.Join(dir, "models")
}

// serve runs `ollama serve` until the test ends or calls stop.
func serve(t *testing.T, program, models string) (url string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	url = "http://" + l.Addr().String()
	l.Close()
	var log bytes.Buffer
	p, err := supervisor.Start(program, []string{"serve"}, "", append(os.Environ(), "HOME="+t.TempDir(), "OLLAMA_HOST="+url,
		"OLLAMA_MODELS="+models, "OLLAMA_NO_CLOUD=1", "OLLAMA_FLASH_ATTENTION=1", "OLLAMA_NUM_PARALLEL=1"), &log)
	must(t, err)
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("log of %s:\n%s", program, log.String())
		}
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if resp, err := http.Get(url + "/api/version"); err == nil {
			resp.Body.Close()
			return url, p.Stop
		}
		select {
		case <-tick.C:
		case <-p.Exited():
			t.Fatalf("ollama ended: %v", p.Err())
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// generate has the model loaded and returns its text.
func generate(t *testing.T, url string) string {
	t.Helper()
	var a struct {
		Response  string `json:"response"`
		EvalCount int    `json:"eval_count"`
	}
	post(t, url+"/api/generate", map[string]any{
		"model": modelName, "prompt": "x <- c(1, 2, 3)\nmean(x)", "stream": false, "truncate": false, "shift": false,
		"options": map[string]any{"temperature": 0, "num_predict": 8, "num_thread": 1, "num_ctx": 2048},
	}, &a)
	if a.EvalCount != 8 {
		t.Fatalf("generated %d tokens, want 8", a.EvalCount)
	}
	return a.Response
}

func post(t *testing.T, url string, body, into any) {
	t.Helper()
	b, err := json.Marshal(body)
	must(t, err)
	resp, err := http.Post(url, "application/json", bytes.NewReader(b))
	must(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", url, resp.Status, answer)
	}
	must(t, json.Unmarshal(answer, into))
}

// savesSlots checks that one llama-server lives, was recorded and writes a slot to a file.
func savesSlots(t *testing.T, runDir, slotDir string) {
	t.Helper()
	all, err := shim.LiveAll(runDir)
	if err != nil || len(all) != 1 {
		t.Fatalf("live llama-servers %+v, %v; want one", all, err)
	}
	r, err := shim.Live(runDir, all[0].Model)
	if err != nil || r == nil || r.PID != all[0].PID || r.SlotDir != slotDir {
		t.Fatalf("live %+v, %v; want process %d and slot folder %s", r, err, all[0].PID, slotDir)
	}
	var saved struct {
		N int `json:"n_saved"`
	}
	post(t, fmt.Sprintf("http://%s:%d/slots/0?action=save", r.Host, r.Port), map[string]string{"filename": "a.state"}, &saved)
	state := filepath.Join(slotDir, "a.state")
	if _, err := os.Stat(state); err != nil || saved.N == 0 {
		t.Errorf("saved %d tokens: %v", saved.N, err)
	}
	must(t, os.Remove(state))
}

// TestOllamaHasNoKey holds docs/OPERATIONS.md to what it says: a server inside that asks for a key locks out Ollama itself. Once this
// fails, the shim can add one.
func TestOllamaHasNoKey(t *testing.T) {
	t.Setenv("LLAMA_API_KEY", "key") // which Ollama hands on to its server
	url, _ := serve(t, fakes(t)[0].command, models(t))
	body := fmt.Sprintf(`{"model": %q, "prompt": "x", "stream": false, "options": {"num_predict": 1, "num_thread": 1}}`, modelName)
	resp, err := http.Post(url+"/api/generate", "application/json", strings.NewReader(body))
	must(t, err)
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode < 400 || !strings.Contains(string(answer), "API Key") {
		t.Errorf("Ollama answers %s, %s, %v; want that it lacks the key", resp.Status, answer, err)
	}
}
