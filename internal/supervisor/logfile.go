package supervisor

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
)

const (
	maxLogFile  = 10 << 20 // bytes, then it becomes the older file
	tailLines   = 6
	maxTailLine = 300 // bytes
)

// logFile is where a program's output goes: a file of bounded size, and its last lines in memory.
type logFile struct {
	path string // empty: no file; one older file is kept as path.1

	mu   sync.Mutex
	file *os.File
	size int64
	line []byte   // begun
	tail []string // the last ones
}

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	if path == "" {
		return l, nil
	}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log file: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("open log file: %w", err)
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write never fails: a log that cannot be written must not stop the program, whose output it is.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remember(p)
	if l.file == nil {
		return len(p), nil
	}
	if l.size > 0 && l.size+int64(len(p)) > maxLogFile {
		l.rotate()
	}
	if l.file != nil {
		n, _ := l.file.Write(p)
		l.size += int64(n)
	}
	return len(p), nil
}

func (l *logFile) rotate() {
	l.file.Close()
	l.file = nil
	if os.Rename(l.path, l.path+".1") == nil {
		_ = l.open() // without a file the last lines are still there
	}
}

func (l *logFile) remember(p []byte) {
	for {
		head, rest, ended := bytes.Cut(p, []byte("\n"))
		if room := maxTailLine - len(l.line); room > 0 {
			l.line = append(l.line, head[:min(len(head), room)]...)
		}
		if !ended {
			return
		}
		if s := strings.TrimSpace(strings.ToValidUTF8(string(l.line), "")); s != "" {
			if l.tail = append(l.tail, s); len(l.tail) > tailLines {
				l.tail = l.tail[1:]
			}
		}
		l.line, p = l.line[:0], rest
	}
}

// last returns the last lines since the last call of forget, as one.
func (l *logFile) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.tail, " | ")
}

func (l *logFile) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line, l.tail = nil, nil
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}
