// Package logs is for tests that look at what was logged.
package logs

import (
	"bytes"
	"strings"
	"sync"
)

// Buffer is a buffer for several goroutines.
type Buffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write adds to the buffer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

// String is all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// Count is how often a text was written.
func (b *Buffer) Count(text string) int { return strings.Count(b.String(), text) }
