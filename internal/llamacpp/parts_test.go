package llamacpp

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestChoose(t *testing.T) {
	long := make([]int32, 100)
	for i := range long {
		long[i] = int32(i)
	}
	for name, tt := range map[string]struct {
		free []*slot
		want int
	}{
		"longest prefix":                {[]*slot{{id: 0, held: long[:20], used: 1}, {id: 1, held: long[:60], used: 2}, {id: 2}}, 1},
		"all of it, and more":           {[]*slot{{id: 0, held: long[:99], used: 1}, {id: 1, held: append(slices.Clone(long), 7), used: 2}}, 1},
		"not used for longest":          {[]*slot{{id: 0, held: []int32{9}, used: 5}, {id: 1, held: []int32{9}, used: 3}, {id: 2, held: []int32{9}, used: 4}}, 1},
		"never used":                    {[]*slot{{id: 0, held: []int32{9}, used: 5}, {id: 1}}, 1},
		"equal prefixes":                {[]*slot{{id: 0, held: long[:50], used: 2}, {id: 1, held: long[:50], used: 1}}, 1},
		"too short a prefix to care":    {[]*slot{{id: 0, held: long[:9], used: 1}, {id: 1}}, 1},
		"just long enough":              {[]*slot{{id: 0, held: long[:10], used: 1}, {id: 1}}, 0},
		"no common prefix at its start": {[]*slot{{id: 0, held: long[1:], used: 1}, {id: 1, used: 0}}, 1},
	} {
		if got := choose(tt.free, long); got != tt.want {
			t.Errorf("%s: slot %d, want %d", name, got, tt.want)
		}
	}
}

func TestPoolWaits(t *testing.T) {
	p := newPool(1)
	s, err := p.acquire(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if _, err := p.acquire(ctx, nil); !errors.Is(err, enough) {
		t.Errorf("no free slot: %v, want the cause", err)
	}
	p.release(s)
	if again, err := p.acquire(t.Context(), nil); err != nil || again != s {
		t.Errorf("slot %v, %v; want the released one", again, err)
	}
}

func TestFlags(t *testing.T) {
	const older = "-fa,   --flash-attn                 enable Flash Attention (default: disabled)\n--slots  enable\n--no-webui  disable\n"
	const newer = "-fa,   --flash-attn [on|off|auto]   set\n--ui,  --webui, --no-ui, --no-webui  whether\n-cram, --cache-ram N  size\n--cache-idle-slots, --no-cache-idle-slots  save\n-kvu,  --kv-unified, -no-kvu, --no-kv-unified\n--slots, --no-slots\n"
	o := Options{ModelFile: "m.gguf", Model: "m:latest", Slots: 4, NumCtx: 1000, Threads: 2, CacheType: "q8_0"}
	common := "--model m.gguf --host 127.0.0.1 --port 77 --parallel 4 --ctx-size 4000 --flash-attn"
	end := " --alias m:latest --threads 2 --cache-type-k q8_0 --cache-type-v q8_0"
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

func TestLogFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	line := strings.Repeat("x", 1<<10-1) + "\n"
	for range 25 << 10 {
		l.Write([]byte(line))
	}
	l.Write([]byte("one\ntwo\r\n\nthr"))
	l.Write([]byte("ee\nhalf"))
	for _, name := range []string{path, path + ".1"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > maxLogFile || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %d bytes, mode %v", name, info.Size(), info.Mode())
		}
	}
	lines := strings.Split(l.last(), " | ")
	if len(lines) != tailLines || len(lines[0]) != maxTailLine || !slices.Equal(lines[tailLines-3:], []string{"one", "two", "three"}) {
		t.Errorf("last lines %q", lines)
	}
	if l.forget(); l.last() != "" {
		t.Errorf("after forget: %q", l.last())
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

// FuzzEvents checks that no bytes break the decoder, that it bounds what it yields, and that how the
// bytes arrive does not matter.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		"data: {\"a\":1}\n\ndata: [DONE]\n\n", "data:x\r\n\r\n", ": ping\n\n", "error: {\"error\":{}}\n\n",
		"data: a\ndata: b\n\n", "event: x\ndata\n\n", "data: cut", "\n\n\n", "data: \xff\x00\n\n",
	} {
		f.Add(s)
	}
	read := func(r *strings.Reader, slow bool) (all []string, end error) {
		seq := events(r)
		if slow {
			seq = events(iotest.OneByteReader(r))
		}
		for e, err := range seq {
			if err != nil {
				return all, err
			}
			all = append(all, string(e))
		}
		return all, nil
	}
	f.Fuzz(func(t *testing.T, s string) {
		fast, err := read(strings.NewReader(s), false)
		slow, slowErr := read(strings.NewReader(s), true)
		if diff := cmp.Diff(fast, slow); diff != "" || (err == nil) != (slowErr == nil) {
			t.Errorf("at once %v, byte by byte %v:\n%s", err, slowErr, diff)
		}
		for _, e := range fast {
			if len(e) == 0 || len(e) > 2*maxEvent {
				t.Errorf("an event of %d bytes", len(e))
			}
		}
		// What is written as an event is read as one.
		if clean := strings.NewReplacer("\n", "", "\r", "").Replace(s); clean != "" {
			if got, err := read(strings.NewReader("data: "+clean+"\n\n"), false); err != nil || len(got) != 1 || got[0] != clean {
				t.Errorf("event %q was read as %q, %v", clean, got, err)
			}
		}
	})
}
