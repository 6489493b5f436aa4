package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// natsServer is built from the version that go.mod names.
const natsServer = "github.com/nats-io/nats-server/v2"

// patterns match the main packages of all programs, wherever there are some.
func patterns() []string {
	return []string{"tandem/cmd/...", "tandem/test/rig/noopengine/...", "tandem/test/rig/paced/pacedserver/...", natsServer}
}

// BuildOptions say how the programs are built.
type BuildOptions struct {
	Race  bool // all but nats-server, which is not under test
	Edits []Edit
	// Clock builds programs whose wall clock can be moved while they run: time.Now adds what [Process.MoveClock] says.
	Clock bool
	// Only names the programs to build, such as decode-worker; empty is all of them.
	Only []string
}

// Programs are the built ones: prefill-worker, decode-worker, submitter, llama-server-shim, nats-server, noopengine,
// pacedserver.
type Programs struct {
	dir string
}

// Path is where the program is, or would be if it had been built.
func (p *Programs) Path(name string) string { return filepath.Join(p.dir, name) }

// Build builds the programs into dir, which it makes. What go has in its cache is not built again. The error holds what
// the go command said.
func Build(ctx context.Context, dir string, o BuildOptions) (*Programs, error) {
	return build(ctx, dir, patterns(), o)
}

func build(ctx context.Context, dir string, patterns []string, o BuildOptions) (*Programs, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("build programs: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("build programs: %w", err)
	}
	at, err := findSources(ctx)
	if err != nil {
		return nil, fmt.Errorf("build programs: %w", err)
	}
	mains, err := at.mains(ctx, patterns, o.Only)
	if err != nil {
		return nil, fmt.Errorf("build programs: %w", err)
	}
	edited, err := os.MkdirTemp("", "tandem-edited-")
	if err != nil {
		return nil, fmt.Errorf("build programs: %w", err)
	}
	defer os.RemoveAll(edited)
	overlay, err := at.overlay(edited, o)
	if err != nil {
		return nil, fmt.Errorf("build programs: %w", err)
	}

	// Unlike go build, go install leaves a program alone that is there and would not change. VCS stamps would change all
	// of them with each commit, and with -trimpath nothing that was compiled for vet or other programs would serve these.
	at.gobin = dir
	args := []string{"install", "-buildvcs=false", "-ldflags", "-s -w"}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if o.Clock {
		args = append(args, "-tags", clockTag)
	}
	if o.Race {
		if i := slices.Index(mains, natsServer); i >= 0 {
			if _, err := at.run(ctx, append(slices.Clone(args), natsServer)...); err != nil {
				return nil, fmt.Errorf("build programs: %w", err)
			}
			mains = slices.Delete(mains, i, i+1)
		}
		args = append(args, "-race")
	}
	if len(mains) > 0 {
		if _, err := at.run(ctx, append(args, mains...)...); err != nil {
			return nil, fmt.Errorf("build programs: %w", err)
		}
	}
	return &Programs{dir: dir}, nil
}

// sources is where Go code lies.
type sources struct {
	root   string // of the module
	goroot string
	gobin  string // where programs go; only known while they are built
}

func findSources(ctx context.Context) (sources, error) {
	out, err := sources{}.run(ctx, "env", "-json", "GOMOD", "GOROOT")
	if err != nil {
		return sources{}, err
	}
	var env struct{ GOMOD, GOROOT string }
	if err := json.Unmarshal(out, &env); err != nil {
		return sources{}, fmt.Errorf("read go env: %w", err)
	}
	if filepath.Base(env.GOMOD) != "go.mod" {
		return sources{}, errors.New("the current folder is in no Go module: run from the source tree of Tandem")
	}
	return sources{root: filepath.Dir(env.GOMOD), goroot: env.GOROOT}, nil
}

// mains lists the import paths of the main packages that match, those named in only if it names any.
func (s sources) mains(ctx context.Context, patterns, only []string) ([]string, error) {
	out, err := s.run(ctx, append([]string{"list", "-f", `{{if eq .Name "main"}}{{.ImportPath}} {{.Target}}{{end}}`}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var paths, names []string
	for line := range strings.Lines(string(out)) {
		path, target, _ := strings.Cut(strings.TrimSpace(line), " ")
		name := filepath.Base(target)
		names = append(names, name)
		if len(only) == 0 || slices.Contains(only, name) {
			paths = append(paths, path)
		}
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("no program is named %q: there are %s", name, strings.Join(names, ", "))
		}
	}
	return paths, nil
}

// run runs the go command in the module's root and returns its standard output.
func (s sources) run(ctx context.Context, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.root, &stdout, &stderr
	if s.gobin != "" {
		cmd.Env = append(os.Environ(), "GOBIN="+s.gobin)
	}
	cmd.WaitDelay = time.Second // for a compiler that outlives a cancelled go command
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run go %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
