package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/standin"
	"tandem/internal/supervisor"
	"tandem/jobs"
)

const (
	startLimit = 2 * time.Minute // for engines and workers to be there
	look       = 100 * time.Millisecond
)

// system is the whole pipeline, each program a process.
type system struct {
	options
	ctx     context.Context
	nats    string // URL
	engines struct {
		Prefill       string `json:"prefill"`
		PrefillRunDir string `json:"prefill_run_dir"`
		Decode        string `json:"decode"`
		DecodeRunDir  string `json:"decode_run_dir"`
	}
	workers map[string]*supervisor.Process // by role and model
	others  []*supervisor.Process
	queue   *queue.Conn
}

func (s *system) say(format string, args ...any) { fmt.Fprintf(s.work, format+"\n", args...) }

func (s *system) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// generate makes the class.
func (s *system) generate() error {
	cmd := exec.CommandContext(s.ctx, "go", "run", "tandem/examples/class/generate", "--students", strconv.Itoa(s.students), "--seed", "7",
		"--out", s.path("class"), "--median-kb", strconv.Itoa(s.medianKB), "--largest-kb", strconv.Itoa(s.largestKB))
	out, err := cmd.CombinedOutput()
	s.say("%s", bytes.TrimSpace(out))
	return err
}

// start starts NATS, the engines and the four workers, and waits until all are there.
func (s *system) start() error {
	var at struct{ NATS string }
	if err := s.serve(&at, "dev", "--nats-only", "--port", "0", "--store", s.path("nats")); err != nil {
		return fmt.Errorf("start NATS: %w", err)
	}
	s.nats = at.NATS
	if err := s.serve(&s.engines, "dev", "--engines-only", "--store", s.path("engines")); err != nil {
		return fmt.Errorf("start engines: %w", err)
	}
	var err error
	if s.queue, err = queue.Connect(s.ctx, queue.Config{URL: s.nats, Name: "classbench"}); err != nil {
		return err
	}
	s.workers = map[string]*supervisor.Process{}
	for _, model := range []string{standin.CodeModel, standin.FeedbackModel} {
		for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
			if err := s.startWorker(role, model); err != nil {
				return err
			}
		}
	}
	return s.until(startLimit, "four workers", func() (bool, error) {
		list, err := s.queue.Workers(s.ctx)
		return len(list) == len(s.workers), err
	})
}

// serve starts a part of `submitter dev` and reads the line of JSON that it prints when it is there.
func (s *system) serve(into any, args ...string) error {
	lines, w := io.Pipe()
	p, err := supervisor.Start(filepath.Join(s.bin, "submitter"), append(args, "--json"), "", nil, w)
	if err != nil {
		return err
	}
	s.others = append(s.others, p)
	found := make(chan error, 1)
	go func() { // ends with the program, whose output it takes
		in := bufio.NewScanner(lines)
		for in.Scan() {
			if bytes.HasPrefix(in.Bytes(), []byte("{")) {
				found <- json.Unmarshal(in.Bytes(), into)
				break
			}
		}
		_, _ = io.Copy(io.Discard, lines)
	}()
	select {
	case err := <-found:
		return err
	case <-p.Exited():
		return fmt.Errorf("submitter %v ended: %w", args, p.Err())
	case <-time.After(startLimit):
		return fmt.Errorf("submitter %v says nothing", args)
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

func workerKey(role jobs.Stage, model string) string { return string(role) + " worker of " + model }

func (s *system) startWorker(role jobs.Stage, model string) error {
	engine, run := s.engines.Prefill, s.engines.PrefillRunDir
	if role == protocol.RoleDecode {
		engine, run = s.engines.Decode, s.engines.DecodeRunDir
	}
	name := string(role) + "-" + jobs.EncodeToken(model)
	log, err := os.OpenFile(s.path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the worker has its own handle
	p, err := supervisor.Start(filepath.Join(s.bin, string(role)+"-worker"), []string{
		"--nats", s.nats, "--model", model, "--engine-url", engine, "--shim-run-dir", run, "--machine", string(role),
		"--http", "127.0.0.1:0", "--threads", "1", "--state-dir", s.path(name),
	}, "", nil, log)
	if err == nil {
		s.workers[workerKey(role, model)] = p
	}
	return err
}

// until waits for something to be true.
func (s *system) until(limit time.Duration, what string, there func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		ok, err := there()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		}
	}
}

// stop ends everything that was started.
func (s *system) stop() {
	if s.queue != nil {
		s.queue.Close()
	}
	for _, p := range s.workers {
		p.Stop()
	}
	for _, p := range slices.Backward(s.others) {
		p.Stop()
	}
}
