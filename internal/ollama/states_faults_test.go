package ollama_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/ollama"
	"tandem/internal/protocol"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// model is the name of the tests' model.
const model = "grader:1b"

// lines is a prompt of about 20 tokens a line.
func lines(title string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n", title)
	for i := range n {
		fmt.Fprintf(&b, "total_%d <- sum(price[%d] * quantity[%d])\n", i, i, i)
	}
	return b.String()
}

// text generates on the prefill side, which holds the prompt already.
func text(t testing.TB, e engine.Engine, req engine.Request) string {
	t.Helper()
	c, err := e.Generate(t.Context(), req, discard)
	if err != nil {
		t.Fatal(err)
	}
	return c.Text
}

// TestBetween: what happens to the decode machine between reading a state and the request that is to use
// it costs at most the computation, and is said.
func TestBetween(t *testing.T) {
	models := map[string]tinymodel.Spec{model: tinymodel.Tiny(tinymodel.BPE)}
	there, here := startMachine(t, 1, models), startMachine(t, 1, models)
	way := between(t, here.URL())
	a, b, direct := there.engine(t, model), here.engineAt(t, way.URL, model), here.engine(t, model)
	const imported, missed, failed = "imported", "missed", "failed"
	for name, tt := range map[string]struct {
		hook func(http.ResponseWriter)
		want string
	}{
		"another request takes the slot": {func(http.ResponseWriter) { // but llama-server has kept what was there
			foreign := newEngine(t, ollama.Options{URL: here.URL(), Model: model}) // that knows nothing of states
			text(t, foreign, greedy("Somebody else's question", 2))
		}, imported},
		"the slot is emptied": {func(http.ResponseWriter) {
			ask(t, fmt.Sprintf("http://127.0.0.1:%d/slots/0?action=erase", here.child(t).Port), "{}")
		}, missed},
		"the model is unloaded": {func(http.ResponseWriter) { unload(t, here.URL(), model) }, missed},
		"the server inside is killed": {func(http.ResponseWriter) {
			if err := syscall.Kill(here.child(t).PID, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}, missed},
		"Ollama fails": {func(w http.ResponseWriter) {
			http.Error(w, `{"error": "model runner has unexpectedly stopped"}`, http.StatusInternalServerError)
		}, failed},
		"Ollama breaks off": {func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }, failed},
	} {
		t.Run(name, func(t *testing.T) {
			req := greedy(lines("The work of a student, "+name, 20), 16)
			p := export(t, a, here, req)
			want := text(t, a, req)
			way.next(tt.hook)
			pieces := 0
			c, err := b.Decode(t.Context(), req, p, func(jobs.Chunk) error { pieces++; return nil })
			switch tt.want {
			case imported:
				used(t, c, err, p)
			case missed:
				if err != nil || c.Imported != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "not used") {
					t.Fatalf("imported %+v, warnings %q, %v; want a silent miss that is said", c.Imported, c.Warnings, err)
				}
			case failed:
				why, ok := errors.AsType[*protocol.HandoverError](err)
				if !ok || why.Failure != jobs.FailRestore || pieces > 0 || strings.Contains(err.Error(), "total_") {
					t.Errorf("got %v after %d pieces; want a refused restore before the first", err, pieces)
				}
				if c, err = b.Generate(t.Context(), req, discard); err != nil {
					t.Fatalf("computed again: %v", err)
				}
			}
			if c.Text != want {
				t.Errorf("%q, want %q", c.Text, want)
			}

			next := greedy(lines("The next one after "+name, 5), 8)
			p = export(t, a, here, next)
			c, err = direct.Decode(t.Context(), next, p, discard)
			used(t, c, err, p)
		})
	}
}

// TestTurn: between reading a state and the first byte of its answer, no other request of the engine
// reaches Ollama.
func TestTurn(t *testing.T) {
	models := map[string]tinymodel.Spec{model: tinymodel.Tiny(tinymodel.BPE)}
	there, here := startMachine(t, 4, models), startMachine(t, 4, models)
	way := between(t, here.URL())
	a, b := there.engine(t, model), here.engineAt(t, way.URL, model)
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	req := greedy(lines("The work of a student", 20), 16)
	p := export(t, a, here, req)

	others := make(chan error)
	way.next(func(http.ResponseWriter) {
		go func() {
			_, err := b.Generate(t.Context(), greedy("Another", 2), discard)
			others <- err
		}()
		go func() {
			_, err := b.Prefill(t.Context(), greedy("And another", 2))
			others <- err
		}()
		for range 50 { // longer than they would take if they did not wait
			ask(t, here.URL()+"/api/tags", "")
		}
		if n := len(way.arrivals()); n != 1 {
			t.Errorf("%d requests arrived before the state's was answered", n-1)
		}
	})
	c, err := b.Decode(t.Context(), req, p, discard)
	used(t, c, err, p)
	for range 2 {
		if err := <-others; err != nil {
			t.Error(err)
		}
	}
	if n := len(way.arrivals()); n != 3 {
		t.Errorf("%d requests arrived in all, want 3", n)
	}
}

