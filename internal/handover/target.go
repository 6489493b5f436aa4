package handover

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"tandem/internal/protocol"
	"tandem/internal/units"
	"tandem/jobs"
)

const (
	partSuffix = ".part" // of a file that is not whole yet
	doneSuffix = ".kv"   // of one that is whole and verified
)

// target is the file that a state is fetched into.
type target struct {
	dir       string
	root      *os.Root
	file      *os.File
	prefix    string // of the name
	name      string // without suffix
	size      int64  // written
	whole     int64
	writeFile func(*os.File, []byte) (int, error)
}

// newTarget creates the file, if the folder has room for all of it.
func newTarget(dir, prefix string, whole int64, write func(*os.File, []byte) (int, error)) (*target, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, protocol.HandoverErrorf(jobs.FailDisk, "open the folder for KV states: %w", err)
	}
	t := &target{dir: dir, root: root, prefix: prefix, name: prefix + rand.Text(), whole: whole, writeFile: write}
	if err := t.create(); err != nil {
		t.discard()
		return nil, err
	}
	return t, nil
}

func (t *target) create() error {
	if free, err := freeBytes(t.dir); err == nil && free < uint64(t.whole) { // a system that cannot say will when it is full
		return protocol.HandoverErrorf(jobs.FailDisk, "the KV state needs %s and %s has %s left; make room, or give another folder", units.Bytes(t.whole), t.dir, units.Bytes(int64(free)))
	}
	file, err := t.root.OpenFile(t.name+partSuffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return t.failed(err)
	}
	t.file = file
	info, err := t.root.Stat(".")
	if err != nil {
		return t.failed(err)
	}
	if info.Mode().Perm()&0o020 != 0 { // a folder for two users: the engine runs as the other
		if err := file.Chmod(0o640); err != nil {
			return t.failed(err)
		}
	}
	return nil
}

func (t *target) write(p []byte) error {
	n, err := t.writeFile(t.file, p)
	t.size += int64(n)
	if err != nil {
		return t.failed(err)
	}
	return nil
}

// reset begins again.
func (t *target) reset() error {
	if err := t.file.Truncate(0); err != nil {
		return t.failed(err)
	}
	if _, err := t.file.Seek(0, io.SeekStart); err != nil {
		return t.failed(err)
	}
	t.size = 0
	return nil
}

// written opens what was written for reading.
func (t *target) written() (*os.File, error) { return t.root.Open(t.name + partSuffix) }

// failed says what the disk's error means.
func (t *target) failed(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return protocol.HandoverErrorf(jobs.FailDisk, "%s was full after %s of %s of the KV state; make room, or give another folder: %w", t.dir, units.Bytes(t.size), units.Bytes(t.whole), err)
	case errors.Is(err, syscall.EFBIG):
		return protocol.HandoverErrorf(jobs.FailDisk, "no file of %s may be written in %s; raise the worker's limit (ulimit -f, LimitFSIZE): %w", units.Bytes(t.whole), t.dir, err)
	}
	return protocol.HandoverErrorf(jobs.FailDisk, "write the KV state in %s: %w", t.dir, err)
}

// keep gives the file its final name.
func (t *target) keep() error {
	err := t.file.Close()
	t.file = nil
	if err == nil {
		err = t.root.Rename(t.name+partSuffix, t.name+doneSuffix)
	}
	if err != nil {
		return t.failed(err)
	}
	return t.root.Close()
}

// path is the final name.
func (t *target) path() string { return filepath.Join(t.dir, t.name+doneSuffix) }

// discard removes the file.
func (t *target) discard() {
	if t.file != nil {
		_ = t.file.Close()
	}
	_ = t.root.Remove(t.name + partSuffix) // Sweep takes what stays
	_ = t.root.Close()
}

// Sweep removes the files that an earlier run left behind: those of dir whose name begins with prefix and
// ends as those of this package, and that were last written before this run began. A folder that does not exist is empty.
func Sweep(dir, prefix string, began time.Time) (removed int, err error) {
	if prefix == "" || strings.ContainsAny(prefix, `/\`) {
		return 0, jobs.Errorf(jobs.CodeInvalid, "the prefix of the files to remove from %s is %q; want the beginning of a file name", dir, prefix)
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return 0, err
	}
	var failures []error
	for _, e := range entries {
		name := e.Name()
		if !e.Type().IsRegular() || !strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, partSuffix) && !strings.HasSuffix(name, doneSuffix) {
			continue
		}
		if info, err := e.Info(); err != nil || !info.ModTime().Before(began) {
			continue // gone, or of this run
		}
		if err := root.Remove(name); err != nil {
			failures = append(failures, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(failures...)
}

// freeBytes is what a user without privileges may still write in a folder.
func freeBytes(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}
