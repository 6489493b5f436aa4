package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"syscall"

	"tandem/internal/atomicfile"
	"tandem/internal/shim/program"
)

// InstallOptions says how to install. Shim, SlotDir and RunDir are required.
type InstallOptions struct {
	Shim    string // from Find
	SlotDir string // absolute
	RunDir  string // absolute
	Group   int    // id of a group that both Ollama's user and the worker's are in; NoGroup if they are one user
	DryRun  bool   // only say what would be done
}

// NoGroup leaves the folders to their owner alone.
const NoGroup = -1

// Install puts the shim in llama-server's place, and returns what it did or would do, in words; nothing if all is as it
// should be. At every moment there is a llama-server that works. Run by root it neither runs nor changes what others could
// have put there.
func (in *Installation) Install(ctx context.Context, o InstallOptions) (done []string, err error) {
	defer syscall.Umask(syscall.Umask(0o022)) // Ollama's user must be able to read what is made
	defer func() {
		if err != nil {
			err = fmt.Errorf("install the shim: %w", err)
		}
	}()
	// A shim that is there and whose configuration cannot be read gets a new one.
	if _, err := in.whole(o.RunDir); err != nil && !errors.Is(err, errConfig) {
		return nil, err
	}
	c := program.Config{SlotDir: o.SlotDir, RunDir: o.RunDir, Shared: o.Group != NoGroup}
	if c.Flags, err = flagsFor(ctx, realIn(in.Library)); err != nil {
		return nil, err
	}
	todo, err := in.installSteps(c, o)
	if err != nil {
		return nil, err
	}
	return in.take(todo, o.DryRun)
}

// whole is Status, and an error if the real server is lost or root must not touch it.
func (in *Installation) whole(runDir string) (Status, error) {
	if err := in.safe(); err != nil {
		return Status{}, err
	}
	s, err := in.Status(runDir)
	if err == nil && s.State == Broken {
		err = fmt.Errorf("the shim in %s is %s", in.Library, Broken)
	}
	return s, err
}

// step is one change, in words and as a deed.
type step struct {
	what string
	do   func() error
}

// installSteps lists what is not yet as it should be, in an order in which nothing breaks in between: a shim that is
// there has its configuration and its real server.
func (in *Installation) installSteps(c program.Config, o InstallOptions) ([]step, error) {
	var todo []step
	for _, dir := range []string{c.SlotDir, c.RunDir} {
		ready, err := checkFolder(dir, o.Group)
		if err != nil {
			return nil, fmt.Errorf("use folder %s: %w; correct or remove that, or name another folder with --slot-dir or --run-dir", dir, err)
		}
		if !ready {
			todo = append(todo, step{"make folder " + dir, func() error { return makeFolder(dir, o.Group) }})
		}
	}
	n := note{Library: in.Library, Config: c}
	if now, err := readNote(c.RunDir); err != nil || !reflect.DeepEqual(now, n) {
		todo = append(todo, step{"note it in " + noteName(c.RunDir), func() error { return writeNote(n) }})
	}
	server := in.server()
	if now, err := program.ReadConfig(program.ConfigName(server)); err != nil || !reflect.DeepEqual(now, c) {
		todo = append(todo, step{"write " + program.ConfigName(server), func() error { return writeConfig(server, c, 0o644) }})
	}
	if !isShim(server) {
		todo = append(todo, step{"keep the real server as " + program.RealName(server), func() error { return keep(server, program.RealName(server)) }})
	}
	same, err := sameContent(o.Shim, server)
	if err != nil {
		return nil, err
	}
	if !same {
		todo = append(todo, step{"put the shim at " + server, func() error { return copyProgram(o.Shim, server) }})
	}
	return todo, nil
}

// Remove undoes Install: the real server is in its old place, as it was. The folders are removed if nothing but records
// is in them.
func (in *Installation) Remove(runDir string, dryRun bool) (done []string, err error) {
	before, err := in.whole(runDir)
	if err != nil {
		return nil, fmt.Errorf("remove the shim: %w", err)
	}
	if before.State == Absent {
		return nil, nil
	}
	server := in.server()
	real, config := program.RealName(server), program.ConfigName(server)
	var todo []step
	if before.State == Installed {
		todo = append(todo, step{"put the real server back at " + server, func() error { return os.Rename(real, server) }})
	} else if _, err := os.Lstat(real); err == nil {
		todo = append(todo, step{"remove " + real + ", left from before the upgrade", func() error { return os.Remove(real) }})
	}
	if _, err := os.Lstat(config); err == nil {
		todo = append(todo, step{"remove " + config, func() error { return os.Remove(config) }})
	}
	todo = append(todo, step{"remove the records in " + before.Config.RunDir, func() error { return removeRecords(before.Config.RunDir) }})
	for _, dir := range []string{before.Config.SlotDir, before.Config.RunDir} {
		todo = append(todo, step{"remove folder " + dir + ", if it is empty", func() error { return removeFolder(dir) }})
	}
	return in.take(todo, dryRun)
}

// take does one step after the other, or only tells them.
func (in *Installation) take(todo []step, dryRun bool) (done []string, err error) {
	if len(todo) == 0 {
		return nil, nil
	}
	if err := in.changeable(); err != nil {
		return nil, err
	}
	for _, s := range todo {
		if !dryRun {
			if err := s.do(); err != nil {
				return done, fmt.Errorf("%s: %w", s.what, err)
			}
		}
		done = append(done, s.what)
	}
	return done, nil
}

// changeable tries whether files of the library folder can be replaced.
func (in *Installation) changeable() error {
	f, err := os.CreateTemp(in.Library, ".tandem-*")
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: it belongs to an administrator; run the same command with sudo", err)
	}
	if err != nil {
		return fmt.Errorf("write to Ollama's library folder: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// keep gives a server a second name, whatever that name meant before. A link stays a link: where it leads is beside it.
func keep(server, real string) error {
	if to, err := os.Readlink(server); err == nil {
		return link(to, real)
	}
	return linkOrCopy(server, real)
}

func writeNote(n note) error {
	b, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(noteName(n.Config.RunDir), append(b, '\n'), 0o644)
}

// removeRecords removes the records and the note.
func removeRecords(runDir string) error {
	f, err := openFolder(runDir)
	if err == nil {
		defer f.Close()
		var list []Record
		list, err = program.Records(runDir)
		for _, r := range list {
			program.Remove(runDir, r)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(noteName(runDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func sameContent(a, b string) (bool, error) {
	one, err := os.ReadFile(a)
	if err != nil {
		return false, err
	}
	two, err := os.ReadFile(b)
	return bytes.Equal(one, two), err
}
