// Command gatewaybench measures what the gateway adds to an engine, and kills it and a worker under load: NATS that syncs each write, and an engine that computes
// nothing, in this process; the gateway and the workers in processes of their own. It prints the figures of docs/MEASUREMENTS.md; `make bench-gateway` runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	o := options{work: os.Stderr}
	flag.IntVar(&o.rounds, "rounds", 300, "requests of each kind whose latency is measured")
	flag.IntVar(&o.streams, "streams", 200, "streams at the same time")
	flag.IntVar(&o.requests, "requests", 100_000, "requests after which memory is looked at")
	flag.IntVar(&o.killed, "killed", 2_000, "requests while the gateway and a worker are killed")
	flag.IntVar(&o.lines, "lines", 50_000, "lines of the batch during which the gateway is killed three times")
	flag.IntVar(&o.jobs, "jobs", 0, "jobs in the streams that the console looks at; at most 200,000")
	flag.StringVar(&o.bin, "bin", "bin", "folder of the programs")
	flag.StringVar(&o.pages, "pages", "test/pages", "folder of the script that has a browser paint pages")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := Run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gatewaybench:", err)
		os.Exit(1)
	}
}

// options say how much of each; 0 leaves a part out.
type options struct {
	rounds, streams, requests, killed, lines, jobs int
	bin                                            string
	pages                                          string    // folder of the script that has a browser paint pages; none is painted if it is empty
	work                                           io.Writer // what the programs log
}

// Run measures, and fails where something is lost, twice or in another order.
func Run(ctx context.Context, o options, out io.Writer) (err error) {
	s, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if failed := s.stop(); err == nil {
			err = failed
		}
	}()
	for _, part := range []struct {
		name  string
		times int
		run   func(ctx context.Context, n int, out io.Writer) error
	}{
		{"latency", o.rounds, s.latency}, {"streams", o.streams, s.manyStreams}, {"rate and memory", o.requests, s.rate}, {"kills", o.killed, s.kills}, {"batch", o.lines, s.batch},
		{"console", o.jobs, s.consoles},
	} {
		if part.times == 0 {
			continue
		}
		if err := part.run(ctx, part.times, out); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}
