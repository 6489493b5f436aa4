package netns

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// cloneNewNet says that a file is of a network namespace: CLONE_NEWNET of sched.h.
const cloneNewNet = syscall.CLONE_NEWNET

// setnsNumber is the number of the system call setns, which package syscall does not have everywhere.
func setnsNumber() (uintptr, error) {
	switch runtime.GOARCH {
	case "amd64":
		return 308, nil
	case "arm64", "riscv64", "loong64":
		return 268, nil
	}
	return 0, fmt.Errorf("enter network namespaces: the number of setns on %s is not known; add it to test/rig/netns", runtime.GOARCH)
}

// inside runs a function whose sockets are made in a namespace, given by its file. Only the calling goroutine's thread is there, so what
// the function starts elsewhere is not.
func inside(file string, do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		back, err := enter(file)
		if err != nil {
			runtime.UnlockOSThread() // it has not moved
			done <- err
			return
		}
		err = do()
		// A thread that cannot return ends with its goroutine: nobody else may get it.
		if back() == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// enter moves the thread into a namespace; what it returns moves it back.
func enter(file string) (back func() error, err error) {
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("open own network namespace: %w", err)
	}
	other, err := os.Open(file)
	if err == nil {
		err = setns(other)
		other.Close()
	}
	if err != nil {
		own.Close()
		return nil, fmt.Errorf("enter network namespace %s: %w", file, err)
	}
	return func() error {
		defer own.Close()
		return setns(own)
	}, nil
}

func setns(f *os.File) error {
	number, err := setnsNumber()
	if err != nil {
		return err
	}
	if _, _, errno := syscall.Syscall(number, f.Fd(), cloneNewNet, 0); errno != 0 {
		return errno
	}
	return nil
}
