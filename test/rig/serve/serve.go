// Package serve is what engines that stand in for real ones have in common as programs: their flags, a line that says where they listen, and an end by signal.
package serve

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Start starts an engine at host:port once the flags are read; it serves until stop is called.
type Start func(ctx context.Context, listen string) (url string, stop func(), err error)

// Main is the main function of the engine of a name, which adds its flags to --listen. It writes one line, once the engine listens, and returns when a signal
// has ended it.
func Main(name string, define func(*flag.FlagSet) Start) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, name, define); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name string, define func(*flag.FlagSet) Start) error {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "`host:port` to listen on; port 0 is any free one")
	start := define(flags)
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("read arguments: %q is none; all are flags, see -help", flags.Arg(0))
	}
	url, stop, err := start(ctx, *listen)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("Listening on %s\n", url)
	<-ctx.Done()
	return nil
}
