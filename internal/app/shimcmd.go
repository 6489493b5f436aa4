package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"tandem/internal/protocol"
	"tandem/internal/shim"
	"tandem/jobs"
)

// shimCommands are the subcommands of `prefill-worker shim` and `decode-worker shim`: an Ollama is on either side.
type shimCommands struct {
	Install shimInstall `cmd:"" help:"Put the shim in place of the llama-server that an installed Ollama starts, so that its KV cache can be handed over."`
	Status  shimStatus  `cmd:"" help:"Show whether the shim is installed and what runs; exit 3 if it is not."`
	Remove  shimRemove  `cmd:"" help:"Put the real llama-server back as it was."`
}

type shimInstall struct {
	Ollama  string `help:"The ollama program; that in PATH or at a usual place if not given." placeholder:"FILE"`
	SlotDir string `name:"slot-dir" type:"path" help:"Folder of the KV states; as before, else /var/lib/tandem-ollama/slots for root, else in the user's cache." placeholder:"DIR"`
	RunDir  string `name:"run-dir" type:"path" help:"Folder of the shim's records, likewise; the worker's --shim-run-dir." placeholder:"DIR"`
	Group   string `help:"Group that Ollama's user and the worker's are both in; for root ollama if there is one, else the folders are the caller's alone." placeholder:"NAME"`
	DryRun  bool   `name:"dry-run" help:"Only say what would be done."`
}

type shimStatus struct {
	Ollama string `help:"The ollama program; that in PATH or at a usual place if not given." placeholder:"FILE"`
	RunDir string `name:"run-dir" type:"path" help:"Folder of the shim's records, if it is not the usual one and an upgrade of Ollama removed the shim." placeholder:"DIR"`
}

type shimRemove struct {
	Ollama string `help:"The ollama program; that in PATH or at a usual place if not given." placeholder:"FILE"`
	RunDir string `name:"run-dir" type:"path" help:"Folder of the shim's records, if it is not the usual one and an upgrade of Ollama removed the shim." placeholder:"DIR"`
	DryRun bool   `name:"dry-run" help:"Only say what would be done."`
}

// shimMain runs one of the subcommands for the worker of that name.
func shimMain(name string, args []string, stdout, stderr io.Writer) int {
	var commands shimCommands
	exited := -1
	parser, err := kong.New(&commands, kong.Name(name+" shim"), kong.Writers(stdout, stderr),
		kong.Description("The shim reaches the KV cache inside an Ollama that was installed by others. --ollama-binary of the worker does the same for an Ollama of its own, and changes nothing."),
		kong.Exit(func(code int) { exited = code }))
	if err != nil {
		panic(err) // the flags themselves are wrong: a bug
	}
	parsed, err := parser.Parse(args)
	switch {
	case exited >= 0:
		return exited
	case err != nil:
		fmt.Fprintf(stderr, "%s shim: %s\nTry %s shim --help.\n", name, protocol.RedactText(err.Error()), name)
		return ExitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.BindTo(stdout, (*io.Writer)(nil))
	err = parsed.Run()
	if e, said := errors.AsType[*ExitError](err); err != nil && (!said || e.Err != nil) {
		fmt.Fprintf(stderr, "%s shim: %v\n", name, err)
	}
	return ExitCode(err)
}

// Run installs.
func (c *shimInstall) Run(ctx context.Context, out io.Writer) error {
	in, err := shim.Look(c.Ollama)
	if err != nil {
		return err
	}
	o, err := c.options(in)
	if err != nil {
		return err
	}
	if in.Layout == shim.MacApp {
		fmt.Fprintf(out, "This Ollama is a signed app. Replacing a file in it breaks the signature's seal: macOS may refuse to open the app, and the app's next update puts\n"+
			"llama-server back. The better way, which leaves the app as it is: run the worker with --ollama-binary %s\n\n", in.Binary)
	}
	done, err := in.Install(ctx, o)
	tell(out, done, c.DryRun)
	switch {
	case err != nil:
		return err
	case done == nil:
		fmt.Fprintf(out, "the shim is installed in %s already; nothing to do\n", in.Library)
	case !c.DryRun:
		c.next(out, in, o)
	}
	return nil
}

// options fills in what was not given: as an earlier installation had it, else the defaults.
func (c *shimInstall) options(in *shim.Installation) (o shim.InstallOptions, err error) {
	root := os.Geteuid() == 0
	slotDir, runDir, err := shim.DefaultFolders(root)
	if err != nil && (c.SlotDir == "" || c.RunDir == "") {
		return o, fmt.Errorf("%w; give --slot-dir and --run-dir", err)
	}
	before, err := in.Status(cmp.Or(c.RunDir, runDir))
	if err != nil {
		before = shim.Status{} // whatever is wrong, Install repairs it or says so
	}
	o = shim.InstallOptions{
		SlotDir: cmp.Or(c.SlotDir, before.Config.SlotDir, slotDir), RunDir: cmp.Or(c.RunDir, before.Config.RunDir, runDir),
		Group: shim.NoGroup, DryRun: c.DryRun,
	}
	if o.Shim, err = shim.Find(); err != nil {
		return o, err
	}
	switch {
	case c.Group != "":
		o.Group, err = groupID(c.Group)
	case before.Config.RunDir != "":
		o.Group, err = groupBefore(before)
	case root:
		if o.Group, err = groupID("ollama"); err != nil {
			err = jobs.Errorf(jobs.CodeInvalid, "there is no group ollama on this machine; name with --group the one that Ollama's user and the worker's are both in (--group root if both run as root)")
		}
	}
	return o, err
}

func groupID(name string) (int, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, jobs.Errorf(jobs.CodeInvalid, "group is %q: %w; make it first", name, err)
	}
	return strconv.Atoi(g.Gid)
}

