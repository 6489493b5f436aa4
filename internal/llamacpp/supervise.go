package llamacpp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"tandem/internal/jobs"
	"tandem/internal/leash"
	"tandem/internal/slots"
)

// How long a server that ended waits for its restart: twice as long each time, until one lived long
// enough to be called healthy.
const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 30 * time.Second
	healthyAfter = time.Minute
)

// supervisor keeps one llama-server running. One goroutine, run, owns the process.
type supervisor struct {
	options Options
	client  *slots.Client
	output  *logFile
	flags   *flags // of the program; run asks for them once
	log     *slog.Logger
	cancel  context.CancelFunc
	ended   chan struct{} // closed when run has returned

	mu      sync.Mutex
	now     status
	changed chan struct{} // closed and replaced at each change
}

// status is what a supervised server is doing.
type status struct {
	phase
	at      slots.Endpoint // when it is up
	pid     int            // likewise
	problem error          // why it is down, or why it is started again
}

type phase int

const (
	starting phase = iota // for the first time, or after the end of one that was up
	up
	down // the last start failed; there will be others
)

// supervise starts a server and keeps it running until close.
func supervise(o Options, c *slots.Client) (*supervisor, error) {
	output, err := openLog(o.LogFile)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &supervisor{
		options: o, client: c, output: output, log: o.Log, cancel: cancel,
		ended: make(chan struct{}), changed: make(chan struct{}),
	}
	go func() { // close waits for it
		defer close(s.ended)
		s.run(ctx)
		output.close()
	}()
	return s, nil
}

// close ends the server and waits until it is gone.
func (s *supervisor) close() {
	s.cancel()
	<-s.ended
}

// endpoint is where the server listens, or why it does not.
func (s *supervisor) endpoint() (slots.Endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.at, s.now.err()
}

func (n status) err() error {
	switch {
	case n.phase == down:
		return jobs.Errorf(jobs.CodeEngineUnreachable, "llama-server does not start: %w", n.problem)
	case n.phase == starting && n.problem != nil:
		return jobs.Errorf(jobs.CodeEngineBusy, "llama-server is being restarted: %w", n.problem)
	case n.phase == starting:
		return slots.ErrLoading
	}
	return nil
}

// settled waits until the server is up, or has failed to start.
func (s *supervisor) settled(ctx context.Context) error {
	for {
		s.mu.Lock()
		now, changed := s.now, s.changed
		s.mu.Unlock()
		if now.phase != starting {
			return now.err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *supervisor) set(now status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
	close(s.changed)
	s.changed = make(chan struct{})
}

// run starts the server again and again, until the context ends.
func (s *supervisor) run(ctx context.Context) {
	for backoff := firstBackoff; ; backoff = min(2*backoff, maxBackoff) {
		begin := time.Now()
		wasUp, err := s.once(ctx)
		if ctx.Err() != nil {
			s.set(status{phase: down, problem: errors.New("it was stopped with its worker")})
			return
		}
		if wasUp && time.Since(begin) > healthyAfter {
			backoff = firstBackoff
		}
		s.log.Error("llama-server ended", "error", err, "restart_seconds", backoff.Seconds())
		if wasUp {
			s.set(status{phase: starting, problem: err})
		} else {
			s.set(status{phase: down, problem: err})
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
		}
	}
}

// once runs the server from its start to its end, and returns whether it was up and why it ended.
func (s *supervisor) once(ctx context.Context) (wasUp bool, err error) {
	if s.flags == nil {
		if s.flags, err = flagsOf(ctx, s.options.Binary); err != nil {
			return false, err
		}
	}
	port, err := freePort()
	if err != nil {
		return false, err
	}
	at := slots.Endpoint{URL: fmt.Sprintf("http://127.0.0.1:%d", port), Key: rand.Text()}
	s.output.forget()
	p, err := leash.Start(s.options.Binary, s.flags.arguments(s.options, port), "", environment(at.Key), s.output)
	if err != nil {
		return false, fmt.Errorf("start llama-server: %w", err)
	}
	defer p.Stop()
	begin, pid := time.Now(), p.Pid()
	s.log.Info("llama-server started", "pid", pid, "url", at.URL, "model_file", s.options.ModelFile, "log", s.options.LogFile)
	for {
		if _, err := slots.Describe(ctx, s.client, at); err == nil {
			break
		}
		select {
		case <-p.Exited():
			return false, s.end(p)
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.set(status{phase: up, at: at, pid: pid})
	s.log.Info("llama-server is up", "pid", pid, "seconds", time.Since(begin).Seconds())
	select {
	case <-p.Exited():
		return true, s.end(p)
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// end says how a process ended, with the last words of its log.
func (s *supervisor) end(p *leash.Process) error {
	how := "exit status 0"
	if p.Err() != nil {
		how = p.Err().Error()
	}
	return fmt.Errorf("%s; the last lines of its log: %s", how, s.output.last())
}

// freePort returns a port of the loopback interface that is free now. If another program takes it first,
// the server ends, and the next start tries another one.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