// TestOtherWeights: a state of another model of the same shape is noticed by its first prediction.
func TestOtherWeights(t *testing.T) {
	one, two := tinymodel.Tiny(tinymodel.BPE), tinymodel.Tiny(tinymodel.BPE)
	two.Seed = 99
	there := startMachine(t, 1, map[string]tinymodel.Spec{model: one})
	here := startMachine(t, 1, map[string]tinymodel.Spec{model: two})
	a, b := there.engine(t, model), here.engine(t, model)
	req := greedy(lines("The work of a student", 20), 16)
	p := export(t, a, here, req)
	want := text(t, b, req)
	pieces := 0
	_, err := b.Decode(t.Context(), req, p, func(jobs.Chunk) error { pieces++; return nil })
	failed, ok := errors.AsType[*protocol.HandoverError](err)
	if !ok || failed.Failure != jobs.FailFirstToken || failed.Divergence < 0.1 || pieces > 0 {
		t.Errorf("got %v (%+v) after %d pieces; want first_token before the first", err, failed, pieces)
	}
	if got := text(t, b, req); got != want {
		t.Errorf("afterwards %q, want %q: something of the other state is left", got, want)
	}
	mine, theirs := describe(t, b), describe(t, a)
	if d := mine.KVTransfer.Fingerprint.Differences(theirs.KVTransfer.Fingerprint, true); len(d) != 1 || !strings.Contains(d[0], "model file") {
		t.Errorf("differences %q; want the model file", d)
	}
}

