// Package atomicfile writes files that are there whole or not at all, also after a power cut: to a temporary file in the same folder, which is
// synced and renamed, and then the folder is synced, too.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// Write writes a file with a mode, less what the process keeps from new files (umask), or replaces the one that is there.
func Write(file string, data []byte, mode fs.FileMode) error {
	return WriteFrom(file, mode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteFrom is [Write] of what write writes.
func WriteFrom(file string, mode fs.FileMode, write func(io.Writer) error) error {
	return in(file, func(root *os.Root, name string) error { return put(root, name, mode, write) })
}

// WriteIn is [Write] of a file below root, from which no link leads away.
func WriteIn(root *os.Root, name string, data []byte, mode fs.FileMode) error {
	return put(root, name, mode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Replace is [Write] for a file that may be another user's: where one is there, the new one has its owner, group and mode.
func Replace(file string, data []byte, mode fs.FileMode) error {
	return in(file, func(root *os.Root, name string) error {
		old, err := root.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return WriteIn(root, name, data, mode)
		}
		if err != nil {
			return err
		}
		return put(root, name, old.Mode().Perm(), func(w io.Writer) error {
			f, owner := w.(*os.File), old.Sys().(*syscall.Stat_t)
			_, err := f.Write(data)
			return errors.Join(err, f.Chown(int(owner.Uid), int(owner.Gid)), f.Chmod(old.Mode().Perm()))
		})
	})
}

// in opens the folder of a file.
func in(file string, do func(root *os.Root, name string) error) error {
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(do(root, filepath.Base(file)), root.Close())
}

func put(root *os.Root, name string, mode fs.FileMode, write func(io.Writer) error) error {
	part := path.Join(path.Dir(name), "."+strings.ToLower(rand.Text())+".part")
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if err = errors.Join(write(f), f.Sync(), f.Close()); err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(part))
	}
	folder, err := root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
