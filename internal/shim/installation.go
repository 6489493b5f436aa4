package shim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"tandem/internal/shim/program"
)

// Installation is an Ollama that was installed on this machine by others.
type Installation struct {
	Binary  string // the program itself
	Library string // where it looks for llama-server
	Layout  Layout
}

// Layout says how an Ollama was installed, as far as its path tells.
type Layout string

// The layouts.
const (
	Package  Layout = "package"   // bin and lib/ollama below one folder, as Ollama's own script installs it on Linux
	Homebrew Layout = "Homebrew"  // below a Cellar
	MacApp   Layout = "macOS app" // inside a signed bundle
)

// State says whether the shim is installed.
type State string

// The states.
const (
	Installed State = "installed"
	Absent    State = "not installed"
	Replaced  State = "replaced by an upgrade of Ollama: run install again"
	Broken    State = "broken, for the real llama-server is lost: install Ollama again"
)

// errConfig marks a shim whose configuration is missing or cannot be read.
var errConfig = errors.New("run install again")

// Status is what is found in an installation.
type Status struct {
	State   State
	Config  program.Config // of the shim that is there, or was there before an upgrade; zero if none is known
	Program string         // path of the shim; empty if it is not there
}

// wellKnown is where an Ollama is installed that is not in PATH: a service's PATH is short.
var wellKnown = [...]string{
	"/usr/local/bin/ollama", "/usr/bin/ollama", "/opt/homebrew/bin/ollama", "/home/linuxbrew/.linuxbrew/bin/ollama",
	"/Applications/Ollama.app/Contents/Resources/ollama",
}

// Look finds the installation that an ollama program, or a link to it, belongs to. If none is named, it is the one in
// PATH or at a usual place.
func Look(ollama string) (*Installation, error) {
	if ollama == "" {
		ollama = "ollama"
		if _, err := binaryOf(ollama); err != nil {
			for _, path := range wellKnown {
				if _, err := os.Stat(path); err == nil {
					ollama = path
					break
				}
			}
		}
	}
	binary, err := binaryOf(ollama)
	if err != nil {
		return nil, err
	}
	library, err := libraryOf(binary)
	if err != nil {
		return nil, err
	}
	in := &Installation{Binary: binary, Library: library, Layout: Package}
	switch {
	case strings.Contains(binary, ".app/Contents/"):
		in.Layout = MacApp
	case strings.Contains(binary, "/Cellar/"):
		in.Layout = Homebrew
	}
	return in, nil
}

// DefaultFolders is where install puts the folders of states and records, if not told otherwise: for root a place of the
// machine that Ollama's service can reach, else the user's cache.
func DefaultFolders(root bool) (slotDir, runDir string, err error) {
	base := systemFolder
	if !root {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", "", fmt.Errorf("find the user's cache folder: %w", err)
		}
		base = filepath.Join(cache, "tandem", "ollama")
	}
	return filepath.Join(base, "slots"), filepath.Join(base, "run"), nil
}

// systemFolder is not below /var/lib/tandem, where each folder is for one service alone.
const systemFolder = "/var/lib/tandem-ollama"

// DefaultRunDir is where a worker looks for records: where root's install puts them, if that was done, else
// where the user's does. It is empty if neither can be told.
func DefaultRunDir() string {
	if _, runDir, err := DefaultFolders(true); err == nil {
		if _, err := os.Stat(runDir); err == nil {
			return runDir
		}
	}
	_, runDir, err := DefaultFolders(false)
	if err != nil {
		return ""
	}
	return runDir
}

func (in *Installation) server() string { return filepath.Join(in.Library, serverName) }

// Status looks what is there. Of an upgrade that took away all of the library folder, runDir still knows; it may be
// empty.
func (in *Installation) Status(runDir string) (Status, error) {
	server := in.server()
	c, configErr := program.ReadConfig(program.ConfigName(server))
	_, realErr := os.Stat(program.RealName(server))
	if realErr != nil && !errors.Is(realErr, fs.ErrNotExist) {
		return Status{}, fmt.Errorf("look for the real llama-server: %w", realErr)
	}
	switch {
	case isShim(server) && realErr != nil:
		return Status{State: Broken, Config: c, Program: server}, nil
	case isShim(server) && configErr != nil:
		return Status{}, fmt.Errorf("%w; %w", configErr, errConfig)
	case isShim(server):
		return Status{State: Installed, Config: c, Program: server}, nil
	case configErr == nil:
		return Status{State: Replaced, Config: c}, nil
	case !errors.Is(configErr, fs.ErrNotExist):
		return Status{}, configErr
	case realErr == nil:
		return Status{}, fmt.Errorf("there is a %s that Tandem did not make; it will not be touched", program.RealName(server))
	}
	if n, err := readNote(runDir); err == nil && (n.Library == in.Library || !isShim(filepath.Join(n.Library, serverName))) {
		return Status{State: Replaced, Config: n.Config}, nil
	}
	return Status{State: Absent}, nil
}

// safe returns an error if this is root and anybody else could change the programs that it would run or replace.
func (in *Installation) safe() error {
	if os.Geteuid() != 0 {
		return nil
	}
	dirs := []string{in.Library}
	if real, err := filepath.EvalSymlinks(realIn(in.Library)); err == nil {
		dirs = append(dirs, filepath.Dir(real)) // from where it loads its libraries
	}
	for _, dir := range dirs {
		// With a slash at the end it is the folder, even if the name is that of a link.
		err := filepath.WalkDir(dir+"/", func(path string, _ fs.DirEntry, err error) error { return cmp.Or(err, onlyRoots(path, false)) })
		if err != nil {
			return fmt.Errorf("root neither runs nor replaces programs that others can change: %w; run this as the user whose Ollama it is, or make all of it root's alone", err)
		}
	}
	return nil
}

// note is what install leaves beside the run folder, since an upgrade of Ollama may leave nothing in the library folder. It is
// not in the run folder, which Ollama's user and the worker's may write: root would do what they wrote there.
type note struct {
	Library string         `json:"library"`
	Config  program.Config `json:"config"`
}

func noteName(runDir string) string { return filepath.Clean(runDir) + ".installed.json" }

func readNote(runDir string) (n note, err error) {
	if runDir == "" {
		return n, fs.ErrNotExist
	}
	if os.Geteuid() == 0 {
		if err := onlyRoots(noteName(runDir), false); err != nil {
			return n, err
		}
	}
	b, err := os.ReadFile(noteName(runDir))
	if err != nil {
		return n, err
	}
	return n, json.Unmarshal(b, &n)
}

// Restart says how to have this Ollama started again, since what it has loaded stays as it is.
func (in *Installation) Restart() string {
	switch {
	case in.Layout == MacApp:
		return "quit the Ollama app in the menu bar and open it again"
	case in.Layout == Homebrew:
		return "brew services restart ollama"
	case runtime.GOOS == "linux":
		return "sudo systemctl restart ollama"
	}
	return "end `ollama serve` and start it again"
}
