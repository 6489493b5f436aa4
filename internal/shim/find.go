package shim

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Name is the name of the shim's program.
const Name = "llama-server-shim"

// programPath is the package of that program, which Go records in it.
const programPath = "tandem/cmd/" + Name

// EnvProgram names the shim's program, for Find.
const EnvProgram = "TANDEM_SHIM"

// ErrNoProgram is what Find returns, with the remedy, if there is no shim's program.
var ErrNoProgram = errors.New("no " + Name + " beside this program nor in PATH; run 'make build', which makes it in bin/, or name it in " + EnvProgram)

// Find returns the path of the shim's program: what TANDEM_SHIM names, else llama-server-shim beside this
// program, else in PATH.
func Find() (string, error) {
	if named := os.Getenv(EnvProgram); named != "" {
		path, err := filepath.Abs(named)
		if err == nil && !isShim(path) {
			err = fmt.Errorf("%s=%s is no %s; run 'make build', which makes it in bin/", EnvProgram, named, Name)
		}
		return path, err
	}
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			if path := filepath.Join(filepath.Dir(self), Name); isShim(path) {
				return path, nil
			}
		}
	}
	if path, err := exec.LookPath(Name); err == nil && isShim(path) {
		return filepath.Abs(path)
	}
	return "", ErrNoProgram
}

// isShim reports whether a file is the shim's program, of whatever version.
func isShim(path string) bool {
	info, err := buildinfo.ReadFile(path)
	return err == nil && info.Path == programPath
}
