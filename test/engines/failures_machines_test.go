package engines

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"tandem/internal/app"
	"tandem/internal/engine"
	"tandem/internal/llamacpp"
	"tandem/internal/ollama"
	"tandem/internal/shim"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// machine is a real engine into which a test can look, and which it can ask without a worker.
type machine struct {
	url    string
	dir    string // of its KV states
	slots  int
	direct engine.Engine                    // nil where only a worker knows the way to the engine
	flags  func(*app.WorkerFlags)           // of a worker beside it
	inner  func() (url string, process int) // the llama-server, likewise; its process is 0 where a new one could not take its place
}

func ollamaMachine(t *testing.T, spec tinymodel.Spec, slots int) *machine {
	t.Helper()
	o := standintest.StartOllama(t, standin.OllamaOptions{Models: map[string]tinymodel.Spec{model: spec}, NumParallel: slots})
	e, err := ollama.New(ollama.Options{URL: o.URL(), Model: model, NumCtx: 8192, NumThread: 1})
	return &machine{
		url: o.URL(), dir: o.SlotDir(), slots: slots, direct: opened(t, e, err),
		flags: func(f *app.WorkerFlags) { f.EngineURL, f.ShimRunDir = o.URL(), o.RunDir() },
		inner: func() (string, int) {
			list, err := shim.LiveAll(o.RunDir())
			if err != nil || len(list) == 0 {
				t.Fatalf("no llama-server inside Ollama: %v", err)
			}
			return fmt.Sprintf("http://127.0.0.1:%d", list[0].Port), list[0].PID
		},
	}
}

// llamaMachine is a llama-server that nobody starts again if it ends.
func llamaMachine(t *testing.T, spec tinymodel.Spec) *machine {
	t.Helper()
	dir, state := t.TempDir(), t.TempDir()
	url := standintest.StartLlamaServer(t, spec, "--slot-save-path", dir, "--no-kv-unified", "--cache-ram", "0", "--no-cache-idle-slots", "--jinja")
	e, err := llamacpp.New(llamacpp.Options{URL: url, Model: model, StateDir: state})
	direct := opened(t, e, err)
	if err := direct.Load(t.Context()); err != nil { // which computes the model file's digest, for the worker too
		t.Fatal(err)
	}
	return &machine{
		url: url, dir: dir, slots: 1, direct: direct,
		flags: func(f *app.WorkerFlags) {
			f.Engine, f.EngineURL, f.SlotDir, f.StateDir = "llamacpp", url, dir, state
		},
		inner: func() (string, int) { return url, 0 },
	}
}

// erase empties all slots.
func (m *machine) erase(t *testing.T) {
	t.Helper()
	url, _ := m.inner()
	for id := range m.slots {
		eraseSlot(t, url, id)
	}
}

func eraseSlot(t *testing.T, llamaServer string, id int) {
	t.Helper()
	resp, err := http.Post(fmt.Sprintf("%s/slots/%d?action=erase", llamaServer, id), "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Errorf("erase a slot: %v", err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("erase a slot: %s", resp.Status)
	}
}

// restart has Ollama start the llama-server inside again.
func (m *machine) restart(t *testing.T) {
	t.Helper()
	_, before := m.inner()
	resp, err := http.Post(m.url+"/api/generate", "application/json", strings.NewReader(`{"model": "`+model+`", "keep_alive": 0}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	m.ask(t, job("Again?", 0))
	if _, now := m.inner(); now == before {
		t.Error("the llama-server inside was not started again")
	}
}

// cold is the text of the last of these jobs, asked one after the other of an engine that has forgotten everything.
func (m *machine) cold(t *testing.T, list ...*jobs.Job) (text string) {
	t.Helper()
	m.erase(t)
	for _, j := range list {
		c := m.ask(t, j)
		if text = c.Text; c.CachedTokens > 16 {
			t.Errorf("%d tokens of what was to be computed from its beginning were cached", c.CachedTokens)
		}
	}
	return text
}

func (m *machine) ask(t *testing.T, j *jobs.Job) engine.Completion {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := m.direct.Generate(ctx, engine.RequestOf(j), func(jobs.Chunk) error { return nil })
	if err != nil {
		t.Fatalf("ask the engine itself: %v", err)
	}
	return c
}

// states are the names of the files in the folder of KV states, the youngest last.
func (m *machine) states(t *testing.T) []string {
	t.Helper()
	list, err := os.ReadDir(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
