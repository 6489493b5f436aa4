package app

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/shim"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/internal/supervisor"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// ollamaHere makes an Ollama as a package installs it, and a folder of models, of which the environment tells as a user
// would.
func ollamaHere(t *testing.T) (program string) {
	t.Helper()
	e, dir := standintest.Engines(t), t.TempDir()
	s, err := standin.StartOllama(t.Context(), standin.OllamaOptions{
		Engines: e, Dir: dir, Models: map[string]tinymodel.Spec{standin.CodeModel: tinymodel.Tiny(tinymodel.BPE)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Setenv(shim.EnvProgram, standintest.Shim(t)) // before HOME changes, and with it where programs are cached
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Setenv("OLLAMA_MODELS", filepath.Join(dir, "models"))
	t.Setenv("OLLAMA_HOST", "192.0.2.1:1") // not to be obeyed
	t.Setenv("OLLAMA_NO_CLOUD", "1")

	root := t.TempDir()
	program = filepath.Join(root, "bin", "ollama")
	for path, content := range map[string]string{
		program: "#!/bin/sh\n", // replaced below
		filepath.Join(root, "lib", "ollama", "llama-server"):   "#!/bin/sh\nexec '" + e.LlamaServer + "' \"$@\"\n",
		filepath.Join(root, "lib", "ollama", "llama-quantize"): "#!/bin/sh\nexec '" + e.LlamaQuantize + "' \"$@\"\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(e.Ollama)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

// servedFlags are those of a worker that starts its Ollama itself.
func servedFlags(t *testing.T, program string) WorkerFlags {
	return WorkerFlags{
		Model: standin.CodeModel, Engine: "ollama", OllamaBinary: program, Slots: 2, NumCtx: 2048, Threads: 1,
		CacheType: "q8_0", StateDir: t.TempDir(), HTTP: "127.0.0.1:0", Machine: "here",
	}
}

func TestServedOllamaHandsStatesOverAndIsStartedAgain(t *testing.T) {
	flags := servedFlags(t, ollamaHere(t))
	if err := flags.complete(); err != nil {
		t.Fatal(err)
	}
	e, err := newEngine(flags, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	served := e.(*servedOllama).served

	// The same folder is not used twice: the records of one would be taken for the other's.
	other, err := newEngine(flags, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if again := other.(*servedOllama).served; again.runDir == served.runDir || again.url == served.url {
		t.Errorf("two servers at %s and %s with records in %s and %s", served.url, again.url, served.runDir, again.runDir)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}

	before := usable(t, e)
	if err := syscall.Kill(-before.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitForOther(t, served.supervisor, before.pid)
	after := usable(t, e)
	if after.server == before.server {
		t.Error("the llama-server of the killed Ollama is still in use")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if all, err := shim.LiveAll(served.runDir); err != nil || len(all) != 0 {
		t.Errorf("after the end %+v live, %v", all, err)
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(served.url, "http://")); err == nil {
		conn.Close()
		t.Error("after the end somebody still listens")
	}
	dir, lock, err := lockFolder(filepath.Dir(served.runDir))
	if err != nil || dir != filepath.Dir(served.runDir) {
		t.Errorf("its folder is not free after the end: %s, %v", dir, err)
	} else if err := lock.Close(); err != nil {
		t.Error(err)
	}
}

// running are the processes of one start.
type running struct {
	pid    int // of ollama serve
	server int // of its llama-server
}

// usable has the model loaded and checks that its states can be moved, as the flags say.
func usable(t *testing.T, e engine.Engine) running {
	t.Helper()
	served := e.(*servedOllama).served
	if err := served.supervisor.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := e.Describe(t.Context())
	if err != nil || d.KVTransfer == nil || !slices.Contains(d.Handover, jobs.KindState) {
		t.Fatalf("description %+v, %v; want one that hands states over", d, err)
	}
	if f := d.KVTransfer.Fingerprint; f.CacheK != "q8_0" || f.CacheV != "q8_0" || !f.FlashAttention {
		t.Errorf("fingerprint %+v, want q8_0 and flash attention", f)
	}
	all, err := shim.LiveAll(served.runDir)
	if err != nil || len(all) != 1 {
		t.Fatalf("live %+v, %v; want one", all, err)
	}
	if args := strings.Join(all[0].Args, " "); !strings.Contains(args, "-np 2 ") || !strings.Contains(args, "--no-cache-idle-slots") {
		t.Errorf("llama-server runs with %s", args)
	}
	return running{pid: served.supervisor.Status().PID, server: all[0].PID}
}

// waitForOther waits until another process is up than the one that was killed.
func waitForOther(t *testing.T, k *supervisor.Supervisor, pid int) {
	t.Helper()
	for {
		if err := k.Settled(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := k.Status(); s.Phase == supervisor.Up && s.PID != pid {
			return
		}
	}
}

func TestServedOllamaSaysWhyItDoesNotStart(t *testing.T) {
	program := ollamaHere(t)
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho the models cannot be read; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	e, err := newEngine(servedFlags(t, program), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	_ = e.(*servedOllama).served.supervisor.Settled(t.Context()) // Describe is to say it
	if _, err := e.Describe(t.Context()); jobs.CodeOf(err) != jobs.CodeEngineUnreachable || !strings.Contains(err.Error(), "the models cannot be read") {
		t.Errorf("%v; want the reason", err)
	}

	if _, err := newEngine(servedFlags(t, filepath.Join(t.TempDir(), "none")), slog.New(slog.DiscardHandler)); jobs.CodeOf(err) != jobs.CodeInvalid {
		t.Errorf("a program that is not there: %v", err)
	}
	t.Setenv(shim.EnvProgram, "/bin/sh")
	if _, err := newEngine(servedFlags(t, program), slog.New(slog.DiscardHandler)); jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), "make build") {
		t.Errorf("without the shim: %v", err)
	}
}

func TestOllamaEnvironment(t *testing.T) {
	user := []string{"HOME=/h", "OLLAMA_MODELS=/m", "OLLAMA_HOST=0.0.0.0", "OLLAMA_FLASH_ATTENTION=0", "OLLAMA_NUM_PARALLEL=9",
		"OLLAMA_KV_CACHE_TYPE=q4_0", "LLAMA_ARG_CTX_SIZE=1", "TANDEM_NKEY=/secret", "GGML_BACKEND_PATH=/b"}
	for _, tt := range []struct {
		cache string
		also  []string
		want  string
	}{
		{"", nil, "OLLAMA_KV_CACHE_TYPE=q4_0 OLLAMA_MODELS=/m OLLAMA_NOPRUNE=1 OLLAMA_NUM_PARALLEL=3"},
		{"f16", []string{"OLLAMA_NOPRUNE=0"}, "OLLAMA_KV_CACHE_TYPE=f16 OLLAMA_MODELS=/m OLLAMA_NOPRUNE=0 OLLAMA_NUM_PARALLEL=3"},
	} {
		got := ollamaEnvironment(append(user, tt.also...), WorkerFlags{Slots: 3, CacheType: tt.cache}, "127.0.0.1:7")
		want := strings.Fields("GGML_BACKEND_PATH=/b HOME=/h OLLAMA_FLASH_ATTENTION=1 OLLAMA_HOST=127.0.0.1:7 " + tt.want)
		if !slices.Equal(got, want) {
			t.Errorf("environment %q, want %q", got, want)
		}
	}
}

func TestFlagsOfAnOllamaOfOurOwn(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/c")
	for name, tt := range map[string]struct {
		change func(f *WorkerFlags)
		runDir string // "*" for any
		says   string // of the error; empty if it is fine
	}{
		"own":            {func(f *WorkerFlags) {}, "", ""},
		"and a URL":      {func(f *WorkerFlags) { f.EngineURL = "http://127.0.0.1:1" }, "", "without --engine-url"},
		"other engine":   {func(f *WorkerFlags) { f.Engine, f.ModelFile = "llamacpp", "/m" }, "", "--engine ollama"},
		"cache attached": {func(f *WorkerFlags) { f.OllamaBinary = "" }, "", "OLLAMA_KV_CACHE_TYPE"},
		"attached":       {func(f *WorkerFlags) { f.OllamaBinary, f.CacheType = "", "" }, "*", ""},
		"localhost":      {func(f *WorkerFlags) { f.OllamaBinary, f.CacheType, f.EngineURL = "", "", "http://localhost:1" }, "*", ""},
		"elsewhere":      {func(f *WorkerFlags) { f.OllamaBinary, f.CacheType, f.EngineURL = "", "", "http://10.0.0.9:1" }, "", ""},
		"named":          {func(f *WorkerFlags) { f.OllamaBinary, f.CacheType, f.ShimRunDir = "", "", "/r" }, "/r", ""},
	} {
		f := WorkerFlags{Model: "m", Engine: "ollama", OllamaBinary: "/o", CacheType: "f16", Slots: 1, NumCtx: 2048, HTTP: ":0", Machine: "here"}
		tt.change(&f)
		err := f.complete()
		if (err == nil) != (tt.says == "") || err != nil && (jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, want an error with %q", name, err, tt.says)
		}
		if tt.runDir == "*" && f.ShimRunDir == "" || tt.runDir != "*" && f.ShimRunDir != tt.runDir {
			t.Errorf("%s: shim-run-dir is %q, want %q", name, f.ShimRunDir, tt.runDir)
		}
		if err == nil && f.OllamaBinary != "" && f.EngineURL != "" {
			t.Errorf("%s: engine-url is %s", name, f.EngineURL)
		}
	}
	for url, want := range map[string]bool{"http://127.0.0.1:11434": true, "http://[::1]:1": true, "http://localhost": true, "http://mac:1": false, "": false, "::": false} {
		if got := onThisMachine(url); got != want {
			t.Errorf("%q is on this machine: %t", url, got)
		}
	}
	if _, _, err := lockFolder(fmt.Sprintf("%s/%s", os.DevNull, "x")); err == nil {
		t.Error("locked a folder that cannot be")
	}
}
