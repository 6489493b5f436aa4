package natsembed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// storeLock keeps a second server, of this or another process, off a store: nats-server itself
// does not, and two of them on one store destroy it.
type storeLock struct{ file *os.File }

// lockStore creates the store's folders, readable by the owner only, and locks them.
func lockStore(dir string) (*storeLock, error) {
	inner := filepath.Join(dir, "jetstream") // the name is nats-server's; it would be readable by the group
	if err := os.MkdirAll(inner, 0o700); err != nil {
		return nil, fmt.Errorf("create store: %w", err)
	}
	if err := os.Chmod(inner, 0o700); err != nil {
		return nil, fmt.Errorf("protect store: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock store: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("store %s is in use by another server; stop that one or name another folder", dir)
		}
		return nil, fmt.Errorf("lock store %s: %w", dir, err)
	}
	return &storeLock{file}, nil
}

func (l *storeLock) release() { _ = l.file.Close() } // closing unlocks
