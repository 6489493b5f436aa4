package ollama_test

import (
	"context"
	"testing"

	"tandem/internal/engine/enginetest"
	"tandem/internal/ollama"
	"tandem/internal/ollama/ollamatest"
)

// closed is an address at which nobody listens: port 1 is below those that programs are given.
const closed = "http://127.0.0.1:1"

// newEngine returns an engine with the context size of all tests.
func newEngine(t testing.TB, o ollama.Options) *ollama.Engine {
	t.Helper()
	o.NumCtx, o.NumThread = 4096, 1
	e, err := ollama.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestFake(t *testing.T) {
	for name, options := range map[string]ollamatest.Options{
		"one slot": {Slots: 1}, "three slots": {Slots: 3}, "older": {Slots: 1, Version: "0.33.1"},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.Run(t, func(t testing.TB) enginetest.Subject {
				fake := ollamatest.Start(t, options)
				options := options
				options.Thinks = true
				thinker := ollamatest.Start(t, options)
				s := enginetest.Subject{
					Engine:      newEngine(t, ollama.Options{URL: fake.URL(), Model: fake.Model()}),
					Thinker:     newEngine(t, ollama.Options{URL: thinker.URL(), Model: thinker.Model()}),
					Missing:     newEngine(t, ollama.Options{URL: fake.URL(), Model: "absent:1b"}),
					Unreachable: newEngine(t, ollama.Options{URL: closed, Model: fake.Model()}),
					Slots:       max(options.Slots, 1),
					Forget:      func(context.Context) error { fake.Forget(); return nil },
				}
				s.Cannot = map[enginetest.Ability]string{enginetest.States: "there is no llama-server in a fake", enginetest.Tools: "its model calls nothing", enginetest.Logprobs: "it says none", enginetest.Images: "its model sees nothing", enginetest.Embeddings: "its model generates text"}
				if options.Version != "" {
					s.Cannot[enginetest.CacheCounts] = "Ollama " + options.Version + " does not count them"
				}
				return s
			})
		})
	}
}
