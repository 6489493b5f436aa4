package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"tandem/internal/atomicfile"
	"tandem/internal/shim/program"
)

// OverlayOptions says what goes into an overlay. Ollama, Shim, SlotDir and RunDir are required.
type OverlayOptions struct {
	Ollama string // the program, or a link to it
	// LlamaServer is the real one, if it is not the Ollama's own. Then nothing else of that Ollama's library is linked:
	// libraries of another build would get into this server.
	LlamaServer string
	Shim        string // from Find
	SlotDir     string
	RunDir      string
}

// Overlay lays out a private installation in dir, whose llama-server is the shim, and returns the path of its
// ollama program. What is laid out there already is brought up to date.
func Overlay(ctx context.Context, dir string, o OverlayOptions) (ollama string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("lay out an Ollama in %s: %w", dir, err)
		}
	}()
	for _, path := range []*string{&dir, &o.SlotDir, &o.RunDir} {
		if *path, err = filepath.Abs(*path); err != nil {
			return "", err
		}
	}
	binary, err := binaryOf(o.Ollama)
	if err != nil {
		return "", err
	}
	// On every system Ollama looks in ../lib/ollama of its program, and on macOS in lib/ollama beside it first.
	library := filepath.Join(dir, "lib", "ollama")
	for _, d := range []string{filepath.Join(dir, "bin"), library, o.SlotDir, o.RunDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return "", err
		}
	}
	real := o.LlamaServer
	if real == "" {
		source, err := libraryOf(binary)
		if err != nil {
			return "", err
		}
		if err := linkLibrary(source, library, binary); err != nil {
			return "", err
		}
		real = realIn(source)
	} else if real, err = filepath.Abs(real); err != nil {
		return "", err
	}
	flags, err := flagsFor(ctx, real)
	if err != nil {
		return "", err
	}
	server := filepath.Join(library, serverName)
	if err := link(real, program.RealName(server)); err != nil {
		return "", err
	}
	if err := writeConfig(server, program.Config{SlotDir: o.SlotDir, RunDir: o.RunDir, Flags: flags}, 0o600); err != nil {
		return "", err
	}
	if err := copyProgram(o.Shim, server); err != nil {
		return "", err
	}
	// Ollama resolves links to itself and would look beside the original, so it must be a file here.
	ollama = filepath.Join(dir, "bin", "ollama")
	return ollama, linkOrCopy(binary, ollama)
}

// linkLibrary makes a symbolic link in target for everything in a library folder but what the overlay has itself,
// and removes all other links.
func linkLibrary(source, target, binary string) error {
	entries, err := os.ReadDir(source)
	if err != nil {
		return err
	}
	linked := map[string]bool{}
	for _, e := range entries {
		path := filepath.Join(source, e.Name())
		if isOurs(e.Name()) || path == binary {
			continue
		}
		if err := link(path, filepath.Join(target, e.Name())); err != nil {
			return err
		}
		linked[e.Name()] = true
	}
	there, err := os.ReadDir(target)
	if err != nil {
		return err
	}
	for _, e := range there {
		if e.Type() == fs.ModeSymlink && !linked[e.Name()] && !isOurs(e.Name()) {
			if err := os.Remove(filepath.Join(target, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// isOurs reports whether a file in a library folder is the server or one that a shim brings with it.
func isOurs(name string) bool {
	return name == serverName || name == program.RealName(serverName) || name == program.ConfigName(serverName)
}

// link makes a symbolic link, in place of whatever is there.
func link(source, target string) error {
	return replace(target, func(temporary string) error { return os.Symlink(source, temporary) })
}

// linkOrCopy makes target the same program as source, without a copy where the file system allows.
func linkOrCopy(source, target string) error {
	a, errA := os.Stat(source)
	b, errB := os.Lstat(target)
	if errA == nil && errB == nil && os.SameFile(a, b) {
		return nil
	}
	err := replace(target, func(temporary string) error { return os.Link(source, temporary) })
	if err == nil {
		return nil
	}
	return copyProgram(source, target)
}

// copyProgram copies a program, so that a later build does not change it under whoever runs it.
func copyProgram(source, target string) error {
	return replace(target, func(temporary string) error {
		in, err := os.Open(source)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Chmod(0o755), out.Close())
	})
}

// writeConfig writes the configuration of a shim.
func writeConfig(shim string, c program.Config, mode fs.FileMode) error {
	b, err := c.Encode()
	if err != nil {
		return err
	}
	return atomicfile.Write(program.ConfigName(shim), b, mode)
}

func replace(path string, make func(temporary string) error) error {
	temporary := fmt.Sprintf("%s.tmp%d", path, os.Getpid())
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := make(temporary)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // it may never have been there
	}
	return err
}
