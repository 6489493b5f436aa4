// Command noopengine is the fake Ollama as a program: an engine that computes nothing, for volume. Its texts depend only on prompt and options.
package main

import (
	"context"
	"flag"

	"tandem/internal/ollama/ollamatest"
	"tandem/test/rig/serve"
)

func main() { serve.Main("noopengine", define) }

func define(flags *flag.FlagSet) serve.Start {
	var models []string
	o := ollamatest.Options{Unrecorded: true}
	flags.Func("model", "`name` of a model; may be given several times", func(name string) error {
		models = append(models, name)
		return nil
	})
	flags.IntVar(&o.Slots, "slots", 1, "requests computed at once for each model")
	flags.DurationVar(&o.PerToken, "per-token", 0, "time for each token, of the prompt (if not cached) and of the answer")
	return func(ctx context.Context, listen string) (string, func(), error) {
		if len(models) > 0 {
			o.Model, o.Others = models[0], models[1:]
		}
		s, err := ollamatest.Listen(ctx, listen, o)
		if err != nil {
			return "", nil, err
		}
		return s.URL(), s.Down, nil
	}
}
