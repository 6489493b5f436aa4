// Package modules holds what is linked into the commands to go.mod. It has no code, only the test.
package modules

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// TestCommands reads out of the commands, as `go version -m` does, which modules they were built from.
func TestCommands(t *testing.T) {
	const root = "../.."
	for _, name := range []string{"go.mod", "go.work"} { // go test watches what a test looks at, not what the go command reads
		if _, err := os.Stat(filepath.Join(root, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	required := requirements(t, root)

	// The main packages of `make build`, which adds -trimpath and a version. These change paths and a string in the
	// programs, no module; but with -trimpath nothing that other tests have compiled would serve these.
	dir := t.TempDir()
	run(t, root, "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", dir+"/", "./cmd/...")
	programs, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	modules := 0
	for _, p := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(dir, p.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if info.Main.Path != "tandem" {
			t.Errorf("%s is of the module %q", p.Name(), info.Main.Path)
		}
		for _, problem := range problems(required, info.Deps) {
			t.Errorf("%s: %s", p.Name(), problem)
		}
		modules += len(info.Deps)
	}
	if modules == 0 {
		t.Errorf("no modules in %d programs: there is nothing that this test could find", len(programs))
	}
}

func TestProblems(t *testing.T) {
	required := map[string]string{"example.com/a": "v1.0.0", "example.com/b": "v1.0.0"}
	for _, tt := range []struct {
		name string
		dep  debug.Module
		want string
	}{
		{"as required", debug.Module{Path: "example.com/a", Version: "v1.0.0"}, ""},
		{"unknown", debug.Module{Path: "example.com/c", Version: "v1.0.0"}, "go.mod does not name"},
		{"another version", debug.Module{Path: "example.com/a", Version: "v1.0.1"}, "go.mod requires v1.0.0"},
		{"of a workspace", debug.Module{Path: "example.com/a", Version: "(devel)"}, "go.mod requires v1.0.0"},
		{"replaced", debug.Module{Path: "example.com/b", Version: "v1.0.0", Replace: &debug.Module{Path: "../b"}}, "replaced by ../b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(problems(required, []*debug.Module{&tt.dep}), "; ")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("problems = %q, want %q", got, tt.want)
			}
		})
	}
}

// problems says what is wrong with the modules that a program was built from, by the versions that go.mod requires.
func problems(required map[string]string, deps []*debug.Module) []string {
	var found []string
	for _, dep := range deps {
		want, named := required[dep.Path]
		switch {
		case dep.Replace != nil:
			found = append(found, fmt.Sprintf("%s %s is replaced by %s %s", dep.Path, dep.Version, dep.Replace.Path, dep.Replace.Version))
		case !named:
			found = append(found, fmt.Sprintf("go.mod does not name %s %s", dep.Path, dep.Version))
		case dep.Version != want:
			found = append(found, fmt.Sprintf("%s is %s, go.mod requires %s", dep.Path, dep.Version, want))
		}
	}
	return found
}

// requirements are the versions of the modules that go.mod names, by path.
func requirements(t *testing.T, root string) map[string]string {
	t.Helper()
	var mod struct {
		Require []struct{ Path, Version string }
	}
	// The file is named, as a -modfile in GOFLAGS would have another one read.
	if err := json.Unmarshal(run(t, root, "mod", "edit", "-json", "go.mod"), &mod); err != nil {
		t.Fatalf("read go mod edit: %v", err)
	}
	required := map[string]string{}
	for _, r := range mod.Require {
		required[r.Path] = r.Version
	}
	return required
}

// run runs the go command in dir and returns its standard output.
func run(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out
}
