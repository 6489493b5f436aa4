//go:build unix

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// How long a program that ended waits for its restart: twice as long each time, until one lived long
// enough to be called healthy.
const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 30 * time.Second
	healthyAfter = time.Minute
)

// upEvery is how often a program that was started is asked whether it is up.
const upEvery = 50 * time.Millisecond

// Config describes a program that a [Supervisor] keeps running.
type Config struct {
	Name string // in logs and errors
	// Start starts it, each time anew; its output goes to the writer.
	Start func(ctx context.Context, output io.Writer) (*Process, error)
	// Up is asked until it returns nil: then the program does its work.
	Up      func(ctx context.Context) error
	LogFile string // of its output; one older file is kept as LogFile.1. Empty: nowhere
	Log     *slog.Logger
}

// Supervisor keeps a program running: when it ends, it is started again, until Close. One goroutine owns
// the process.
type Supervisor struct {
	config Config
	output *logFile
	cancel context.CancelFunc
	ended  chan struct{} // closed when the goroutine has returned

	restart chan struct{} // asks for a restart

	mu      sync.Mutex
	now     Status
	changed chan struct{} // closed and replaced at each change
}

// Status is what a supervised program is doing.
type Status struct {
	Phase   Phase
	PID     int   // when it is up
	Problem error // why it is down, or why it is started again
}

// Phase is where a supervised program is in its life.
type Phase int

// The phases.
const (
	Starting Phase = iota // for the first time, or after the end of one that was up
	Up
	Down // the last start failed; there will be others, unless it was closed
)

// errRestarted is the problem of a program that was asked to start again.
var errRestarted = errors.New("it was ended to be started again")

// errClosed is the problem of a program whose supervisor was closed.
var errClosed = errors.New("it was stopped with us")

// New starts a program and keeps it running until Close.
func New(c Config) (*Supervisor, error) {
	output, err := openLog(c.LogFile)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Supervisor{config: c, output: output, cancel: cancel, ended: make(chan struct{}), restart: make(chan struct{}, 1), changed: make(chan struct{})}
	go func() { // Close waits for it
		defer close(s.ended)
		s.run(ctx)
		output.close()
	}()
	return s, nil
}

// Restart ends the program, if it is up; like one that ended by itself it is started again.
func (s *Supervisor) Restart() {
	if s.Status().Phase != Up {
		return
	}
	select {
	case s.restart <- struct{}{}:
	default:
	}
}

// Close ends the program and waits until it is gone. Further calls do nothing.
func (s *Supervisor) Close() {
	s.cancel()
	<-s.ended
}

// Status is what the program is doing now.
func (s *Supervisor) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Settled waits until the program is up, and returns the problem if its start failed.
func (s *Supervisor) Settled(ctx context.Context) error {
	for {
		s.mu.Lock()
		now, changed := s.now, s.changed
		s.mu.Unlock()
		switch now.Phase {
		case Up:
			return nil
		case Down:
			return now.Problem
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Supervisor) set(now Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
	close(s.changed)
	s.changed = make(chan struct{})
}

// run starts the program again and again, until the context ends.
func (s *Supervisor) run(ctx context.Context) {
	for backoff := firstBackoff; ; backoff = min(2*backoff, maxBackoff) {
		begin := time.Now()
		wasUp, err := s.once(ctx)
		if ctx.Err() != nil {
			s.set(Status{Phase: Down, Problem: errClosed})
			return
		}
		if wasUp && time.Since(begin) > healthyAfter {
			backoff = firstBackoff
		}
		s.config.Log.Error(s.config.Name+" ended", "error", err, "restart_seconds", backoff.Seconds())
		if wasUp {
			s.set(Status{Phase: Starting, Problem: err})
		} else {
			s.set(Status{Phase: Down, Problem: err})
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
		}
	}
}

// once runs the program from its start to its end, and returns whether it was up and why it ended.
func (s *Supervisor) once(ctx context.Context) (wasUp bool, err error) {
	s.output.forget()
	p, err := s.config.Start(ctx, s.output)
	if err != nil {
		return false, fmt.Errorf("start %s: %w", s.config.Name, err)
	}
	defer p.Stop()
	begin := time.Now()
	s.config.Log.Info(s.config.Name+" started", "pid", p.Pid(), "log", s.config.LogFile)
	tick := time.NewTicker(upEvery)
	defer tick.Stop()
	for s.config.Up(ctx) != nil {
		select {
		case <-p.Exited():
			return false, s.end(p)
		case <-ctx.Done():
			return false, ctx.Err()
		case <-tick.C:
		}
	}
	select {
	case <-s.restart: // of the one before
	default:
	}
	s.set(Status{Phase: Up, PID: p.Pid()})
	s.config.Log.Info(s.config.Name+" is up", "pid", p.Pid(), "seconds", time.Since(begin).Seconds())
	select {
	case <-p.Exited():
		return true, s.end(p)
	case <-s.restart:
		return true, errRestarted
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// end says how a process ended, with the last words of its log.
func (s *Supervisor) end(p *Process) error {
	how := "exit status 0"
	if p.Err() != nil {
		how = p.Err().Error()
	}
	return fmt.Errorf("%s; the last lines of its log: %s", how, s.output.last())
}