func describe(t testing.TB, e engine.Engine) engine.Description {
	t.Helper()
	d, err := e.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestPrefillFails: the server inside ends in the middle of a prompt, or cannot write the state.
func TestPrefillFails(t *testing.T) {
	machine := startMachine(t, 1, map[string]tinymodel.Spec{model: tinymodel.Tiny(tinymodel.BPE)})
	e := machine.engine(t, model)
	if err := e.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := describe(t, e); d.KVTransfer == nil || !slices.Contains(d.Handover, jobs.KindState) || d.Slots != 1 {
		t.Fatalf("no states: %+v", d)
	}
	req := greedy(lines("The work of a student", 100), 16)
	req.Export = true

	t.Run("killed", func(t *testing.T) {
		child := machine.child(t).PID
		killed := req
		killed.Progress = func() { _ = syscall.Kill(child, syscall.SIGKILL) } // it may be dead already
		_, err := e.Prefill(t.Context(), killed)
		if jobs.CodeOf(err) != jobs.CodeEngineFailed || protocol.Classify(err) != protocol.Retry || !strings.Contains(fmt.Sprint(err), "inside Ollama") {
			t.Errorf("got %v (%s); want a failed engine", err, jobs.CodeOf(err))
		}
		p, err := e.Prefill(t.Context(), req)
		if err != nil || p.Kind != jobs.KindState {
			t.Errorf("the next one: %+v, %v", p, err)
		}
	})
	t.Run("no folder", func(t *testing.T) {
		aside := machine.SlotDir() + ".aside"
		if err := os.Rename(machine.SlotDir(), aside); err != nil {
			t.Fatal(err)
		}
		other := req
		other.Prompt = lines("Another work", 100)
		p, err := e.Prefill(t.Context(), other)
		if err := os.Rename(aside, machine.SlotDir()); err != nil {
			t.Fatal(err)
		}
		if err != nil || p.Kind != jobs.KindContext || p.Failure != jobs.FailSave || p.Note == "" || p.FirstToken == "" || p.State != nil {
			t.Errorf("got %+v, %v; want a context, and why there is no state", p, err)
		}
		if p.CachedTokens+p.ComputedTokens != p.PromptTokens || p.ComputedTokens < p.PromptTokens/2 {
			t.Errorf("%d tokens cached and %d computed of %d, all in all", p.CachedTokens, p.ComputedTokens, p.PromptTokens)
		}
		if p, err = e.Prefill(t.Context(), req); err != nil || p.Kind != jobs.KindState {
			t.Errorf("the next one: %+v, %v", p, err)
		}
	})
	t.Run("too long", func(t *testing.T) {
		long := greedy(lines("Far too much", 400), 4)
		_, want := e.Generate(t.Context(), long, discard)
		long.Export = true
		_, err := e.Prefill(t.Context(), long)
		if protocol.Classify(err) != protocol.Permanent || fmt.Sprint(err) != strings.Replace(fmt.Sprint(want), "generate:", "prefill:", 1) {
			t.Errorf("got  %v\nwant %v", err, want)
		}
		_, err = e.Decode(t.Context(), long, engine.Prefilled{Kind: jobs.KindState, State: &engine.StateFile{}}, discard)
		if jobs.CodeOf(err) != jobs.CodeContextOverflow {
			t.Errorf("Decode: %v; want the overflow, which is not the state's fault", err)
		}
	})
	t.Run("just fits", func(t *testing.T) {
		fits, n := greedy("", 1), 4095
		fits.Prompt = lines("Nearly too much", 120)
		for range 2 { // what the prompt lacks, in signs that are one token each
			c, err := e.Generate(t.Context(), fits, discard)
			if err != nil {
				t.Fatal(err)
			}
			fits.Prompt += strings.Repeat("~", n-c.PromptTokens)
		}
		fits.Export = true
		if p, err := e.Prefill(t.Context(), fits); err != nil || p.Kind != jobs.KindState || p.PromptTokens != n {
			t.Errorf("a prompt of %d tokens in a context of 4,096: %s, %d tokens, %v", n, p.Kind, p.PromptTokens, err)
		}
	})
}

// TestNoStates: where there are none, prefill hands over the context as before, and the reason is said.
func TestNoStates(t *testing.T) {
	plain := standintest.StartOllama(t, standin.OllamaOptions{Models: map[string]tinymodel.Spec{model: tinymodel.Tiny(tinymodel.BPE)}})
	m := machine{plain}
	elsewhere := t.TempDir()
	for name, tt := range map[string]struct {
		runDir string
		want   string
	}{
		"no run folder":        {"", "shim install"},
		"no record":            {elsewhere, "--ollama-binary"},
		"no such run folder":   {elsewhere + "/none", "shim install"},
		"a file for a folder ": {m.RunDir() + "/../bin/ollama", "records"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, ollama.Options{URL: plain.URL(), Model: model, RunDir: tt.runDir})
			req := greedy("What is a median?", 4)
			req.Export = true
			p, err := e.Prefill(t.Context(), req)
			if err != nil || p.Kind != jobs.KindContext || p.Failure != jobs.FailNoState || !strings.Contains(p.Note, tt.want) {
				t.Errorf("Prefill: %s, %s, %q, %v", p.Kind, p.Failure, p.Note, err)
			}
			if d := describe(t, e); d.KVTransfer != nil || d.NoKVTransfer != p.Note || slices.Contains(d.Handover, jobs.KindState) {
				t.Errorf("Describe: %+v", d)
			}
			p.State = &engine.StateFile{}
			_, err = e.Decode(t.Context(), req, p, discard)
			if failed, ok := errors.AsType[*protocol.HandoverError](err); !ok || failed.Failure != jobs.FailRestore {
				t.Errorf("Decode: %v", err)
			}
			if _, err := e.Estimate(t.Context(), req); err == nil {
				t.Error("Estimate knows of a cache that it cannot see")
			}
		})
	}
	t.Run("not loaded", func(t *testing.T) {
		unload(t, plain.URL(), model)
		if d := describe(t, m.engine(t, model)); d.KVTransfer != nil || !strings.Contains(d.NoKVTransfer, "not loaded") {
			t.Errorf("Describe: %+v", d)
		}
	})
}

// TestUnloaded: a model that Ollama has unloaded is loaded again, by whatever is asked of it first.
func TestUnloaded(t *testing.T) {
	models := map[string]tinymodel.Spec{model: tinymodel.Tiny(tinymodel.BPE)}
	there, here := startMachine(t, 1, models), startMachine(t, 1, models)
	a, b := there.engine(t, model), here.engine(t, model)
	req := greedy(lines("The work of a student", 20), 16)
	var pids []int
	for range 2 {
		p := export(t, a, here, req)
		c, err := b.Decode(t.Context(), req, p, discard)
		used(t, c, err, p)
		pids = append(pids, here.child(t).PID)
		unload(t, there.URL(), model)
		unload(t, here.URL(), model)
	}
	if pids[0] == pids[1] {
		t.Error("the model was not unloaded")
	}
	// Somebody else's request has loaded it with another context: ours restarts the runner.
	ask(t, here.URL()+"/api/generate", `{"model": "grader:1b", "prompt": "x", "options": {"num_ctx": 512, "num_predict": 1}}`)
	p := export(t, a, here, req)
	c, err := b.Decode(t.Context(), req, p, discard)
	used(t, c, err, p)
}
