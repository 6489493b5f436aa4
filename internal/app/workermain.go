package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/telemetry"
	"tandem/jobs"
)

// PrefillWorkerMain is the command prefill-worker; it returns the exit code.
func PrefillWorkerMain(args []string, stdout, stderr io.Writer) int {
	return workerMain(protocol.RolePrefill, "prefill-worker", "127.0.0.1:8000",
		"Computes prompts for one model: takes jobs from the intake, hands them on to decode.", args, stdout, stderr)
}

// DecodeWorkerMain is the command decode-worker; it returns the exit code.
func DecodeWorkerMain(args []string, stdout, stderr io.Writer) int {
	return workerMain(protocol.RoleDecode, "decode-worker", "127.0.0.1:8001",
		"Generates text for one model: takes jobs that were prefilled, and whole ones when no prefill worker lives.", args, stdout, stderr)
}

func workerMain(role jobs.Stage, name, addr, about string, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "shim" {
		return shimMain(name, args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "handover" && role == protocol.RoleDecode {
		return handoverMain(name, addr, args[1:], stdout, stderr)
	}
	about += " '" + name + " shim' makes the KV cache inside an installed Ollama reachable."
	var flags WorkerFlags
	exited := -1
	parser, err := kong.New(&flags, kong.Name(name), kong.Description(about), kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exited = code }), kong.Configuration(YAMLFile),
		kong.Vars{"http": addr, "nats": queue.DefaultURL, "version": VersionLine(name)})
	if err != nil {
		panic(err) // the flags themselves are wrong: a bug
	}
	ctx, err := parser.Parse(args)
	switch {
	case exited >= 0: // --help or --version said all
		return exited
	case err != nil:
		fmt.Fprintf(stderr, "%s: %s\nTry %s --help.\n", name, protocol.RedactText(err.Error()), name)
		return ExitUsage
	case flags.PrintConfig:
		err = PrintConfig(stdout, ctx)
	default:
		err = runWorker(role, flags, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
	}
	return ExitCode(err)
}

// runWorker runs a worker until SIGTERM or an interrupt drains it; a second signal aborts.
func runWorker(role jobs.Stage, flags WorkerFlags, stderr io.Writer) error {
	log, err := telemetry.NewLogger(stderr, flags.LogFormat, flags.LogLevel)
	if err != nil {
		return err
	}
	defer telemetry.StartTraces(string(role)+"-worker", Version(), log)()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)

	aborts := make(chan func(), 1)
	done := make(chan struct{})
	defer close(done)
	go func() {
		abort := func() {}
		for count := 0; ; {
			select {
			case abort = <-aborts:
			case <-signals:
				if count++; count == 1 {
					cancel(ErrInterrupted)
				} else {
					abort()
				}
			case <-done:
				return
			}
		}
	}()

	w, err := StartWorker(ctx, WorkerConfig{Role: role, Flags: flags, Log: log})
	switch {
	case errors.Is(context.Cause(ctx), ErrInterrupted) && err != nil:
		return nil // stopped before it had anything to drain
	case err != nil:
		return err
	}
	aborts <- w.Abort
	return w.Run(ctx)
}
