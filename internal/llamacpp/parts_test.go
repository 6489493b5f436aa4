package llamacpp

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFlags(t *testing.T) {
	const older = "-fa,   --flash-attn                 enable Flash Attention (default: disabled)\n--slots  enable\n--no-webui  disable\n"
	const newer = "-fa,   --flash-attn [on|off|auto]   set\n--ui,  --webui, --no-ui, --no-webui  whether\n-cram, --cache-ram N  size\n--cache-idle-slots, --no-cache-idle-slots  save\n-kvu,  --kv-unified, -no-kvu, --no-kv-unified\n--slots, --no-slots\n"
	o := Options{ModelFile: "m.gguf", Model: "m:latest", Slots: 4, NumCtx: 1000, Threads: 2, CacheType: "q8_0", SlotDir: "kv"}
	common := "--model m.gguf --host 127.0.0.1 --port 77 --parallel 4 --ctx-size 4000 --flash-attn"
	end := " --alias m:latest --threads 2 --slot-save-path kv --cache-type-k q8_0 --cache-type-v q8_0"
	for help, want := range map[string]string{
		older: common + " --slots --no-webui" + end,
		newer: common + " on --no-kv-unified --cache-ram 0 --no-cache-idle-slots --slots --no-webui" + end,
	} {
		if got := strings.Join(parseFlags(help).arguments(o, 77), " "); got != want {
			t.Errorf("flags (-want +got):\n%s", cmp.Diff(want, got))
		}
	}
}

func TestEnvironmentKeepsSecretsAndFlagsBack(t *testing.T) {
	t.Setenv("TANDEM_CREDS", "a")
	t.Setenv("LLAMA_ARG_N_PARALLEL", "7")
	t.Setenv("GGML_BACKEND_PATH", "b")
	env := environment("key")
	for _, v := range []string{"TANDEM_CREDS=a", "LLAMA_ARG_N_PARALLEL=7"} {
		if slices.Contains(env, v) {
			t.Errorf("the server would see %s", v)
		}
	}
	if !slices.Contains(env, "GGML_BACKEND_PATH=b") || !slices.Contains(env, "LLAMA_API_KEY=key") {
		t.Errorf("the server would not see its settings")
	}
}

func TestDigestIsRememberedUntilTheFileChanges(t *testing.T) {
	const abc, abcd = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589"
	dir := t.TempDir()
	file := write(t, "m.gguf", "abc")
	sum := func() string {
		d := newDigests(dir, slog.New(slog.DiscardHandler))
		defer d.close()
		s := d.of(file)
		if err := s.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s.known()
	}
	if got := sum(); got != abc {
		t.Errorf("digest %q, want %q", got, abc)
	}
	remembered, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(remembered) != 1 {
		t.Fatalf("files %q, %v; want one", remembered, err)
	}
	content, err := os.ReadFile(remembered[0])
	if err != nil {
		t.Fatal(err)
	}
	// What was remembered is used: this is not the file's digest.
	if err := os.WriteFile(remembered[0], []byte(strings.Replace(string(content), abc, "beef", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := sum(); got != "beef" {
		t.Errorf("digest %q, want what was remembered", got)
	}
	if err := os.WriteFile(file, []byte("abcd"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := sum(); got != abcd {
		t.Errorf("digest %q after a change, want %q", got, abcd)
	}
}

func TestDigestOfASplitModel(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"m-00001-of-00002.gguf": "a", "m-00002-of-00002.gguf": "bc", "m-00001-of-00003.gguf": "no"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := newDigests("", slog.New(slog.DiscardHandler))
	defer d.close()
	s := d.of(filepath.Join(dir, "m-00001-of-00002.gguf"))
	if err := s.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; s.known() != want {
		t.Errorf("digest %q, want that of both parts", s.known())
	}
	if s := d.of(filepath.Join(dir, "not there.gguf")); s.known() != "" || s.wait(t.Context()) != nil {
		t.Errorf("a missing file has digest %q", s.known())
	}
}

// A server whose model's digest is still computed is not ready: its first state would have to be refused.
func TestReadyWhenTheDigestIsKnown(t *testing.T) {
	dir := t.TempDir()
	e := attach(t, Options{SlotDir: dir}, "--ctx-size", "1024", "--slot-save-path", dir)
	s, err := e.ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	known := s.digest
	s.digest = &sum{done: make(chan struct{}), hex: known.hex}
	if d, err := e.Describe(t.Context()); err != nil || d.Loaded {
		t.Errorf("before its digest is known: loaded %t, %v", d.Loaded, err)
	}
	close(s.digest.done)
	if err := e.Load(t.Context()); err != nil {
		t.Error(err)
	}
	if d, err := e.Describe(t.Context()); err != nil || !d.Loaded || d.KVTransfer == nil {
		t.Errorf("once it is known: %+v, %v", d, err)
	}
}
