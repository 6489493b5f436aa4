package handover

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

const (
	largeBytes = 2 << 30
	memoryGoal = 80 << 20
)

// Memory does not grow with the state: a process that both serves and fetches 2 GB stays under 80 MB.
func TestMemoryOfALargeTransfer(t *testing.T) {
	out := child(t, "memory", childInput{Dir: t.TempDir(), Bytes: largeBytes})
	t.Logf("serving and fetching %d MB took %d MB of memory", largeBytes>>20, out.Bytes>>20)
	if out.Bytes > memoryGoal {
		t.Errorf("%d MB of memory, want at most %d", out.Bytes>>20, memoryGoal>>20)
	}
}

func moveInOneProcess(in childInput) (out childOutput, err error) {
	s, err := Serve(context.Background(), ServerConfig{Listen: "127.0.0.1:0", Budget: in.Bytes})
	if err != nil {
		return out, err
	}
	defer s.Close()
	client, err := NewClient(ClientConfig{})
	if err != nil {
		return out, err
	}
	defer client.Close()
	path := filepath.Join(in.Dir, "source") // with holes, which are zeros to whoever reads them
	if err := os.WriteFile(path, []byte("state"), 0o600); err != nil {
		return out, err
	}
	if err := os.Truncate(path, in.Bytes); err != nil {
		return out, err
	}
	state, err := s.Offer("job", path)
	if err != nil {
		return out, err
	}
	// What a file holds is no part of a process's memory, so that little of the disk does as well.
	client.write = func(f *os.File, p []byte) (int, error) { return f.WriteAt(p, 0) }
	got, err := client.Fetch(context.Background(), &state, in.Dir, "x-", nil)
	if err != nil {
		return out, err
	}
	if got.Bytes != in.Bytes {
		return out, fmt.Errorf("%d bytes arrived", got.Bytes)
	}
	out.Bytes, err = mostMemory()
	return out, err
}

// mostMemory is the most memory that this process ever had resident. Linux gives its parent's in getrusage, if that had more.
func mostMemory() (int64, error) {
	if runtime.GOOS != "linux" {
		var usage syscall.Rusage
		err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		return int64(usage.Maxrss), err // bytes on macOS
	}
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			var kilobytes int64
			_, err := fmt.Sscanf(rest, "%d kB", &kilobytes)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("the system does not say how much memory was used")
}
