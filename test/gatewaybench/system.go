package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tandem/internal/natsembed"
	"tandem/internal/ollama/ollamatest"
)

const (
	model     = "matrix:1b"
	slowModel = "slow:1b" // takes 5 ms for a token
	slots     = 16
)

// system is all that runs.
type system struct {
	options
	dir     string
	nats    *natsembed.Server
	engine  *ollamatest.Server
	slow    *ollamatest.Server
	tap     *tap   // between the slow engine and whoever asks it
	url     string // of the gateway
	http    *http.Client
	gateway *program
	worker  *program
	other   *program // of the slow model
}

// program is a process that can be killed and started again as it was.
type program struct {
	path string
	args []string
	s    *system
	cmd  *exec.Cmd
}

func (p *program) start() error {
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Stderr = p.s.work
	return p.cmd.Start()
}

// kill is kill -9.
func (p *program) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = p.cmd.Wait() // it was killed
	return nil
}

// memory is its resident memory in MB.
func (p *program) memory() (float64, error) {
	out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(p.cmd.Process.Pid)).Output()
	if err != nil {
		return 0, err
	}
	kb, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	return kb / 1024, err
}

func start(ctx context.Context, o options) (_ *system, err error) {
	s := &system{options: o, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 400}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "gatewaybench-"); err != nil {
		return nil, err
	}
	if s.nats, err = natsembed.Start(ctx, natsembed.Options{Dir: filepath.Join(s.dir, "nats")}); err != nil {
		return nil, err
	}
	if s.engine, err = ollamatest.Listen(ctx, "127.0.0.1:0", ollamatest.Options{Model: model, Slots: slots, Unrecorded: true}); err != nil {
		return nil, err
	}
	if s.slow, err = ollamatest.Listen(ctx, "127.0.0.1:0", ollamatest.Options{Model: slowModel, Slots: slots, Unrecorded: true, PerToken: 5 * time.Millisecond}); err != nil {
		return nil, err
	}
	if s.tap, err = newTap(s.slow.URL()); err != nil {
		return nil, err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := free.Addr().String()
	_ = free.Close() // the gateway takes it
	s.url = "http://" + addr
	work := func(model, engine string) *program {
		return &program{s: s, path: filepath.Join(o.bin, "decode-worker"), args: []string{"--nats", s.nats.URL(), "--model", model, "--engine-url", engine,
			"--slots", strconv.Itoa(slots), "--num-ctx", "8192", "--http", "127.0.0.1:0", "--state-dir", filepath.Join(s.dir, "decode-"+model), "--log-level", "error"}}
	}
	s.worker, s.other = work(model, s.engine.URL()), work(slowModel, s.tap.url)
	s.gateway = &program{s: s, path: filepath.Join(o.bin, "gateway"), args: []string{"--nats", s.nats.URL(), "--http", addr, "--user", "bench", "--plan", "local", "--console-role", "operator", "--log-level", "error"}}
	for _, p := range []*program{s.worker, s.other, s.gateway} {
		if err := p.start(); err != nil {
			return nil, err
		}
	}
	return s, s.ready(ctx)
}

// ready waits until a request is answered.
func (s *system) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := s.generate(ctx, s.url, "Ready?", nil)
		if err == nil {
			_, err = s.ask(ctx, s.url, slowModel, "Ready?", nil)
		}
		if err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the system does not begin to answer: %w", err)
		}
	}
}

func (s *system) stop() error {
	s.http.CloseIdleConnections()
	var errs []error
	for _, p := range []*program{s.gateway, s.worker, s.other} {
		if p != nil && p.cmd != nil {
			errs = append(errs, p.cmd.Process.Signal(os.Interrupt), p.cmd.Wait())
		}
	}
	if s.tap != nil {
		errs = append(errs, s.tap.server.Close())
	}
	for _, e := range []*ollamatest.Server{s.engine, s.slow} {
		if e != nil {
			e.Down()
		}
	}
	if s.nats != nil {
		s.nats.Stop()
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}
