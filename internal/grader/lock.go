package grader

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"tandem/jobs"
)

// lockFile keeps two runs out of one folder. It stays there; the lock on it ends with the process, however that ends.
const lockFile = "grading.lock"

// Lock takes a folder of grades for this process, until it is unlocked: no other one grades into it or reviews it.
func Lock(out string) (unlock func() error, err error) {
	root, err := os.OpenRoot(out)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := lock(root, out)
	if err != nil {
		return nil, err
	}
	return f.Close, nil
}

// lock takes the folder for this process, until the file is closed. path is what the user calls the folder.
func lock(root *os.Root, path string) (*os.File, error) {
	f, err := root.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock folder %s: %w", path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, jobs.Errorf(jobs.CodeInvalid, "another run is grading into %s, or reviewing it; wait for it, stop it, or name another folder with --out", path)
		}
		return nil, fmt.Errorf("lock folder %s: %w", path, err)
	}
	return f, nil
}
