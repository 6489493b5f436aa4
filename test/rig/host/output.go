package host

import (
	"bytes"
	"fmt"
	"os"
	"sync"
)

// maxOutput is how much of a process's output is remembered, in bytes.
const maxOutput = 1 << 20

// output is what a process has said: its end in memory, all of it in a file.
type output struct {
	mu    sync.Mutex
	file  *os.File      // nil: none
	end   []byte        // the last maxOutput bytes, and up to as many before them
	all   int           // how many bytes there were
	grown chan struct{} // closed and replaced when there is more
}

func openOutput(path string) (*output, error) {
	o := &output{grown: make(chan struct{})}
	if path == "" {
		return o, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log file: %w", err)
	}
	o.file = file
	return o, nil
}

// Write never fails: on a full disk, which may be the fault in hand, the process must not feel our log.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		_, _ = o.file.Write(p)
	}
	o.end = append(o.end, p...)
	o.all += len(p)
	if extra := len(o.end) - maxOutput; extra > maxOutput {
		o.end = o.end[:copy(o.end, o.end[extra:])]
	}
	close(o.grown)
	o.grown = make(chan struct{})
	return len(p), nil
}

// find looks for text in what was said from the given byte on. If it is not there, it returns from where to look next,
// and what is closed when there is more.
func (o *output) find(text string, from int) (found bool, next int, grown <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	begin := o.all - len(o.end)
	from = max(from, begin)
	if bytes.Contains(o.end[from-begin:], []byte(text)) {
		return true, from, nil
	}
	return false, max(from, o.all-len(text)+1), o.grown
}

// last returns the last n bytes, or all that there are.
func (o *output) last(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.end[max(0, len(o.end)-n):])
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		o.file.Close()
		o.file = nil
	}
}
