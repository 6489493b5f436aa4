package engines_test

import (
	"context"
	"testing"

	"tandem/internal/engine/enginetest"
	"tandem/internal/ollama"
	"tandem/test/rig/engines"
)

// TestNoopConforms holds the program to what every engine promises.
func TestNoopConforms(t *testing.T) {
	const model = "second:1b"
	noop := started(t, engines.StartNoop, engines.Options{Models: []string{"first:1b", model}, Slots: 3, Programs: noopPrograms(t)})
	enginetest.Run(t, func(t testing.TB) enginetest.Subject {
		worker := func(url, model string) *ollama.Engine {
			e, err := ollama.New(ollama.Options{URL: url, Model: model, NumCtx: 4096, NumThread: 1})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		url := "http://" + noop.Addr()
		e := worker(url, model)
		return enginetest.Subject{
			Engine: e, Missing: worker(url, "absent:1b"), Unreachable: worker("http://127.0.0.1:1", model), Slots: 3,
			Forget: func(ctx context.Context) error {
				if err := noop.Unload(ctx); err != nil {
					return err
				}
				return e.Load(ctx)
			},
			Cannot: map[enginetest.Ability]string{
				enginetest.States: "there is no llama-server in a fake", enginetest.Thinking: "the program's models cannot",
				enginetest.Tools: "likewise", enginetest.Images: "likewise", enginetest.Embeddings: "likewise", enginetest.Logprobs: "likewise",
			},
		}
	})
}
