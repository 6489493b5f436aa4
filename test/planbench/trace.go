package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"tandem/test/rig/tap"
)

// trace is a file of what passes between a worker, its engine and NATS: of what the pauses between two pieces of an engine's work are made. It holds no
// text.
type trace struct {
	mu    sync.Mutex
	file  *os.File
	lines *bufio.Writer
	start time.Time
}

func newTrace(path string) (*trace, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	return &trace{file: f, lines: bufio.NewWriter(f), start: time.Now()}, nil
}

// note writes a line: milliseconds since the start, and what happened.
func (t *trace) note(format string, args ...any) {
	at := time.Since(t.start)
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.lines, "%10.2f  "+format+"\n", append([]any{1000 * at.Seconds()}, args...)...)
}

func (t *trace) close() error { return errors.Join(t.lines.Flush(), t.file.Close()) }

// wires are where the worker beside an engine finds NATS and the engine: there, or, for a trace, at taps before them.
func (t *tandem) wires(e *pacedEngine) (nats, engine string, err error) {
	if t.traceDir == "" {
		return t.nats.URL(), e.url, nil
	}
	trace, err := newTrace(filepath.Join(t.traceDir, filepath.Base(t.dir)+"-"+e.machine.Name+".log"))
	if err != nil {
		return "", "", err
	}
	t.mu.Lock()
	t.traces = append(t.traces, trace)
	t.mu.Unlock()
	calls, err := t.tapped(tap.ListenHTTP(tap.HTTPOptions{Target: strings.TrimPrefix(e.url, "http://"), On: func(x *tap.Exchange) tap.Answer {
		what := x.Request.Method + " " + x.Request.URL.RequestURI()
		trace.note("engine > %s, %d bytes", what, len(x.Body))
		return tap.Answer{Answered: func() { trace.note("engine < %s", what) }, Ended: func() { trace.note("engine . %s", what) }}
	}}))
	if err != nil {
		return "", "", err
	}
	ops, err := t.tapped(tap.ListenNATS(tap.NATSOptions{Target: t.nats.Addr(), On: func(op *tap.Op) tap.Verdict {
		direction := "<"
		if op.FromClient {
			direction = ">"
		}
		trace.note("nats   %s %s %s %s, %d bytes", direction, op.Verb, op.Subject, op.Status, len(op.Payload))
		return tap.Pass
	}}))
	if err != nil {
		return "", "", err
	}
	return "nats://" + ops.Addr(), "http://" + calls.Addr(), nil
}

// tapped remembers a tap that was begun, to close it.
func (t *tandem) tapped(opened *tap.Tap, err error) (*tap.Tap, error) {
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.taps = append(t.taps, opened)
	}
	return opened, err
}
