package engines

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tandem/internal/standin"
	"tandem/internal/tinymodel"
)

// ollama is an engine with Ollama's API, real or not.
type ollama struct {
	*server
	runDir string // where a shim leaves its records
}

// StartNoop starts an engine that computes nothing: the fake Ollama as a program. It has no shim, so its workers move no states.
func StartNoop(ctx context.Context, o Options) (Engine, error) {
	if o.Programs == nil {
		return nil, fmt.Errorf("start engine %s: Options.Programs is nil; build noopengine with host.Build", o.Name)
	}
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	e := &ollama{s, filepath.Join(s.options.Dir, "run")}
	// Empty, or a worker would look for records where this machine may have a shim installed.
	if err := os.MkdirAll(e.runDir, 0o700); err != nil {
		return nil, fmt.Errorf("start engine %s: %w", o.Name, err)
	}
	args := []string{"--listen", s.Addr(), "--slots", strconv.Itoa(s.options.Slots), "--per-token", o.PerToken.String()}
	for _, model := range o.Models {
		args = append(args, "--model", model)
	}
	program := o.Programs.Path("noopengine")
	s.run = func(ctx context.Context) (process, error) { return s.launch(ctx, program, args, "/api/version") }
	if err := s.Restart(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// StartOllama starts a real Ollama whose llama-servers have the shim, with a small model of each name.
func StartOllama(ctx context.Context, o Options) (Engine, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	programs, err := standin.Find(ctx, standin.Options{})
	if err == nil && !o.Batches {
		programs.LlamaServer, err = s.oneByOne(programs.LlamaServer)
	}
	if err != nil {
		return nil, fmt.Errorf("start engine %s: %w", o.Name, err)
	}
	e := &ollama{server: s}
	serve := standin.OllamaOptions{Engines: programs, Dir: s.options.Dir, Models: map[string]tinymodel.Spec{}, Port: s.port, NumParallel: s.options.Slots}
	for _, model := range o.Models {
		serve.Models[model] = o.spec(model)
	}
	s.run = func(ctx context.Context) (process, error) {
		p, err := standin.StartOllama(ctx, serve)
		if err != nil {
			return nil, err
		}
		e.runDir = p.RunDir() // the same each time
		return ollamaProcess{p}, nil
	}
	if err := s.Restart(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// oneByOne returns a program that is llama-server with the flag of one token at a time, which Ollama has no setting for.
func (s *server) oneByOne(llamaServer string) (string, error) {
	quoted := "'" + strings.ReplaceAll(llamaServer, "'", `'\''`) + "'"
	script := "#!/bin/sh\ncase \" $* \" in\n*' --model '*) exec " + quoted + " \"$@\" " + oneByOne + " ;;\nesac\nexec " + quoted + " \"$@\"\n"
	path := filepath.Join(s.options.Dir, "llama-server-one-by-one")
	return path, os.WriteFile(path, []byte(script), 0o700)
}

// spec is the small model that takes a model's place: in its shape if it has one, else a plain one of its own, because
// an Ollama takes two names of one file for one model.
func (o Options) spec(model string) tinymodel.Spec {
	if spec, ok := o.Specs[model]; ok {
		return spec
	}
	if spec, ok := standin.Models()[model]; ok {
		return spec
	}
	spec := tinymodel.Tiny(tinymodel.BPE)
	for _, b := range []byte(model) {
		spec.Seed = spec.Seed*31 + uint64(b)
	}
	return spec
}

// ollamaProcess is a stand-in as a process.
type ollamaProcess struct{ *standin.Ollama }

// Kill has no error to report but that of closing the log.
func (p ollamaProcess) Kill() { _ = p.Ollama.Kill() }

func (p ollamaProcess) Freeze() error { return p.signal(syscall.SIGSTOP) }

func (p ollamaProcess) Thaw() error { return p.signal(syscall.SIGCONT) }

// signal signals the whole group.
func (p ollamaProcess) signal(s syscall.Signal) error {
	select {
	case <-p.Exited(): // its number may be another's by now
		return fmt.Errorf("send %v to ollama: %w", s, os.ErrProcessDone)
	default:
	}
	if err := syscall.Kill(-p.Pid(), s); err != nil {
		return fmt.Errorf("send %v to ollama: %w", s, err)
	}
	return nil
}

func (e *ollama) Flags(url string) []string {
	return append(e.flags("ollama", url), "--shim-run-dir", e.runDir)
}

// flags are those of a worker of any engine.
func (s *server) flags(engine, url string) []string {
	return []string{
		"--engine", engine, "--engine-url", url, "--num-ctx", strconv.Itoa(s.options.NumCtx), "--threads", "1", "--slots", strconv.Itoa(s.options.Slots),
	}
}

// Unload returns when the models have been gone: Ollama answers before that. It is told again as long as there are some, for a worker may have had one
// loaded anew in between.
func (e *ollama) Unload(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, model := range e.options.Models {
			if _, err := e.call(ctx, "/api/generate", map[string]any{"model": model, "keep_alive": 0}); err != nil {
				return fmt.Errorf("unload models of engine %s: %w", e.Name(), err)
			}
		}
		var loaded struct{ Models []struct{} }
		if err := e.fetch(ctx, "/api/ps", nil, &loaded); err != nil {
			return fmt.Errorf("unload models of engine %s: %w", e.Name(), err)
		}
		if len(loaded.Models) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("unload models of engine %s: %w", e.Name(), context.Cause(ctx))
		}
	}
}

// Ask sends the request that a worker would send, twice: the second time the prompt but its last token is cached.
func (e *ollama) Ask(ctx context.Context, job []byte) ([]string, error) {
	q, err := e.read(job)
	if err != nil {
		return nil, err
	}
	var texts []string
	for range 2 {
		text, err := e.answer(ctx, q)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return distinct(texts), nil
}

func (e *ollama) Answer(ctx context.Context, job []byte) (string, error) {
	q, err := e.read(job)
	if err != nil {
		return "", err
	}
	return e.answer(ctx, q)
}

func (e *ollama) answer(ctx context.Context, q question) (string, error) {
	path, body := e.request(q)
	var a struct {
		Response string
		Message  turn
		Done     bool
	}
	if err := e.fetch(ctx, path, body, &a); err != nil {
		return "", fmt.Errorf("ask engine %s: %w", e.Name(), err)
	}
	if !a.Done {
		return "", fmt.Errorf("ask engine %s: it gave up in mid answer (done is false)", e.Name())
	}
	return a.Response + a.Message.Content, nil
}

// request is a question for Ollama's API, with everything set that a worker sets too: another value of num_ctx, num_thread
// or shift would be another runner. A prompt with a format goes to the chat API, as docs/ARCHITECTURE.md says.
func (e *ollama) request(q question) (path string, body map[string]any) {
	options := map[string]any{"num_ctx": e.options.NumCtx, "num_thread": 1}
	for _, name := range samplingOptions {
		if v, ok := q.Options[name]; ok {
			options[name] = v
		}
	}
	body = map[string]any{"model": q.Model, "stream": false, "truncate": false, "shift": false, "options": options}
	if len(q.Format) > 0 {
		body["format"] = q.Format
	}
	if q.Think == "on" || q.Think == "off" { // a level is nothing to models that cannot think, as these are
		body["think"] = q.Think == "on"
	}
	if len(q.Messages) > 0 || len(q.Format) > 0 {
		body["messages"] = q.chat()
		return "/api/chat", body
	}
	body["prompt"] = q.Prompt
	if q.System != "" {
		body["system"] = q.System
	}
	return "/api/generate", body
}
