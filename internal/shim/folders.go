package shim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links a path may lead through, as in Linux.
const maxLinks = 40

// onlyRoots returns an error if anybody but root could change what an absolute path leads to: between a check and a
// use the name would mean another file. Links are followed step by step. Folders that are missing are made if create
// is set; else what lies behind them is not looked at.
func onlyRoots(path string, create bool) error {
	at, rest := "/", path // at has no links in it
	for links := 0; ; {
		rest = strings.TrimLeft(rest, "/")
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			if !create {
				return nil
			}
			if err := os.Mkdir(at, 0o755); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		// In a folder like /tmp nobody can move what is root's, but everybody can add to it.
		passed := rest != "" && info.Mode()&fs.ModeSticky != 0
		switch owner := info.Sys().(*syscall.Stat_t).Uid; {
		case owner != 0:
			return fmt.Errorf("%s belongs to user %d, not to root", at, owner)
		case info.Mode().Type() == fs.ModeSymlink:
			to, err := os.Readlink(at)
			if links++; err != nil || links > maxLinks {
				return fmt.Errorf("follow link %s: %w", at, errors.Join(err, syscall.ELOOP))
			}
			at, rest = filepath.Dir(at), strings.TrimLeft(to, "/")+"/"+rest
			if filepath.IsAbs(to) {
				at = "/"
			}
			continue
		case info.Mode().Perm()&0o022 != 0 && !passed:
			return fmt.Errorf("%s may be written by others than root (%v)", at, info.Mode())
		case rest == "":
			return nil
		}
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		at = filepath.Join(at, name)
	}
}

// openFolder opens a folder of states or records, and nothing that another put in its place.
func openFolder(dir string) (*os.File, error) {
	if os.Geteuid() == 0 {
		if err := onlyRoots(filepath.Dir(dir), false); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s is a link or a file", dir)
	}
	return f, err
}

// checkFolder reports whether a folder is as it should be. It is an error if makeFolder would refuse it.
func checkFolder(dir string, group int) (ready bool, err error) {
	f, err := openFolder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	return isReady(f, group)
}

// isReady reports whether a folder is as it should be. Only one of ours that is empty can become so: to change another
// would open what is in it to the group.
func isReady(f *os.File, group int) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	stat := info.Sys().(*syscall.Stat_t)
	switch {
	case int(stat.Uid) != os.Geteuid():
		return false, fmt.Errorf("%s belongs to user %d, not to user %d, who installs", f.Name(), stat.Uid, os.Geteuid())
	case info.Mode() == folderMode(group) && (group == NoGroup || int(stat.Gid) == group):
		return true, nil
	}
	if _, err = f.Readdirnames(1); errors.Is(err, io.EOF) {
		return false, nil
	}
	if err == nil {
		err = fmt.Errorf("%s is not empty and has other rights (%v, group %d)", f.Name(), info.Mode(), stat.Gid)
	}
	return false, err
}

func folderMode(group int) fs.FileMode {
	if group == NoGroup {
		return fs.ModeDir | 0o700
	}
	return fs.ModeDir | fs.ModeSetgid | 0o770 // what is made in it belongs to the group too
}

func makeFolder(dir string, group int) (err error) {
	parent := filepath.Dir(dir)
	if os.Geteuid() == 0 {
		err = onlyRoots(parent, true)
	} else {
		err = os.MkdirAll(parent, 0o755)
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := openFolder(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if ready, err := isReady(f, group); ready || err != nil {
		return err
	}
	if group != NoGroup {
		if err := f.Chown(-1, group); err != nil {
			return err
		}
	}
	return f.Chmod(folderMode(group) &^ fs.ModeDir)
}

// removeFolder removes a folder if it is empty.
func removeFolder(dir string) error {
	f, err := openFolder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_ = os.Remove(dir) // one that is not empty stays
	return f.Close()
}
