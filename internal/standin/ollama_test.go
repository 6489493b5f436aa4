package standin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem/internal/shim"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("STANDIN_TEST_HOLD"); dir != "" {
		hold(dir)
	}
	goleak.VerifyTestMain(m)
}

// answer is what Ollama's /api/generate says.
type answer struct {
	Response        string `json:"response"`
	Done            bool   `json:"done"`
	DoneReason      string `json:"done_reason"`
	PromptEvalCount int    `json:"prompt_eval_count"`
	CachedCount     *int   `json:"prompt_eval_cached_count"`
	EvalCount       int    `json:"eval_count"`
}

// generate asks for n greedy tokens.
func generate(t testing.TB, url, model, prompt string, n int) answer {
	t.Helper()
	var a answer
	post(t, url+"/api/generate", map[string]any{
		"model": model, "prompt": prompt, "stream": false, "truncate": false, "shift": false,
		"options": map[string]any{"temperature": 0, "num_predict": n, "num_thread": 1, "num_ctx": 4096},
	}, &a)
	return a
}

func post(t testing.TB, url string, body, into any) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
}

func TestTwoOllamasSideBySide(t *testing.T) {
	engines := standintest.Engines(t)
	started := time.Now()
	var servers [2]*standin.Ollama
	var starting sync.WaitGroup
	for i := range servers {
		dir := t.TempDir()
		starting.Go(func() {
			var err error
			if servers[i], err = standin.StartOllama(t.Context(), standin.OllamaOptions{Engines: engines, Dir: dir, Models: standin.Models()}); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	t.Logf("two servers with two models each are up after %v", time.Since(started))
	for _, s := range servers {
		if s == nil {
			t.FailNow()
		}
		t.Cleanup(func() { _ = s.Stop() })
	}
	// Longer than a sliding window: less of a shorter one is found again.
	prompt := strings.Repeat("Compare the student's code with the solution: mean(sales_df$price, na.rm = TRUE). ", 8)
	for model := range standin.Models() {
		t.Run(strings.ReplaceAll(model, ":", "-"), func(t *testing.T) {
			first := generate(t, servers[0].URL(), model, prompt, 16)
			other := generate(t, servers[1].URL(), model, prompt, 16)
			again := generate(t, servers[0].URL(), model, prompt, 16)
			if !first.Done || first.DoneReason != "length" || first.EvalCount != 16 {
				t.Errorf("answer %+v, want 16 tokens", first)
			}
			if first.Response != other.Response {
				t.Errorf("cold, one server wrote %q and the other %q", first.Response, other.Response)
			}
			if again.CachedCount == nil || *again.CachedCount < again.PromptEvalCount-1 {
				t.Errorf("asked again: %+v, want nearly all of the prompt from the cache", again)
			}
			if strings.ContainsFunc(first.Response, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q is not printable ASCII", first.Response)
			}
		})
	}
}

func TestTextDependsOnThePromptAndDoesNotDegenerate(t *testing.T) {
	s := standintest.StartOllama(t, standin.OllamaOptions{Models: standin.Models()})
	for model := range standin.Models() {
		seen := make(map[string]string)
		for i := range 30 {
			prompt := fmt.Sprintf("def task_%d(x):\n    return x * %d\n%s", i, i, strings.Repeat("Explain the result. ", i%4))
			// Ollama ends a reply that repeats itself with done: false.
			a := generate(t, s.URL(), model, prompt, 100)
			if !a.Done || a.EvalCount != 100 {
				t.Errorf("%s: prompt %d gave %d tokens, done %t", model, i, a.EvalCount, a.Done)
			}
			if before, ok := seen[a.Response]; ok {
				t.Errorf("%s: %q and %q give the same text", model, before, prompt)
			}
			seen[a.Response] = prompt
		}
	}
}

func TestStopAndKillLeaveNothingBehind(t *testing.T) {
	engines, spec := standintest.Engines(t), map[string]tinymodel.Spec{standin.CodeModel: tinymodel.Tiny(tinymodel.BPE)}
	dir := t.TempDir()
	for name, end := range map[string]func(*standin.Ollama) error{"Stop": (*standin.Ollama).Stop, "Kill": (*standin.Ollama).Kill} {
		// The second start is in the folder of the first.
		s := standintest.StartOllama(t, standin.OllamaOptions{Engines: engines, Dir: dir, Models: spec})
		generate(t, s.URL(), standin.CodeModel, "x <- 1", 1)
		inner, outer := innerAddress(t, s), strings.TrimPrefix(s.URL(), "http://")
		if !open(inner) || !open(outer) {
			t.Fatalf("nobody listens on %s or %s", inner, outer)
		}
		if err := errors.Join(end(s), s.Stop(), s.Kill()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		waitClosed(t, inner, outer)
	}
}

// A program that is killed cannot clean up: its servers must end by themselves.
func TestServersEndWithAKilledProgram(t *testing.T) {
	standintest.Engines(t)
	dir := t.TempDir()
	program := exec.Command(os.Args[0], "-test.run=^$")
	program.Env = append(os.Environ(), "STANDIN_TEST_HOLD="+dir)
	program.Stderr = t.Output()
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	var outer, inner string
	_, scanErr := fmt.Fscanln(out, &outer, &inner)
	if err := program.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = program.Wait() // killed
	if scanErr != nil {
		t.Fatal(scanErr)
	}
	waitClosed(t, outer, inner)
}

// hold is what that program does: it starts a server in dir, has it load its model, says where it is, and waits.
func hold(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	engines, err := standin.Find(context.Background(), standin.Options{})
	fail(err)
	s, err := standin.StartOllama(context.Background(), standin.OllamaOptions{Engines: engines, Dir: dir, Models: standin.Models()})
	fail(err)
	_, err = http.Post(s.URL()+"/api/generate", "application/json", strings.NewReader(`{"model":"`+standin.CodeModel+`"}`))
	fail(err)
	list, err := shim.LiveAll(s.RunDir())
	fail(err)
	fmt.Printf("%s %s:%d\n", strings.TrimPrefix(s.URL(), "http://"), list[0].Host, list[0].Port)
	select {}
}

// What all of the hand-over stands on: the server within an Ollama can be found, and writes its slots to files.
func TestServerWithinSavesItsSlots(t *testing.T) {
	s := standintest.StartOllama(t, standin.OllamaOptions{Models: map[string]tinymodel.Spec{standin.CodeModel: tinymodel.Tiny(tinymodel.BPE)}})
	a := generate(t, s.URL(), standin.CodeModel, "x <- c(1, 2, 3)\nmean(x)", 1)
	var saved struct {
		N int `json:"n_saved"`
	}
	post(t, "http://"+innerAddress(t, s)+"/slots/0?action=save", map[string]string{"filename": "a.state"}, &saved)
	if saved.N < a.PromptEvalCount {
		t.Errorf("saved %d tokens of a prompt of %d", saved.N, a.PromptEvalCount)
	}
	for path, want := range map[string]os.FileMode{filepath.Join(s.SlotDir(), "a.state"): 0o600, s.SlotDir(): 0o700 | os.ModeDir, s.RunDir(): 0o700 | os.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want mode %v", path, info.Mode(), err, want)
		}
	}
}

func TestStartOllamaShowsTheLogWhenItFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = standin.StartOllama(t.Context(), standin.OllamaOptions{
		Engines: standintest.Engines(t), Dir: t.TempDir(), Port: taken.Addr().(*net.TCPAddr).Port,
	})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("started on a taken port: %v", err)
	}
	broken := standintest.Engines(t)
	broken.Ollama = filepath.Join(t.TempDir(), "ollama")
	if err := os.WriteFile(broken.Ollama, []byte("#!/bin/sh\necho a broken library\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := standin.StartOllama(t.Context(), standin.OllamaOptions{Engines: broken, Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "a broken library") {
		t.Errorf("started a program that ends at once: %v", err)
	}
}

func TestStartOllamaGivesUpWhenCancelled(t *testing.T) {
	mute := standintest.Engines(t)
	mute.Ollama = filepath.Join(t.TempDir(), "ollama")
	if err := os.WriteFile(mute.Ollama, []byte("#!/bin/sh\nexec sleep 300\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := standin.StartOllama(ctx, standin.OllamaOptions{Engines: mute, Dir: t.TempDir()}); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
}

// innerAddress is where the llama-server within an Ollama listens, as the shim recorded it.
func innerAddress(t *testing.T, s *standin.Ollama) string {
	t.Helper()
	list, err := shim.LiveAll(s.RunDir())
	if err != nil || len(list) != 1 {
		t.Fatalf("live llama-servers %+v, %v; want one", list, err)
	}
	return net.JoinHostPort(list[0].Host, strconv.Itoa(list[0].Port))
}

func open(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// waitClosed waits until nobody listens on the addresses any more.
func waitClosed(t *testing.T, addresses ...string) {
	t.Helper()
	for _, a := range addresses {
		waitUntil(t, "nobody listens on "+a, func() bool { return !open(a) })
	}
}

// waitUntil waits for what nothing announces.
func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not so after 20 s: %s", what)
		}
	}
}
