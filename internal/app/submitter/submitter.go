// Package submitter is the command submitter: the client through which jobs, and what became of
// them, are seen by people and scripts.
//
// Results go to stdout, everything else to stderr, and the exit code says how it went (app.ExitCode).
// The text of an answer is sanitized where stdout is a terminal; whatever else others wrote, in tables, summaries and
// errors, always is. Neither appears in logs.
package submitter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/alecthomas/kong"

	"tandem/internal/app"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/sanitize"
)

const (
	name  = "submitter"
	about = "Sends prompts to Tandem, where one machine prefills and another decodes, and collects the results."
)

// grammar is the command line. Each command is a file of this package.
type grammar struct {
	settings

	Submit     submitCmd     `cmd:"" help:"Run one prompt and print the answer."`
	Batch      batchCmd      `cmd:"" help:"Run a file of jobs, one result file each."`
	Grade      gradeCmd      `cmd:"" help:"Grade a class: notebooks, a rubric and a solution in, pages and grades out."`
	Review     reviewCmd     `cmd:"" help:"Look at a graded class, and decide: points, comments, what is final."`
	Release    releaseCmd    `cmd:"" help:"Write the pages that students get."`
	Together   togetherCmd   `cmd:"" help:"Add up an assignment of several notebooks."`
	Calibrate  calibrateCmd  `cmd:"" help:"Judge a sample yourself, and see how far the models agree."`
	Rubric     rubricCmd     `cmd:"" help:"Check a rubric against its solution and template, or write a first one."`
	Prompts    promptsCmd    `cmd:"" help:"Write the grader's prompt templates, to change them."`
	Await      awaitCmd      `cmd:"" help:"Wait again for a job or a batch."`
	Result     resultCmd     `cmd:"" help:"Print a job's result, or where the job is."`
	Cancel     cancelCmd     `cmd:"" help:"Cancel a job or a batch."`
	Status     statusCmd     `cmd:"" help:"Show machines, models, engines and queues."`
	Explain    explainCmd    `cmd:"" help:"Say what plan auto would decide, and why."`
	Doctor     doctorCmd     `cmd:"" help:"Check every link of the chain and say what to fix."`
	DLQ        dlqCmd        `cmd:"" name:"dlq" help:"Look at jobs that could not be done, and run them again."`
	Purge      purgeCmd      `cmd:"" help:"Remove a batch everywhere."`
	Admin      adminCmd      `cmd:"" help:"Set an installation up: rights, graders, streams."`
	Dev        devCmd        `cmd:"" help:"Run the whole system in this process."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
	Completion completionCmd `cmd:"" help:"Print a completion script for a shell."`
}

// settings are the flags of all commands.
type settings struct {
	NATS        string `name:"nats" group:"connection" env:"TANDEM_NATS" placeholder:"URL" help:"NATS server, several separated by commas (default ${nats})."`
	Creds       string `group:"connection" env:"TANDEM_CREDS" placeholder:"FILE" help:"NATS credentials."`
	NKey        string `name:"nkey" group:"connection" env:"TANDEM_NKEY" placeholder:"FILE" help:"NATS nkey seed."`
	TLSCA       string `name:"tls-ca" group:"connection" env:"TANDEM_TLS_CA" placeholder:"FILE" help:"Certificate authority of the NATS server."`
	NATSContext string `name:"nats-context" group:"connection" env:"TANDEM_NATS_CONTEXT" placeholder:"NAME" help:"Context that the nats CLI saved, in the place of the four above."`
	User        string `group:"connection" env:"TANDEM_USER" placeholder:"NAME" help:"Whose jobs and results these are (default: as the nkey file says, else the login name)."`

	Local     bool   `group:"local" help:"Run the whole system in this process just for this command."`
	Engine    string `group:"local" enum:",ollama,llamacpp,standin" default:"" placeholder:"KIND" env:"TANDEM_ENGINE" help:"Engine for --local and dev: ollama, llamacpp or standin (default: an Ollama that has the model, else stand-ins)."`
	EngineURL string `name:"engine-url" group:"local" env:"TANDEM_ENGINE_URL" placeholder:"URL" help:"Engine that runs already."`
	ModelFile string `name:"model-file" group:"local" env:"TANDEM_MODEL_FILE" type:"path" placeholder:"FILE" help:"GGUF file for --engine llamacpp."`

	JSON      bool             `name:"json" short:"j" group:"output" help:"JSON on stdout."`
	Quiet     bool             `short:"q" group:"output" help:"No progress and no summaries."`
	LogFormat string           `name:"log-format" group:"output" env:"TANDEM_LOG_FORMAT" enum:"auto,text,json" default:"auto" placeholder:"FORMAT" help:"Log as text or json; auto is text on a terminal."`
	Config    configFile       `group:"output" env:"TANDEM_CONFIG" default:"${config}" placeholder:"FILE" help:"YAML file with any of these settings (default tandem/submitter.yaml in the user's configuration folder)."`
	Version   kong.VersionFlag `name:"version" group:"output" help:"Print the version."`
}

// configFile is a flag that loads the settings that the command line and the environment leave open.
type configFile string

// BeforeResolve is called by kong between reading the command line and filling in the rest.
func (configFile) BeforeResolve(k *kong.Kong, ctx *kong.Context, trace *kong.Path) error {
	path, _ := ctx.FlagValue(trace.Flag).(configFile)
	if path == "" {
		return nil
	}
	file, err := k.LoadConfig(string(path))
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	ctx.AddResolver(file)
	return nil
}

// defaultConfig is the configuration file that is read unasked, "" if there is none.
func defaultConfig() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	path := filepath.Join(dir, "tandem", "submitter.yaml")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// newParser returns the parser of the command line. exited is set to the exit code by what ends the
// program while it is read: --help and --version.
func newParser(g *grammar, stdout, stderr io.Writer, exited *int) (*kong.Kong, error) {
	return kong.New(g, kong.Name(name), kong.Description(about), kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { *exited = code }),
		kong.Configuration(app.YAMLFile),
		kong.Help(printHelp),
		kong.ExplicitGroups([]kong.Group{
			{Key: "connection", Title: "Connection:"}, {Key: "local", Title: "Local system:"}, {Key: "output", Title: "Output:"},
		}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100, FlagsLast: true}),
		kong.Vars{"config": defaultConfig(), "nats": queue.DefaultURL, "version": app.VersionLine(name)})
}

// printHelp prints the help of a command without the settings that all commands have in common.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if ctx.Selected() == nil {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	for _, flag := range ctx.Model.Flags {
		flag.Hidden = true
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(ctx.Stdout, "\nSettings of every command, such as --nats, --user, --local and --json: %s --help\n", name)
	return err
}

// Main runs the command and returns its exit code. The first interrupt or SIGTERM ends the waiting
// and leaves submitted jobs alone, the second kills the process.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var g grammar
	exited := -1
	parser, err := newParser(&g, stdout, stderr, &exited)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return app.ExitFailed
	}
	parsed, err := parser.Parse(args)
	switch {
	case exited >= 0:
		return exited
	case err != nil:
		fmt.Fprintf(stderr, "%s: %s\nTry %s --help.\n", name, sanitize.Text(protocol.RedactText(err.Error())), name)
		return app.ExitUsage
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	s := &session{settings: g.settings, in: stdin, out: stdout, err: stderr, parser: parser}
	defer s.close()
	parsed.BindTo(ctx, (*context.Context)(nil))
	err = parsed.Run(s)
	if _, concluded := errors.AsType[*app.ExitError](err); err != nil && !concluded && interrupted(ctx) && !errors.Is(err, app.ErrInterrupted) {
		err = app.ErrInterrupted // whatever it was that the signal broke off
	}
	if err != nil {
		s.report(err)
	}
	return app.ExitCode(err)
}

// interruptible returns a context that the first signal cancels with cause [app.ErrInterrupted].
func interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-signals:
			cancel(app.ErrInterrupted)
		case <-ctx.Done():
		}
		signal.Stop(signals)
	})
	return ctx, func() {
		cancel(nil)
		watcher.Wait()
	}
}

// interrupted reports whether a signal ended the context.
func interrupted(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), app.ErrInterrupted)
}

// versionCmd prints the version.
type versionCmd struct{}

func (versionCmd) Run(s *session) error {
	if s.JSON {
		return s.print(version{app.Version()})
	}
	_, err := fmt.Fprintln(s.out, app.VersionLine(name))
	return err
}
