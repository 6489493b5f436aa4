//go:build unix

package leash

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

// Kept describes a program that a [Keeper] keeps running.
type Kept struct {
	Name string // in logs and errors
	// Start starts it, each time anew; its output goes to the writer.
	Start func(ctx context.Context, output io.Writer) (*Process, error)
	// Up is asked until it returns nil: then the program does its work.
	Up      func(ctx context.Context) error
	LogFile string // of its output; one older file is kept as LogFile.1. Empty: nowhere
	Log     *slog.Logger
}

// Keeper keeps a program running: when it ends, it is started again, until Close. One goroutine owns
// the process.
type Keeper struct {
	kept   Kept
	output *logFile
	cancel context.CancelFunc
	ended  chan struct{} // closed when the goroutine has returned

	restart chan struct{} // asks for a restart

	mu      sync.Mutex
	now     Status
	changed chan struct{} // closed and replaced at each change
}

// Status is what a kept program is doing.
type Status struct {
	Phase   Phase
	PID     int   // when it is up
	Problem error // why it is down, or why it is started again
}

// Phase is where a kept program is in its life.
type Phase int

// The phases.
const (
	Starting Phase = iota // for the first time, or after the end of one that was up
	Up
	Down // the last start failed; there will be others, unless it was closed
)

// errRestarted is the problem of a program that was asked to start again.
var errRestarted = errors.New("it was ended to be started again")

// errClosed is the problem of a program whose keeper was closed.
var errClosed = errors.New("it was stopped with us")

// Keep starts a program and keeps it running until Close.
func Keep(k Kept) (*Keeper, error) {
	output, err := openLog(k.LogFile)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	keeper := &Keeper{kept: k, output: output, cancel: cancel, ended: make(chan struct{}), restart: make(chan struct{}, 1), changed: make(chan struct{})}
	go func() { // Close waits for it
		defer close(keeper.ended)
		keeper.run(ctx)
		output.close()
	}()
	return keeper, nil
}

// Restart ends the program, if it is up; like one that ended by itself it is started again.
func (k *Keeper) Restart() {
	if k.Status().Phase != Up {
		return
	}
	select {
	case k.restart <- struct{}{}:
	default:
	}
}

// Close ends the program and waits until it is gone. Further calls do nothing.
func (k *Keeper) Close() {
	k.cancel()
	<-k.ended
}

// Status is what the program is doing now.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

// Settled waits until the program is up, and returns the problem if its start failed.
func (k *Keeper) Settled(ctx context.Context) error {
	for {
		k.mu.Lock()
		now, changed := k.now, k.changed
		k.mu.Unlock()
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

func (k *Keeper) set(now Status) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = now
	close(k.changed)
	k.changed = make(chan struct{})
}

// run starts the program again and again, until the context ends.
func (k *Keeper) run(ctx context.Context) {
	for backoff := firstBackoff; ; backoff = min(2*backoff, maxBackoff) {
		begin := time.Now()
		wasUp, err := k.once(ctx)
		if ctx.Err() != nil {
			k.set(Status{Phase: Down, Problem: errClosed})
			return
		}
		if wasUp && time.Since(begin) > healthyAfter {
			backoff = firstBackoff
		}
		k.kept.Log.Error(k.kept.Name+" ended", "error", err, "restart_seconds", backoff.Seconds())
		if wasUp {
			k.set(Status{Phase: Starting, Problem: err})
		} else {
			k.set(Status{Phase: Down, Problem: err})
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
		}
	}
}

// once runs the program from its start to its end, and returns whether it was up and why it ended.
func (k *Keeper) once(ctx context.Context) (wasUp bool, err error) {
	k.output.forget()
	p, err := k.kept.Start(ctx, k.output)
	if err != nil {
		return false, fmt.Errorf("start %s: %w", k.kept.Name, err)
	}
	defer p.Stop()
	begin := time.Now()
	k.kept.Log.Info(k.kept.Name+" started", "pid", p.Pid(), "log", k.kept.LogFile)
	tick := time.NewTicker(upEvery)
	defer tick.Stop()
	for k.kept.Up(ctx) != nil {
		select {
		case <-p.Exited():
			return false, k.end(p)
		case <-ctx.Done():
			return false, ctx.Err()
		case <-tick.C:
		}
	}
	select {
	case <-k.restart: // of the one before
	default:
	}
	k.set(Status{Phase: Up, PID: p.Pid()})
	k.kept.Log.Info(k.kept.Name+" is up", "pid", p.Pid(), "seconds", time.Since(begin).Seconds())
	select {
	case <-p.Exited():
		return true, k.end(p)
	case <-k.restart:
		return true, errRestarted
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// end says how a process ended, with the last words of its log.
func (k *Keeper) end(p *Process) error {
	how := "exit status 0"
	if p.Err() != nil {
		how = p.Err().Error()
	}
	return fmt.Errorf("%s; the last lines of its log: %s", how, k.output.last())
}
