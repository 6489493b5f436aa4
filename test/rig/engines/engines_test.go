package engines_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem/internal/standin"
	"tandem/test/rig/engines"
	"tandem/test/rig/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plainModel has no shape of its own.
const plainModel = "plain:1b"

// noopPrograms builds the program of the no-op engine.
func noopPrograms(t testing.TB) *host.Programs {
	t.Helper()
	p, err := host.Build(t.Context(), t.TempDir(), host.BuildOptions{Only: []string{"noopengine"}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

type starter func(context.Context, engines.Options) (engines.Engine, error)

// started starts an engine that ends with the test.
func started(t testing.TB, start starter, o engines.Options) engines.Engine {
	t.Helper()
	o.Name, o.Dir = "engine", t.TempDir()
	e, err := start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// question is a job that a greedy model is asked.
func question(t testing.TB, model, prompt string) []byte {
	t.Helper()
	job, err := json.Marshal(map[string]any{
		"v": 1, "id": "01936f2a-5b7c-7d3e-8f90-a1b2c3d4e5f6", "user": "rig", "batch": "single", "class": "batch", "model": model, "prompt": prompt,
		"options": map[string]any{"temperature": 0, "num_predict": 24},
	})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// asked is the one right text of a job.
func asked(t testing.TB, e engines.Engine, job []byte) string {
	t.Helper()
	texts, err := e.Ask(t.Context(), job)
	if err != nil || len(texts) != 1 || texts[0] == "" {
		t.Fatalf("Ask: %q, %v; want one text", texts, err)
	}
	return texts[0]
}

// status is what the engine answers to a GET within a limit, 0 if nothing.
func status(t testing.TB, e engines.Engine, path string, limit time.Duration) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.Addr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestEngineDiesAndComesBack(t *testing.T) {
	for name, tt := range map[string]struct {
		start  starter
		models []string
		path   string
		engine string
		folder string // flag with a folder
	}{
		"noop":         {engines.StartNoop, []string{standin.CodeModel, standin.FeedbackModel}, "/api/version", "ollama", "--shim-run-dir"},
		"ollama":       {engines.StartOllama, []string{standin.CodeModel, plainModel}, "/api/version", "ollama", "--shim-run-dir"},
		"llama-server": {engines.StartLlamaServer, []string{plainModel}, "/health", "llamacpp", "--slot-dir"},
	} {
		t.Run(name, func(t *testing.T) {
			o := engines.Options{Models: tt.models, Slots: 2, NumCtx: 1024}
			if name == "noop" {
				o.Programs = noopPrograms(t)
			}
			e := started(t, tt.start, o)
			answers := func(want int, limit time.Duration) {
				t.Helper()
				if got := status(t, e, tt.path, limit); got != want {
					t.Fatalf("GET %s: status %d; want %d", tt.path, got, want)
				}
			}
			texts := map[string]string{}
			for _, model := range tt.models {
				texts[model] = asked(t, e, question(t, model, "Write a loop over the rows."))
			}
			again := func() {
				t.Helper()
				for model, text := range texts {
					if got := asked(t, e, question(t, model, "Write a loop over the rows.")); got != text {
						t.Errorf("%s: %q, then %q", model, text, got)
					}
				}
			}
			flags := e.Flags("http://127.0.0.1:9")
			for _, want := range [][]string{{"--engine", tt.engine}, {"--engine-url", "http://127.0.0.1:9"}, {"--num-ctx", "1024"}, {"--threads", "1"}, {"--slots", "2"}} {
				if i := slices.Index(flags, want[0]); i < 0 || flags[i+1] != want[1] {
					t.Errorf("flags %q; want %q", flags, want)
				}
			}
			if i := slices.Index(flags, tt.folder); i < 0 || flags[i+1] == "" {
				t.Errorf("flags %q; want %s", flags, tt.folder)
			}

			if err := e.Unload(t.Context()); err != nil {
				t.Error(err)
			}
			again()
			if err := e.Restart(t.Context()); err == nil {
				t.Error("restarted an engine that runs")
			}
			if err := e.Freeze(); err != nil {
				t.Fatal(err)
			}
			for status(t, e, tt.path, 100*time.Millisecond) != 0 { // a signal reaches each thread in its own time
			}
			if err := e.Thaw(); err != nil {
				t.Fatal(err)
			}
			answers(http.StatusOK, 10*time.Second)
			before := e.Pid()
			for range 2 {
				if err := e.Freeze(); err != nil { // what is frozen can be killed
					t.Fatal(err)
				}
				addr := e.Addr()
				e.Kill()
				answers(0, 10*time.Second)
				if e.Freeze() == nil || e.Thaw() == nil {
					t.Error("froze or thawed an engine that is gone")
				}
				if err := e.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				if e.Addr() != addr || e.Pid() == before {
					t.Errorf("after the restart it listens on %s with pid %d; it was %s and %d", e.Addr(), e.Pid(), addr, before)
				}
				answers(http.StatusOK, 10*time.Second)
				again()
			}
		})
	}
}

func TestAskTakesEveryKindOfJob(t *testing.T) {
	for name, tt := range map[string]struct {
		start starter
		model string
	}{
		"noop":         {engines.StartNoop, standin.CodeModel},
		"ollama":       {engines.StartOllama, standin.CodeModel},
		"llama-server": {engines.StartLlamaServer, standin.FeedbackModel}, // whose tokenizer the chat API cannot hold to a format
	} {
		t.Run(name, func(t *testing.T) {
			o := engines.Options{Models: []string{tt.model}}
			if name == "noop" {
				o.Programs = noopPrograms(t)
			}
			e := started(t, tt.start, o)
			seen := map[string]string{}
			for _, fields := range []string{
				`"prompt": "Is this good?"`,
				`"prompt": "Is this good?", "system": "You review code."`,
				`"messages": [{"role": "user", "content": "Is this good?"}, {"role": "assistant", "content": "No."}, {"role": "user", "content": "Why?"}]`,
				`"prompt": "Is that good?", "think": "high", "plan": "local", "deadline": "2030-01-02T12:00:00Z"`,
				`"prompt": "Is this good?", "format": {"type": "object", "properties": {"good": {"enum": ["yes", "no"]}}, "required": ["good"], "additionalProperties": false}`,
			} {
				job := []byte(`{"v": 1, "model": "` + tt.model + `", "options": {"temperature": 0, "num_predict": 16, "num_ctx": 100}, ` + fields + `}`)
				text := asked(t, e, job)
				if answer, err := e.Answer(t.Context(), job); err != nil || answer != text {
					t.Errorf("Answer: %q, %v; want %q, as of Ask", answer, err, text)
				}
				if before, ok := seen[text]; ok {
					t.Errorf("%s and %s have the same text", before, fields)
				}
				seen[text] = fields
				var answer struct{ Good string }
				if fields[len(fields)-1] == '}' && (json.Unmarshal([]byte(text), &answer) != nil || answer.Good == "") {
					t.Errorf("%q does not have the format", text)
				}
			}
			for _, job := range []string{`{`, `{"model": "` + tt.model + `"}`} {
				if texts, err := e.Ask(t.Context(), []byte(job)); err == nil {
					t.Errorf("Ask(%s): %q; want an error", job, texts)
				}
			}
		})
	}
}

func TestStartRefuses(t *testing.T) {
	for name, err := range map[string]error{
		"no program": func() error {
			_, err := engines.StartNoop(t.Context(), engines.Options{Dir: t.TempDir(), Models: []string{"a"}})
			return err
		}(),
		"no model": func() error {
			_, err := engines.StartOllama(t.Context(), engines.Options{Dir: t.TempDir()})
			return err
		}(),
		"two models": func() error {
			_, err := engines.StartLlamaServer(t.Context(), engines.Options{Dir: t.TempDir(), Models: []string{"a", "b"}})
			return err
		}(),
	} {
		if err == nil {
			t.Errorf("%s: started", name)
		}
	}
}
