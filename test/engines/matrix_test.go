// Package engines holds the hand-over to its promises on real engines: every kind of model, pairs of
// Ollamas and of llama-servers, small prompts in `make test` and the whole matrix in `make test-engines`.
package engines

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/engine/enginetest"
	"tandem/internal/llamacpp"
	"tandem/internal/ollama"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
)

// whole says that the whole matrix is wanted, which takes minutes.
func whole() bool { return os.Getenv("TANDEM_MATRIX") == "whole" }

const model = "matrix:1b"

// pairs start two engines with the same model, as on two machines.
var pairs = map[string]func(t *testing.T, spec tinymodel.Spec, slots, numCtx int) (prefill, decode engine.Engine){
	"ollama": func(t *testing.T, spec tinymodel.Spec, slots, numCtx int) (prefill, decode engine.Engine) {
		start := func() engine.Engine {
			s := standintest.StartOllama(t, standin.OllamaOptions{Models: map[string]tinymodel.Spec{model: spec}, NumParallel: slots})
			e, err := ollama.New(ollama.Options{URL: s.URL(), Model: model, NumCtx: numCtx, NumThread: 1, RunDir: s.RunDir(), StatePrefix: "matrix-"})
			return opened(t, e, err)
		}
		return start(), start()
	},
	"llama-server": func(t *testing.T, spec tinymodel.Spec, slots, numCtx int) (prefill, decode engine.Engine) {
		file, binary := standintest.ModelFile(t, spec), standintest.Engines(t).LlamaServer
		start := func() engine.Engine {
			dir := t.TempDir()
			e, err := llamacpp.New(llamacpp.Options{
				Model: model, Binary: binary, ModelFile: file, Slots: slots, NumCtx: numCtx, Threads: 1,
				StateDir: dir, LogFile: filepath.Join(dir, "log"), StatePrefix: "matrix-",
			})
			return opened(t, e, err)
		}
		return start(), start()
	},
}

func opened(t *testing.T, e engine.Engine, err error) engine.Engine {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// TestHandover: the decode side writes what the prefill side would have gone on to write and computes
// one token of the prompt, for every shape of model.
func TestHandover(t *testing.T) {
	slots, tokens, long := []int{4}, []int{64, 500}, []int{}
	if whole() {
		slots, tokens, long = []int{1, 4}, []int{64, 500, 2000}, []int{8000}
	}
	for name, start := range pairs {
		for i, shape := range tinymodel.Shapes() {
			for _, n := range slots {
				lengths := tokens
				if name == "llama-server" {
					lengths = append(lengths[:len(lengths):len(lengths)], long...)
				}
				tokenizer := []tinymodel.Tokenizer{tinymodel.BPE, tinymodel.SentencePiece}[i%2]
				t.Run(fmt.Sprintf("%s %s %d slots", name, shape, n), func(t *testing.T) {
					pair := enginetest.Pair{Slots: n, Tokens: lengths}
					if shape == tinymodel.GPTOSS {
						pair.Window = 128
					}
					pair.Prefill, pair.Decode = start(t, tinymodel.TinyShape(shape, tokenizer), n, max(4096, lengths[len(lengths)-1]*3/2))
					enginetest.Handover(t, pair)
				})
			}
		}
	}
}
