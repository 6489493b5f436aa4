package llamacpp

import (
	"context"
	"fmt"
	"testing"

	"tandem/internal/engine/enginetest"
	"tandem/internal/gguf"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
)

// kinds are models of every shape and both kinds of tokenizers.
func kinds() []tinymodel.Spec {
	list := []tinymodel.Spec{tinymodel.Tiny(tinymodel.SentencePiece)}
	for _, shape := range tinymodel.Shapes() {
		list = append(list, tinymodel.TinyShape(shape, tinymodel.BPE))
	}
	return list
}

func TestConformance(t *testing.T) {
	for i, spec := range kinds() {
		slots := []int{4, 1}[i%2]
		t.Run(fmt.Sprintf("%s %s %d slots", spec.Shape, spec.Tokenizer, slots), func(t *testing.T) {
			enginetest.Run(t, func(t testing.TB) enginetest.Subject {
				o := Options{Model: "tiny:latest", ModelFile: modelOf(t, spec), Slots: slots, NumCtx: 2048}
				machine := func() *Engine {
					o.StateDir = t.TempDir()
					return supervised(t, o)
				}
				e := machine()
				dead, err := New(Options{URL: "http://127.0.0.1:1"})
				if err != nil {
					t.Fatal(err)
				}
				header, err := gguf.Read(o.ModelFile)
				if err != nil {
					t.Fatal(err)
				}
				return enginetest.Subject{
					Engine: e, Peer: machine(), Window: header.WindowTokens, Slots: slots, Unreachable: dead,
					Forget:  func(ctx context.Context) error { return forget(ctx, e) },
					Thinker: attachedTo(t, "--chat-template-file", write(t, "thinker.jinja", standintest.Thinker), "--ctx-size", "1024", "--parallel", "1"),
					Caller:  supervised(t, Options{Model: "caller:1b", ModelFile: modelOf(t, standin.Caller()), Slots: 1, NumCtx: 1024, StateDir: t.TempDir()}),
					Cannot: map[enginetest.Ability]string{
						enginetest.Images:       "llama-server saves no states of a model with a projector, so that --engine openai does as much with it",
						enginetest.Embeddings:   "the llama-servers that this engine starts compute prompts in slots, which one with --embeddings does not",
						enginetest.MissingModel: "a llama-server has the one model that it was started with",
					},
				}
			})
		})
	}
}
