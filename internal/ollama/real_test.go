package ollama_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"tandem/internal/engine/enginetest"
	"tandem/internal/ollama"
	"tandem/internal/standin"
	"tandem/internal/tinymodel"
)

// thinkTemplate makes Ollama take all that a model writes for thinking, unless thinking is off.
const thinkTemplate = `{{ range .Messages }}<|im_start|>{{ .Role }}
{{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}{{ .Content }}<|im_end|>
{{ end }}<|im_start|>assistant
{{ if .Think }}<think>{{ end }}`

// TestReal runs the suite against a real Ollama, with either kind of tokenizer and hand-over.
func TestReal(t *testing.T) {
	models := standin.Models()
	models["thinker:1b"], models["caller:1b"] = thinker(), standin.Caller()
	models["seer:1b"], models["embedder:1b"] = standin.Seer(), standin.Embedder()
	server, other := startMachine(t, 1, models), startMachine(t, 1, standin.Models())
	create(t, server.URL(), map[string]any{"model": "thinker:1b", "from": "thinker:1b", "template": thinkTemplate})

	for _, tt := range []struct {
		model string
		shim  bool
	}{{standin.CodeModel, true}, {standin.FeedbackModel, true}, {standin.CodeModel, false}} {
		t.Run(fmt.Sprintf("%s, shim %t", tt.model, tt.shim), func(t *testing.T) {
			enginetest.Run(t, func(t testing.TB) enginetest.Subject {
				s := enginetest.Subject{
					Engine:      server.engine(t, tt.model),
					Peer:        other.engine(t, tt.model),
					Thinker:     server.engine(t, "thinker:1b"),
					Caller:      server.engine(t, "caller:1b"),
					Seer:        server.engine(t, "seer:1b"),
					Embedder:    server.engine(t, "embedder:1b"),
					Missing:     server.engine(t, "absent:1b"),
					Unreachable: server.engineAt(t, closed, tt.model),
					Slots:       1,
					Window:      window(t, models[tt.model]),
				}
				if !tt.shim {
					s.Engine = newEngine(t, ollama.Options{URL: server.URL(), Model: tt.model})
					s.Peer, s.Cannot = nil, map[enginetest.Ability]string{enginetest.States: "the engine knows of no shim"}
				}
				s.Forget = func(ctx context.Context) error {
					unload(t, server.URL(), tt.model)
					return s.Engine.Load(ctx)
				}
				return s
			})
		})
	}
}

// thinker is a model unlike the others: Ollama takes two names of one file for one model.
func thinker() tinymodel.Spec {
	spec := tinymodel.Tiny(tinymodel.BPE)
	spec.Seed = 2
	return spec
}

// create makes a model of what is there already.
func create(t testing.TB, url string, model map[string]any) {
	t.Helper()
	model["stream"] = false
	body, err := json.Marshal(model)
	if err != nil {
		t.Fatal(err)
	}
	if status, _, answer := ask(t, url+"/api/create", string(body)); status != http.StatusOK {
		t.Fatalf("create %v: status %d: %s", model["model"], status, answer)
	}
}

// unload drops a model, and returns when it is gone: Ollama answers before that.
func unload(t testing.TB, url, model string) {
	t.Helper()
	ask(t, url+"/api/generate", fmt.Sprintf(`{"model": %q, "keep_alive": 0}`, model))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for {
		if _, _, running := ask(t, url+"/api/ps", ""); !bytes.Contains(running, []byte(model)) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s is still loaded after 30 s", model)
		}
	}
}
