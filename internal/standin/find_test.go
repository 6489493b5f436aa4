package standin_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
)

func TestFindIsQuickOnceCached(t *testing.T) {
	first := standintest.Engines(t)
	started := time.Now()
	if again := standintest.Engines(t); again != first {
		t.Errorf("found %+v, then %+v", first, again)
	}
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("looking again took %v", took)
	}
}

// script writes an executable shell script and returns its path.
func script(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindTakesWhatTheUserNames(t *testing.T) {
	t.Setenv("TANDEM_OLLAMA", script(t, "ollama", "echo Warning: client version is 1.2.3"))
	t.Setenv("TANDEM_LLAMA_SERVER", script(t, "llama-server", "echo 'version: 7100 (abc)' >&2"))
	t.Setenv("TANDEM_LLAMA_QUANTIZE", "/some/llama-quantize")
	got, err := standin.Find(t.Context(), standin.Options{})
	want := standin.Engines{
		Ollama: os.Getenv("TANDEM_OLLAMA"), OllamaVersion: "1.2.3",
		LlamaServer: os.Getenv("TANDEM_LLAMA_SERVER"), LlamaQuantize: "/some/llama-quantize", LlamaVersion: "7100",
	}
	if err != nil || got != want {
		t.Errorf("found %+v, %v, want %+v", got, err, want)
	}
}

func TestFindRefusesWithARemedy(t *testing.T) {
	for name, set := range map[string]map[string]string{
		"and at least 0.34.0 is needed": {"TANDEM_OLLAMA": script(t, "ollama", "echo ollama version is 0.33.12")},
		"does not run":                  {"TANDEM_LLAMA_SERVER": script(t, "llama-server", "exit 1")},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range set {
				t.Setenv(key, value)
			}
			_, err := standin.Find(t.Context(), standin.Options{})
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "remedy: ") {
				t.Errorf("error %v, want %q and a remedy", err, name)
			}
		})
	}
}

func TestFindEndsItsChildrenWhenCancelled(t *testing.T) {
	begun := filepath.Join(t.TempDir(), "begun")
	t.Setenv("TANDEM_OLLAMA", script(t, "ollama", "echo $$ >"+begun+".new; mv "+begun+".new "+begun+"; sleep 300"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	found := make(chan error, 1)
	go func() {
		_, err := standin.Find(ctx, standin.Options{})
		found <- err
	}()
	waitUntil(t, "the program runs", func() bool { _, err := os.Stat(begun); return err == nil })
	cancel(cause)
	if err := <-found; !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
	b, err := os.ReadFile(begun)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the program is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

func TestModelFileIsWrittenOnce(t *testing.T) {
	dir, spec := t.TempDir(), tinymodel.Tiny(tinymodel.BPE)
	var paths [4]string
	var writing sync.WaitGroup
	for i := range paths {
		writing.Go(func() {
			var err error
			if paths[i], err = standin.ModelFile(dir, spec); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	files, err := filepath.Glob(filepath.Join(dir, "models", "*"))
	if err != nil || len(files) != 1 || paths != [4]string{files[0], files[0], files[0], files[0]} {
		t.Fatalf("files %v for the paths %v, %v", files, paths, err)
	}
	before, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := standin.ModelFile(dir, spec); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(files[0]); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was written again, %v", err)
	}
	spec.Seed++
	if other, err := standin.ModelFile(dir, spec); err != nil || other == files[0] {
		t.Errorf("another seed has the path %s, %v", other, err)
	}
}
