package app

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"tandem/internal/pipeline"
	"tandem/internal/protocol"
	"tandem/internal/queue"
)

// handoverCommands are the subcommands of `decode-worker handover`. They take the worker's own settings, from flags,
// environment and file, because these say where its files are.
type handoverCommands struct {
	Clear struct {
		Machine string `arg:"" optional:"" name:"machine" help:"Machine from which KV states are to be taken again; all if not given." placeholder:"MACHINE"`
	} `cmd:"" help:"Take KV states again from a machine from which hand-overs were stopped, since its engine's first predictions differed. A worker that runs notices."`

	Settings WorkerFlags `embed:""`
}

// handoverMain runs one of the subcommands for the worker of that name, whose HTTP address is addr if nothing else is said.
func handoverMain(name, addr string, args []string, stdout, stderr io.Writer) int {
	var commands handoverCommands
	exited := -1
	parser, err := kong.New(&commands, kong.Name(name+" handover"), kong.Writers(stdout, stderr),
		kong.Description("What an operator may have to do about the hand-over of KV states. Name the worker's --model, --state-dir or --config as for the worker itself."),
		kong.Exit(func(code int) { exited = code }), kong.Configuration(YAMLFile), kong.Vars{"http": addr, "nats": queue.DefaultURL, "version": VersionLine(name)})
	if err != nil {
		panic(err) // the flags themselves are wrong: a bug
	}
	_, err = parser.Parse(args)
	switch {
	case exited >= 0:
		return exited
	case err != nil:
		fmt.Fprintf(stderr, "%s handover: %s\nTry %s handover --help.\n", name, protocol.RedactText(err.Error()), name)
		return ExitUsage
	}
	if err = commands.clear(stdout); err != nil {
		fmt.Fprintf(stderr, "%s handover: %v\n", name, err)
	}
	return ExitCode(err)
}

func (c *handoverCommands) clear(out io.Writer) error {
	if err := c.Settings.complete(); err != nil {
		return err
	}
	file := stoppedFile(c.Settings)
	cleared, err := pipeline.ClearPairs(file, c.Clear.Machine)
	switch {
	case err != nil:
		return err
	case len(cleared) == 0 && c.Clear.Machine != "":
		fmt.Fprintf(out, "hand-overs from %s to this worker are not stopped (%s); nothing to do\n", c.Clear.Machine, file)
	case len(cleared) == 0:
		fmt.Fprintf(out, "no hand-overs to this worker are stopped (%s); nothing to do\n", file)
	default:
		fmt.Fprintf(out, "KV states from %s are taken again\n", strings.Join(cleared, ", "))
	}
	return nil
}