// groupBefore is the group that an earlier installation gave the folders to.
func groupBefore(before shim.Status) (int, error) {
	if !before.Config.Shared {
		return shim.NoGroup, nil
	}
	return groupOf(before.Config.RunDir)
}

// groupOf is the group that a file or folder belongs to.
func groupOf(path string) (int, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("see whose the folders are: %w; name the group with --group", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("see whose %s is: not known on this system; name the group with --group", path)
	}
	return int(stat.Gid), nil
}

// next says what else it takes.
func (c *shimInstall) next(out io.Writer, in *shim.Installation, o shim.InstallOptions) {
	fmt.Fprintf(out, "\nNext:\n- restart Ollama, since a model that is loaded runs without the shim until then: %s\n", in.Restart())
	if o.Group != shim.NoGroup {
		name := strconv.Itoa(o.Group)
		if g, err := user.LookupGroupId(name); err == nil {
			name = g.Name
		}
		add := "sudo usermod -aG " + name + " USER"
		if runtime.GOOS == "darwin" {
			add = "sudo dseditgroup -o edit -a USER -t user " + name
		}
		fmt.Fprintf(out, "- Ollama's user and the worker's must both be in group %s, which may write to %s and %s: %s, then start both again\n", name, o.SlotDir, o.RunDir, add)
	} else {
		fmt.Fprintf(out, "- Ollama and the worker must both run as this user, since only it may write to %s and %s; else install with --group\n", o.SlotDir, o.RunDir)
	}
	fmt.Fprintf(out, "- if a service of either is kept from writing there (systemd: ProtectSystem), allow it: ReadWritePaths=%s %s\n", o.SlotDir, o.RunDir)
	if shim.DefaultRunDir() != o.RunDir {
		fmt.Fprintf(out, "- give the worker --shim-run-dir %s\n", o.RunDir)
	}
	fmt.Fprintln(out, "- after an upgrade of Ollama, which puts its own llama-server back, run install again; 'shim status' tells")
}

// tell lists what was done, or would be.
func tell(out io.Writer, done []string, dryRun bool) {
	for _, what := range done {
		if dryRun {
			what = "would " + what
		}
		fmt.Fprintln(out, what)
	}
}

// Run shows what is there.
func (c *shimStatus) Run(out io.Writer) error {
	in, err := shim.Look(c.Ollama)
	if err != nil {
		return err
	}
	s, err := in.Status(cmp.Or(c.RunDir, shim.DefaultRunDir()))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "ollama    %s (%s)\nlibrary   %s\nshim      %s\n", in.Binary, in.Layout, in.Library, s.State)
	if s.Config.SlotDir != "" {
		fmt.Fprintf(out, "states    %s\nrecords   %s\n", s.Config.SlotDir, s.Config.RunDir)
	}
	if s.State != shim.Installed {
		return &ExitError{Code: ExitDegraded}
	}
	live, err := shim.LiveAll(s.Config.RunDir)
	if errors.Is(err, os.ErrPermission) {
		fmt.Fprintf(out, "running   not known: %v; put this user into the folder's group, as the worker's must be\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	if len(live) == 0 {
		fmt.Fprintf(out, "running   none; a model that was loaded before the shim was installed runs without it (%s)\n", in.Restart())
	}
	for _, r := range live {
		fmt.Fprintf(out, "running   %s, process %d, port %d, since %s\n", filepath.Base(r.Model), r.PID, r.Port, r.Started.Local().Format(time.DateTime))
	}
	return nil
}

// Run removes.
func (c *shimRemove) Run(out io.Writer) error {
	in, err := shim.Look(c.Ollama)
	if err != nil {
		return err
	}
	runDir := cmp.Or(c.RunDir, shim.DefaultRunDir())
	before, err := in.Status(runDir)
	if err != nil {
		return err
	}
	done, err := in.Remove(runDir, c.DryRun)
	tell(out, done, c.DryRun)
	switch {
	case err != nil:
		return err
	case done == nil:
		fmt.Fprintf(out, "the shim is not installed in %s; nothing to do\n", in.Library)
	case !c.DryRun:
		if _, err := os.Stat(before.Config.SlotDir); err == nil {
			fmt.Fprintf(out, "\nKV states, which hold what prompts say, are left in %s: delete them once no worker uses them\n", before.Config.SlotDir)
		}
		fmt.Fprintf(out, "\nRestart Ollama, since a model that is loaded keeps its server until then: %s\n", in.Restart())
	}
	return nil
}
