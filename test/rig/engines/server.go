package engines

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"tandem/test/rig/host"
)

// startLimit is how long an engine may take until it answers; a tiny model takes a fraction of a second.
const startLimit = 30 * time.Second

// process is a started program with its children, as a host.Process is one.
type process interface {
	Pid() int
	Exited() <-chan struct{}
	Kill() // may be called again
	Freeze() error
	Thaw() error
}

// server is what all engines have in common: a process that is started again on the same port.
type server struct {
	options Options // complete
	port    int
	client  *http.Client
	run     func(ctx context.Context) (process, error) // starts it and returns when it answers

	mu      sync.Mutex
	process process // that runs, or ran last
}

// newServer completes the options, makes the engine's folder and finds it a port.
func newServer(o Options) (*server, error) {
	if len(o.Models) == 0 {
		return nil, fmt.Errorf("start engine %s: Options.Models is empty; name at least one model", o.Name)
	}
	o.Slots = max(o.Slots, 1)
	if o.NumCtx == 0 {
		o.NumCtx = 2048
	}
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, fmt.Errorf("start engine %s: %w", o.Name, err)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("start engine %s: %w", o.Name, err)
	}
	port, err := host.FreePort()
	if err != nil {
		return nil, fmt.Errorf("start engine %s: %w", o.Name, err)
	}
	// Of an engine that is killed and comes back no connection is worth keeping.
	return &server{options: o, port: port, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}, nil
}

func (s *server) Name() string { return s.options.Name }

func (s *server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *server) Pid() int { return s.current().Pid() }

func (s *server) Kill() { s.current().Kill() }

func (s *server) Close() { s.current().Kill() }

func (s *server) Freeze() error { return s.current().Freeze() }

func (s *server) Thaw() error { return s.current().Thaw() }

// current is the process that runs or ran last, nil before the first.
func (s *server) current() process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

func (s *server) Restart(ctx context.Context) error {
	if p := s.current(); p != nil {
		select {
		case <-p.Exited():
			p.Kill() // lets go of what is left of one that ended by itself
		default:
			return fmt.Errorf("restart engine %s: it still runs; kill it first", s.Name())
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("it did not answer within %v", startLimit))
	defer cancel()
	p, err := s.run(ctx)
	if err != nil {
		return fmt.Errorf("start engine %s: %w", s.Name(), err)
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	return nil
}

// launch starts a program that answers 200 under the path health as soon as it does its work.
func (s *server) launch(ctx context.Context, program string, args []string, health string) (process, error) {
	p, err := host.Start(host.Spec{
		Name: s.Name(), Program: program, Args: args, Env: environment(s.options.Dir), Dir: s.options.Dir, Log: filepath.Join(s.options.Dir, "engine.log"),
	})
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !s.healthy(ctx, health) {
		select {
		case <-tick.C:
			continue
		case <-p.Exited():
			err = fmt.Errorf("it ended with status %d", p.Code())
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		p.Kill()
		return nil, fmt.Errorf("%w; its output ends with:\n%s", err, last(p.Output()))
	}
	return p, nil
}

// last is the end of an output, for an error.
func last(output string) string { return output[max(0, len(output)-500):] }

func (s *server) healthy(ctx context.Context, path string) bool {
	_, err := s.call(ctx, path, nil)
	return err == nil
}

// environment is ours without what steers an engine, and with a home of its own.
func environment(home string) []string {
	env := []string{"HOME=" + home}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch prefix, _, _ := strings.Cut(name, "_"); prefix {
		case "HOME", "OLLAMA", "LLAMA", "GGML", "TANDEM":
		default:
			env = append(env, v)
		}
	}
	return env
}
