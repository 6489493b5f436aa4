package llamacpp

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"sync"

	"tandem/internal/jobs"
	"tandem/internal/leash"
	"tandem/internal/slots"
)

// supervisor keeps one llama-server running.
type supervisor struct {
	options Options
	client  *slots.Client
	keeper  *leash.Keeper

	mu    sync.Mutex
	flags *flags         // of the program; it is asked for them once
	at    slots.Endpoint // of the last start
}

// supervise starts a server and keeps it running until close.
func supervise(o Options, c *slots.Client) (*supervisor, error) {
	s := &supervisor{options: o, client: c}
	var err error
	s.keeper, err = leash.Keep(leash.Kept{Name: "llama-server", Start: s.start, Up: s.up, LogFile: o.LogFile, Log: o.Log})
	return s, err
}

// close ends the server and waits until it is gone.
func (s *supervisor) close() { s.keeper.Close() }

// restart has the server end and start again.
func (s *supervisor) restart() bool { s.keeper.Restart(); return true }

// endpoint is where the server listens, or why it does not.
func (s *supervisor) endpoint() (slots.Endpoint, error) {
	switch now := s.keeper.Status(); {
	case now.Phase == leash.Down:
		return slots.Endpoint{}, doesNotStart(now.Problem)
	case now.Phase == leash.Starting && now.Problem != nil:
		return slots.Endpoint{}, jobs.Errorf(jobs.CodeEngineBusy, "llama-server is being restarted: %w", now.Problem)
	case now.Phase == leash.Starting:
		return slots.Endpoint{}, slots.ErrLoading
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at, nil
}

// settled waits until the server is up, or has failed to start.
func (s *supervisor) settled(ctx context.Context) error {
	err := s.keeper.Settled(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return doesNotStart(err)
}

func doesNotStart(problem error) error {
	return jobs.Errorf(jobs.CodeEngineUnreachable, "llama-server does not start: %w", problem)
}

// start starts the server at a new port, with a new key.
func (s *supervisor) start(ctx context.Context, output io.Writer) (*leash.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flags == nil {
		var err error
		if s.flags, err = flagsOf(ctx, s.options.Binary); err != nil {
			return nil, err
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s.at = slots.Endpoint{URL: fmt.Sprintf("http://127.0.0.1:%d", port), Key: rand.Text()}
	return leash.Start(s.options.Binary, s.flags.arguments(s.options, port), "", environment(s.at.Key), output)
}

// up is nil as soon as the server has the model in memory.
func (s *supervisor) up(ctx context.Context) error {
	s.mu.Lock()
	at := s.at
	s.mu.Unlock()
	_, err := slots.Describe(ctx, s.client, at)
	return err
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
