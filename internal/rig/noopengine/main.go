// Command noopengine is the fake Ollama as a program: an engine that computes nothing, for volume. Its texts depend only on prompt and options.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"tandem/internal/ollama/ollamatest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "noopengine: %v\n", err)
		os.Exit(1)
	}
}

// run serves until the context ends. It writes one line, once it listens.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	var models []string
	o := ollamatest.Options{Unrecorded: true}
	flags := flag.NewFlagSet("noopengine", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "`host:port` to listen on; port 0 is any free one")
	flags.Func("model", "`name` of a model; may be given several times", func(name string) error {
		models = append(models, name)
		return nil
	})
	flags.IntVar(&o.Slots, "slots", 1, "requests computed at once for each model")
	flags.DurationVar(&o.PerToken, "per-token", 0, "time for each token, of the prompt (if not cached) and of the answer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("read arguments: %q is none; all are flags, see -help", flags.Arg(0))
	}
	if len(models) > 0 {
		o.Model, o.Others = models[0], models[1:]
	}
	s, err := ollamatest.Listen(ctx, *listen, o)
	if err != nil {
		return err
	}
	defer s.Down()
	fmt.Fprintf(stdout, "Listening on %s\n", s.URL())
	<-ctx.Done()
	return nil
}
