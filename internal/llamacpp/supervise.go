package llamacpp

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"sync"

	"tandem/internal/slots"
	"tandem/internal/supervisor"
	"tandem/jobs"
)

// ownServer is a llama-server that is kept running.
type ownServer struct {
	options    Options
	client     *slots.Client
	supervisor *supervisor.Supervisor

	mu    sync.Mutex
	flags *flags         // of the program; it is asked for them once
	at    slots.Endpoint // of the last start
}

// supervise starts a server and keeps it running until close.
func supervise(o Options, c *slots.Client) (*ownServer, error) {
	s := &ownServer{options: o, client: c}
	var err error
	s.supervisor, err = supervisor.New(supervisor.Config{Name: "llama-server", Start: s.start, Up: s.up, LogFile: o.LogFile, Log: o.Log})
	return s, err
}

// close ends the server and waits until it is gone.
func (s *ownServer) close() { s.supervisor.Close() }

// restart has the server end and start again.
func (s *ownServer) restart() bool { s.supervisor.Restart(); return true }

// endpoint is where the server listens, or why it does not.
func (s *ownServer) endpoint() (slots.Endpoint, error) {
	switch now := s.supervisor.Status(); {
	case now.Phase == supervisor.Down:
		return slots.Endpoint{}, doesNotStart(now.Problem)
	case now.Phase == supervisor.Starting && now.Problem != nil:
		return slots.Endpoint{}, jobs.Errorf(jobs.CodeEngineBusy, "llama-server is being restarted: %w", now.Problem)
	case now.Phase == supervisor.Starting:
		return slots.Endpoint{}, slots.ErrLoading
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at, nil
}

// settled waits until the server is up, or has failed to start.
func (s *ownServer) settled(ctx context.Context) error {
	err := s.supervisor.Settled(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return doesNotStart(err)
}

func doesNotStart(problem error) error {
	return jobs.Errorf(jobs.CodeEngineUnreachable, "llama-server does not start: %w", problem)
}

// start starts the server at a new port, with a new key.
func (s *ownServer) start(ctx context.Context, output io.Writer) (*supervisor.Process, error) {
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
	return supervisor.Start(s.options.Binary, s.flags.arguments(s.options, port), "", environment(s.at.Key), output)
}

// up is nil as soon as the server has the model in memory.
func (s *ownServer) up(ctx context.Context) error {
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
