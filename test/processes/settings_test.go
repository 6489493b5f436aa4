package processes

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/internal/ollama/ollamatest"
	"tandem/internal/protocol"
)

func TestWorkerThatCannotStart(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	engine, away := s.engine(0), s.engine(0)
	away.Down()
	other := ollamatest.Start(t, ollamatest.Options{Model: "llama3:8b"})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "worker.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}

	for name, c := range map[string]struct {
		args []string // the last one of a flag counts
		code int
		says []string
	}{
		"engine unreachable":  {[]string{"--engine-url", away.URL(), "--start-timeout", "1s"}, 4, []string{away.URL(), "--engine-url", "ollama serve"}},
		"model not pulled":    {[]string{"--engine-url", other.URL()}, 1, []string{other.URL(), "ollama pull " + model}},
		"NATS unreachable":    {[]string{"--nats", "nats://127.0.0.1:1"}, 4, []string{"nats://127.0.0.1:1", "--nats", "TANDEM_NATS"}},
		"port in use":         {[]string{"--http", taken.Addr().String()}, 2, []string{taken.Addr().String(), "--http"}},
		"unknown flag":        {[]string{"--modle", model}, 2, []string{"--modle", "--help"}},
		"bad value":           {[]string{"--slots", "many"}, 2, []string{"--slots", "many"}},
		"value out of range":  {[]string{"--slots", "0"}, 2, []string{"slots is 0", "1 to 256"}},
		"engine of no kind":   {[]string{"--engine", "abacus"}, 2, []string{"abacus", "ollama", "llamacpp"}},
		"no such file":        {[]string{"--config", "/nowhere/worker.yaml"}, 2, []string{"/nowhere/worker.yaml"}},
		"unknown key in file": {[]string{"--config", file("modle: x\n")}, 2, []string{`"modle"`, "model-file"}},
		"file is no YAML":     {[]string{"--config", file("slots: [")}, 2, []string{"configuration file"}},
		"bad value in file":   {[]string{"--config", file("slots: many\n")}, 2, []string{"slots", "many"}},
		"no setting in file":  {[]string{"--config", file("print-config: true\n")}, 2, []string{"print-config"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--model", model, "--engine-url", engine.URL(), "--http", "127.0.0.1:0"}, c.args...)
			p := start(t, s.env(), "prefill-worker", args...)
			p.exits(c.code)
			p.said(c.says...)
			if n := strings.Count(p.stderr.String(), c.says[0]); n > 2 {
				t.Errorf("%q was said %d times", c.says[0], n)
			}
		})
	}
}

// A worker that is stopped while it waits for its engine was stopped, and did not fail.
func TestWorkerIsStoppedWhileItStarts(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	away := s.engine(0)
	away.Down()
	p := start(t, s.env(), "decode-worker", "--model", model, "--engine-url", away.URL(), "--http", "127.0.0.1:0")
	p.says(`"msg":"engine is down"`)
	p.terminate()
	p.exits(0)
}

// Flags win over the environment, which wins over the file, which wins over the default.
func TestSettingsOfAWorker(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := filepath.Join(home, "worker.yaml")
	file := "model: gpt-oss:120b\nslots: 2\nnum-ctx: 4096\nthreads: 2\nmachine: \"007\"\ndrain-limit: 90s\n"
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + home, "TANDEM_SLOTS=3", "TANDEM_NUM_CTX=8192", "TANDEM_CONFIG=" + path}
	printed := start(t, env, string(protocol.RoleDecode)+"-worker", "--num-ctx", "16384", "--engine-url", "http://127.0.0.1:1", "--print-config")
	printed.exits(0)
	effective := printed.stdout.String()
	for _, want := range []string{
		"model: gpt-oss:120b\n", "drain-limit: 1m30s\n", "threads: 2\n", "machine: \"007\"\n", // file
		"slots: 3\n",                                     // environment
		"num-ctx: 16384\n",                               // flag
		"http: 127.0.0.1:8001\n", "start-timeout: 30s\n", // default
	} {
		if !strings.Contains("\n"+effective, "\n"+want) {
			t.Errorf("want %q in\n%s", want, effective)
		}
	}

	// What is printed is such a file.
	if err := os.WriteFile(path, []byte(effective), 0o600); err != nil {
		t.Fatal(err)
	}
	again := start(t, []string{"HOME=" + home}, "decode-worker", "--config", path, "--print-config")
	again.exits(0)
	if again.stdout.String() != effective {
		t.Errorf("printed\n%s\nand read again\n%s", effective, again.stdout.String())
	}
}
