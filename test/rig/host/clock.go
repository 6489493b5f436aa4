package host

import (
	"debug/buildinfo"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
)

// A program that is built with a clock that moves has a standard library whose time.Now adds an offset to the wall
// part of the time, and leaves the monotonic part alone, by which durations and timers go. The offset is eight bytes
// of a file that the program has mapped into its memory, so that a move is seen by the next call.
const (
	clockTag  = "rigclock"  // a build tag that no file asks for: it stands in the program, so that we can tell
	clockEnv  = "RIG_CLOCK" // path of the file
	clockFile = "std:time/rigclock.go"
)

// clockSource is added to package time, which can use package syscall, but not package os.
const clockSource = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// rigClock is what is added to the wall clock, in nanoseconds.
var rigClock *int64

func init() {
	path, given := syscall.Getenv("` + clockEnv + `")
	if !given {
		return
	}
	file, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic("open ` + clockEnv + `: " + err.Error())
	}
	memory, err := syscall.Mmap(file, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("map ` + clockEnv + `: " + err.Error())
	}
	syscall.Close(file)
	rigClock = (*int64)(unsafe.Pointer(&memory[0]))
}

func rigMoved(sec int64, nsec int32) (int64, int32) {
	if rigClock == nil {
		return sec, nsec
	}
	all := atomic.LoadInt64(rigClock) + int64(nsec)
	sec, all = sec+all/1e9, all%1e9
	if all < 0 {
		return sec - 1, int32(all + 1e9)
	}
	return sec, int32(all)
}
`

// clockEdit has time.Now ask.
func clockEdit() Edit {
	const head = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	return Edit{File: "std:time/time.go", Old: head, New: head + "\tsec, nsec = rigMoved(sec, nsec)\n"}
}

// clock moves the wall clock of one process.
type clock struct {
	file *os.File
}

// newClock makes the clock of a program that is about to start, moved by so much; nil if it was built without.
func newClock(program string, by time.Duration) (*clock, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, nil // a shell, for example
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" && s.Value == clockTag {
			file, err := os.CreateTemp("", "tandem-clock-")
			if err != nil {
				return nil, fmt.Errorf("make clock: %w", err)
			}
			c := &clock{file: file}
			if err := c.move(by); err != nil {
				c.close()
				return nil, err
			}
			return c, nil
		}
	}
	return nil, nil
}

func (c *clock) env() []string {
	if c == nil {
		return nil
	}
	return []string{clockEnv + "=" + c.file.Name()}
}

func (c *clock) move(by time.Duration) error {
	if c == nil {
		return errors.New("move clock: the program was built without BuildOptions.Clock")
	}
	if _, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(by)), 0); err != nil {
		return fmt.Errorf("move clock: %w", err)
	}
	return nil
}

func (c *clock) close() {
	if c != nil {
		c.file.Close()
		os.Remove(c.file.Name())
	}
}
