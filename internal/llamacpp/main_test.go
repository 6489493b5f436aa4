package llamacpp

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem/internal/engine"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// ownerEnv makes the test binary be a worker that owns an engine, for a test that kills it.
const ownerEnv = "LLAMACPP_TEST_OWNER"

func TestMain(m *testing.M) {
	if file := os.Getenv(ownerEnv); file != "" {
		own(file)
	}
	goleak.VerifyTestMain(m)
}

// own starts an engine, says its process id and waits to be killed.
func own(file string) {
	e, err := New(Options{Binary: os.Getenv(ownerEnv + "_BINARY"), ModelFile: file, NumCtx: 256, Threads: 1})
	if err == nil {
		err = e.Load(context.Background())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(pidOf(e))
	select {}
}

func binary(t testing.TB) string {
	t.Helper()
	return standintest.Engines(t).LlamaServer
}

// tokenizers are the two kinds that every model has one of.
var tokenizers = []tinymodel.Tokenizer{tinymodel.BPE, tinymodel.SentencePiece}

// model is the file of a small model with random weights.
func model(t testing.TB, tokenizer tinymodel.Tokenizer) string {
	t.Helper()
	return modelOf(t, tinymodel.Tiny(tokenizer))
}

func modelOf(t testing.TB, spec tinymodel.Spec) string {
	t.Helper()
	return standintest.ModelFile(t, spec)
}

// supervised starts a real server for a small model and waits until it serves.
func supervised(t testing.TB, o Options) *Engine {
	t.Helper()
	o.Binary, o.Threads = binary(t), 1
	if o.ModelFile == "" {
		o.ModelFile = model(t, tinymodel.BPE)
	}
	if o.LogFile == "" {
		o.LogFile = filepath.Join(t.TempDir(), "llama-server.log")
	}
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if err := e.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// pidOf is the process id of a supervised server, 0 if it is not up.
func pidOf(e *Engine) int {
	return e.where.(*ownServer).supervisor.Status().PID
}

// ask is a request for a greedy answer of at most n tokens.
func ask(prompt string, n int) engine.Request {
	r := engine.Request{System: "You grade homework.", Prompt: prompt}
	r.Options.Temperature, r.Options.NumPredict = new(0.0), new(n)
	return r
}

// prose is text of about so many words, different for each seed.
func prose(seed uint64, words int) string {
	var b strings.Builder
	list := strings.Fields("the mean of column is not what you want because data frame x has a missing value in each row so first filter then plot and say why")
	r := rand.New(rand.NewPCG(seed, 1))
	for range words {
		b.WriteString(list[r.IntN(len(list))])
		b.WriteByte(' ')
	}
	return b.String()
}

func ignore(jobs.Chunk) error { return nil }

// generate is Generate that must not fail.
func generate(t *testing.T, e *Engine, r engine.Request) engine.Completion {
	t.Helper()
	c, err := e.Generate(t.Context(), r, ignore)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// evict makes what comes next be computed cold.
func evict(t *testing.T, e *Engine) {
	t.Helper()
	if err := forget(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

// forget fills every slot with something else.
func forget(ctx context.Context, e *Engine) error {
	s, err := e.connect(ctx)
	if err != nil {
		return err
	}
	for id := range s.said.Slots {
		body := map[string]any{"prompt": []int32{5}, "n_predict": 1, "id_slot": id, "cache_prompt": false}
		var answer struct{}
		if err := s.Call(ctx, "/completion", body, &answer); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.server = nil
	return nil
}

// until waits for a condition, asking often.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// gone reports whether no process of the group is left.
func gone(pid int) bool { return syscall.Kill(-pid, 0) == syscall.ESRCH }

// firstLine reads one line of a started command.
func firstLine(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}
