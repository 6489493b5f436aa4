package llamacpp

import (
	"context"
	"fmt"
	"testing"

	"tandem/internal/engine/enginetest"
)

func TestConformance(t *testing.T) {
	for i, tokenizer := range tokenizers {
		slots := i + 1
		t.Run(fmt.Sprintf("%s %d slots", tokenizer, slots), func(t *testing.T) {
			enginetest.Run(t, func(t testing.TB) enginetest.Subject {
				e := supervised(t, Options{Model: "tiny:latest", ModelFile: model(t, tokenizer), Slots: slots, NumCtx: 2048})
				dead, err := New(Options{URL: "http://127.0.0.1:1"})
				if err != nil {
					t.Fatal(err)
				}
				return enginetest.Subject{
					Engine: e, Slots: slots, Unreachable: dead,
					Forget:  func(ctx context.Context) error { return forget(ctx, e) },
					Thinker: attachedTo(t, "--chat-template-file", write(t, "thinker.jinja", thinker), "--ctx-size", "1024", "--parallel", "1"),
					Cannot:  map[enginetest.Ability]string{enginetest.MissingModel: "a llama-server has the one model that it was started with"},
				}
			})
		})
	}
}
