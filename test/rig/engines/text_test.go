package engines_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/llamacpp"
	"tandem/internal/ollama"
	"tandem/internal/standin"
	"tandem/jobs"
	"tandem/test/rig/engines"
)

// TestHandedOverTextIsTheEnginesOwn: what two workers make of a job, prefill here and decode there, is what an engine says when asked directly, to the letter.
func TestHandedOverTextIsTheEnginesOwn(t *testing.T) {
	const numCtx = 2048
	for name, tt := range map[string]struct {
		start  starter
		models map[string]int // largest prompts, in words
		worker func(url, dir, model string) (engine.Engine, error)
	}{
		"ollama": {engines.StartOllama, map[string]int{plainModel: 400, standin.CodeModel: 400, standin.FeedbackModel: 40}, func(url, dir, model string) (engine.Engine, error) {
			return ollama.New(ollama.Options{URL: url, Model: model, NumCtx: numCtx, NumThread: 1, RunDir: dir})
		}},
		"llama-server": {engines.StartLlamaServer, map[string]int{standin.CodeModel: 400}, func(url, dir, model string) (engine.Engine, error) {
			return llamacpp.New(llamacpp.Options{URL: url, Model: model, Slots: 1, SlotDir: dir})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := engines.Options{Models: slices.Collect(maps.Keys(tt.models)), NumCtx: numCtx}
			there, here := started(t, tt.start, o), started(t, tt.start, o)
			for model, words := range tt.models {
				t.Run(model, func(t *testing.T) {
					worker := func(e engines.Engine) engine.Engine {
						flags := e.Flags("")
						w, err := tt.worker("http://"+e.Addr(), flags[len(flags)-1], model)
						if err != nil {
							t.Fatal(err)
						}
						t.Cleanup(func() { w.Close() })
						if err := w.Load(t.Context()); err != nil {
							t.Fatal(err)
						}
						return w
					}
					prefill, decode := worker(there), worker(here)
					random := rand.New(rand.NewPCG(3, 14))
					for range 6 {
						job := question(t, model, prose(random, 5+random.IntN(words)))
						text := handedOver(t, prefill, decode, job)
						if right, err := here.Ask(t.Context(), job); err != nil || !slices.Contains(right, text) {
							t.Errorf("handed over: %q; asked: %q, %v", text, right, err)
						}
					}
				})
			}
		})
	}
}

// prose is n words that repeat little.
func prose(random *rand.Rand, n int) string {
	words := strings.Fields("the frame plot of weather city mean sum function return result chart explain answer code median price index loop table filter axis label points")
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "%s%d ", words[random.IntN(len(words))], random.IntN(30))
	}
	return b.String()
}

// handedOver is the text of a job whose state moves from one engine to another.
func handedOver(t *testing.T, prefill, decode engine.Engine, record []byte) string {
	t.Helper()
	var job jobs.Job
	if err := json.Unmarshal(record, &job); err != nil {
		t.Fatal(err)
	}
	req := engine.RequestOf(&job)
	req.Export = true
	p, err := prefill.Prefill(t.Context(), req)
	if err != nil || p.State == nil {
		t.Fatalf("Prefill: state %v, %s %q, %v", p.State, p.Failure, p.Note, err)
	}
	d, err := decode.Describe(t.Context())
	if err != nil || d.KVTransfer == nil {
		t.Fatalf("Describe: %s, %v; want an engine that moves states", d.NoKVTransfer, err)
	}
	moved := *p.State
	moved.Path = filepath.Join(d.KVTransfer.Dir, "moved-"+filepath.Base(moved.Path))
	if err := os.Rename(p.State.Path, moved.Path); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(moved.Path)
	p.State = &moved
	c, err := decode.Decode(t.Context(), req, p, func(jobs.Chunk) error { return nil })
	if err != nil || c.Imported == nil {
		t.Fatalf("Decode: imported %v, warnings %q, %v", c.Imported, c.Warnings, err)
	}
	return c.Text
}
