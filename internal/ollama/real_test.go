package ollama_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tandem/internal/engine/enginetest"
	"tandem/internal/ollama"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
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
	models["thinker:1b"] = thinker()
	server := standintest.StartOllama(t, standin.OllamaOptions{Models: models})
	makeThinker(t, server.URL(), "thinker:1b")

	for model, want := range map[string]string{standin.CodeModel: "", standin.FeedbackModel: "byte-pair"} {
		e := newEngine(t, ollama.Options{URL: server.URL(), Model: model, Handover: ollama.HandoverContext})
		p, err := e.Prefill(t.Context(), greedy("def fibonacci(n):", 8))
		if err != nil || p.Literal != (want == "") || !strings.Contains(p.Note, want) {
			t.Errorf("%s: literal %t, note %q (%v); want a refusal about %q", model, p.Literal, p.Note, err, want)
		}
	}
	for _, tt := range []struct{ model, handover string }{
		{standin.CodeModel, ollama.HandoverAuto},
		{standin.FeedbackModel, ollama.HandoverAuto},
		{standin.CodeModel, ollama.HandoverContext},
		{standin.FeedbackModel, ollama.HandoverContext},
	} {
		t.Run(tt.model+" "+tt.handover, func(t *testing.T) {
			enginetest.Run(t, func(t testing.TB) enginetest.Subject {
				e := newEngine(t, ollama.Options{URL: server.URL(), Model: tt.model, Handover: tt.handover})
				return enginetest.Subject{
					Engine:      e,
					Thinker:     newEngine(t, ollama.Options{URL: server.URL(), Model: "thinker:1b"}),
					Missing:     newEngine(t, ollama.Options{URL: server.URL(), Model: "absent:1b"}),
					Unreachable: newEngine(t, ollama.Options{URL: closed, Model: tt.model}),
					Slots:       1,
					Forget: func(ctx context.Context) error {
						unload(t, server.URL(), tt.model)
						return e.Load(ctx)
					},
				}
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

func makeThinker(t testing.TB, url, model string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": model, "from": model, "template": thinkTemplate, "stream": false})
	if err != nil {
		t.Fatal(err)
	}
	if status, _, answer := ask(t, url+"/api/create", string(body)); status != http.StatusOK {
		t.Fatalf("make a model that thinks: status %d: %s", status, answer)
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
