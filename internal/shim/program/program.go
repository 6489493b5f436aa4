// Package program is what llama-server-shim does. An Ollama starts it in llama-server's place; it adds
// a slot folder to the arguments, records where the server will listen, and becomes the real server,
// with the same process id.
//
// Whatever of this fails, the real server is started as Ollama meant it: an Ollama never stops
// working because of us. The package uses nothing that would make the program large or bind it to the C library.
package program

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// RealName is the name of the real server beside a shim.
func RealName(shim string) string { return shim + ".real" }

// Run does all that the program does. It returns only if there is no real server that could be started.
// Args are those of the process, args[0] included, of which only the others are of interest.
func Run(args, env []string, stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find out where this program is: %w", err)
	}
	real, err := realServer(self)
	if err != nil {
		return err
	}
	given := args[1:]
	extended, err := prepare(self, given)
	if err != nil {
		fmt.Fprintf(stderr, "llama-server-shim: %v; starting llama-server without a slot folder, so its KV cache cannot be handed over\n", err)
		extended = given
	}
	if err := syscall.Exec(real, append([]string{real}, extended...), env); err != nil {
		return fmt.Errorf("start %s: %w", real, err)
	}
	return nil
}

// realServer finds the real server beside the shim, itself and not a link to it: it looks for its libraries
// beside itself.
func realServer(self string) (string, error) {
	real, err := filepath.EvalSymlinks(RealName(self))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no llama-server at %s, whose place this program has taken; install Ollama again", RealName(self))
	}
	if err != nil {
		return "", fmt.Errorf("find the real llama-server: %w", err)
	}
	mine, err := os.Stat(self)
	if err != nil {
		return "", fmt.Errorf("find the real llama-server: %w", err)
	}
	if other, err := os.Stat(real); err != nil || os.SameFile(mine, other) {
		return "", fmt.Errorf("%s is this program again, not llama-server; install Ollama again", real)
	}
	return real, nil
}

// prepare returns the arguments with ours added, after leaving a record. A call without a model is no server's: Ollama asks for
// devices and versions that way.
func prepare(self string, given []string) ([]string, error) {
	model, ok := value(given, "--model", "-m")
	if !ok {
		return given, nil
	}
	c, err := ReadConfig(ConfigName(self))
	if err != nil {
		return nil, err
	}
	// States hold what the prompts say: they are the owner's, or his and the group's with whom he shares the folder.
	mask := 0o077
	if c.Shared {
		mask = 0o007
	}
	before := syscall.Umask(mask)
	args, err := c.extend(model, given)
	if err != nil {
		syscall.Umask(before)
	}
	return args, err
}

// extend adds what the configuration says to the arguments, and leaves a record of them.
func (c Config) extend(model string, given []string) ([]string, error) {
	args := slices.Clone(given)
	slotDir, ok := value(given, "--slot-save-path")
	if !ok {
		slotDir = c.SlotDir
		args = append(args, "--slot-save-path", slotDir)
	}
	for _, flag := range c.Flags {
		if !slices.Contains(args, flag) {
			args = append(args, flag)
		}
	}
	if err := writable(slotDir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.RunDir, 0o777); err != nil {
		return nil, fmt.Errorf("make run folder: %w", err)
	}
	Sweep(c.RunDir)
	return args, leaveRecord(c.RunDir, model, slotDir, args)
}

// writable makes a folder, if need be, and tries whether files can be made in it.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil { // less what the umask takes away
		return fmt.Errorf("make slot folder: %w", err)
	}
	f, err := os.CreateTemp(dir, ".try-*")
	if err != nil {
		return fmt.Errorf("write to slot folder: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// value is what follows a flag.
func value(args []string, names ...string) (string, bool) {
	i := slices.IndexFunc(args, func(a string) bool { return slices.Contains(names, a) })
	if i < 0 || i+1 == len(args) {
		return "", false
	}
	return args[i+1], true
}
