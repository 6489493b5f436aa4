// Command pacedserver is the paced engine as a program: a look-alike of llama-server that takes as long as a fleet's table says.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"

	"tandem/internal/rig/paced"
	"tandem/internal/rig/paced/fleet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "pacedserver: %v\n", err)
		os.Exit(1)
	}
}

// run serves until the context ends. It writes one line, once it listens.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	var o paced.Options
	flags := flag.NewFlagSet("pacedserver", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "`host:port` to listen on; port 0 is any free one")
	file := flags.String("fleet", "", "`file` of test/fleets")
	dir := flags.String("slot-save-path", "", "`folder` of the states, and of the model file; it must be there")
	flags.StringVar(&o.Machine, "machine", "", "`name` of a machine of the fleet")
	flags.Float64Var(&o.TimeScale, "time-scale", 1, "`factor` of all durations")
	flags.Float64Var(&o.SizeScale, "size-scale", 1, "`factor` of the bytes of states; how long they take stays as it is")
	flags.BoolVar(&o.Slower, "slower", false, "as much slower as the fleet says that the machine has become; also POST /paced {\"slower\": 3}")
	flags.IntVar(&o.Context, "ctx-size", 65536, "`tokens` of each slot")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("read arguments: %q is none; all are flags, see -help", flags.Arg(0))
	}
	var err error
	if o.Fleet, err = fleet.Read(*file); err != nil {
		return err
	}
	if o.Dir, err = filepath.Abs(*dir); err != nil {
		return fmt.Errorf("find folder of states: %w", err)
	}
	runtime.GOMAXPROCS(1)    // many of these run beside what is measured,
	debug.SetGCPercent(1000) // and their few megabytes need no thrift
	s, err := paced.Start(*listen, o)
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Fprintf(stdout, "Listening on %s\n", s.URL())
	<-ctx.Done()
	return nil
}
