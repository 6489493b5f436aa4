package standin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tandem/internal/shim"
	"tandem/internal/supervisor"
	"tandem/internal/tinymodel"
)

// OllamaOptions says which Ollama to start.
type OllamaOptions struct {
	Engines     Engines                   // from Find
	Dir         string                    // everything of this server: programs, home, models, log. A second start in it finds the models again
	Models      map[string]tinymodel.Spec // by the name they are served under; may be empty
	CacheDir    string                    // for the model files; CacheDir's if empty
	Port        int                       // on 127.0.0.1; 0 is any free one
	NumParallel int                       // requests at a time for each model; 0 is 1
	Log         *slog.Logger              // may be nil
}

// Ollama is a running `ollama serve` of our own, apart from any other on this machine.
type Ollama struct {
	dir     string
	url     string
	process *supervisor.Process
	log     *serverLog
	stop    sync.Once
}

// startLimit is how long a server may take to listen; it takes a fraction of a second.
const startLimit = 30 * time.Second

// StartOllama starts a server and returns when it serves all the models. ctx bounds the start, not the server's life:
// Stop ends it, and so does the end of this process, by whatever means. If the start fails, the error has the last
// lines of the server's log, and nothing is left running.
func StartOllama(ctx context.Context, o OllamaOptions) (_ *Ollama, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, fmt.Errorf("start ollama: %w", err)
	}
	s := &Ollama{dir: o.Dir}
	program, err := o.overlay(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("start ollama: %w", err)
	}
	if s.log, err = newServerLog(filepath.Join(o.Dir, "ollama.log")); err != nil {
		return nil, fmt.Errorf("start ollama: %w", err)
	}
	started := time.Now()
	if s.process, err = supervisor.Start(program, []string{"serve"}, o.Dir, o.environment(), s.log); err != nil {
		return nil, errors.Join(fmt.Errorf("start ollama: %w", err), s.log.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if s.url, err = s.listening(ctx); err != nil {
		return nil, fmt.Errorf("start ollama: %w; its log ends with:\n%s", err, s.log.last())
	}
	if err := s.importModels(ctx, o); err != nil {
		return nil, fmt.Errorf("start ollama: %w; its log ends with:\n%s", err, s.log.last())
	}
	o.Log.Debug("stand-in Ollama serves", "url", s.url, "models", len(o.Models), "version", o.Engines.OllamaVersion, "start_seconds", time.Since(started).Seconds())
	return s, nil
}

// URL is the server's address, as in http://127.0.0.1:41234.
func (s *Ollama) URL() string { return s.url }

// SlotDir is where its llama-servers write and read KV states.
func (s *Ollama) SlotDir() string { return filepath.Join(s.dir, "slots") }

// RunDir is where the shim leaves the records of its llama-servers, for shim.Live.
func (s *Ollama) RunDir() string { return filepath.Join(s.dir, "run") }

// Pid is the process id of `ollama serve`, and the id of the process group that its llama-servers share.
func (s *Ollama) Pid() int { return s.process.Pid() }

// Exited is closed when `ollama serve` has ended, by whatever means.
func (s *Ollama) Exited() <-chan struct{} { return s.process.Exited() }

// Stop ends the server and its llama-servers and returns when they are gone. Further calls do nothing.
func (s *Ollama) Stop() error { return s.end(s.process.Stop) }

// Kill is Stop by SIGKILL: nothing in the group gets to say goodbye.
func (s *Ollama) Kill() error { return s.end(s.process.Kill) }

func (s *Ollama) end(how func()) (err error) {
	s.stop.Do(func() {
		how()
		err = s.log.Close()
	})
	return err
}

// overlay lays out a private installation whose llama-server is the shim, and returns its ollama program.
func (o OllamaOptions) overlay(ctx context.Context, s *Ollama) (string, error) {
	for _, d := range []string{"home", "models"} {
		if err := os.MkdirAll(filepath.Join(o.Dir, d), 0o755); err != nil {
			return "", err
		}
	}
	program, err := Shim(ctx)
	if err != nil {
		return "", err
	}
	ollama, err := shim.Overlay(ctx, o.Dir, shim.OverlayOptions{
		Ollama: o.Engines.Ollama, LlamaServer: o.Engines.LlamaServer, Shim: program, SlotDir: s.SlotDir(), RunDir: s.RunDir(),
	})
	if err != nil {
		return "", err
	}
	// A script, because a program that finds its libraries relative to itself would not find them from here.
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", strings.ReplaceAll(o.Engines.LlamaQuantize, "'", `'\''`))
	return ollama, os.WriteFile(filepath.Join(o.Dir, "lib", "ollama", "llama-quantize"), []byte(script), 0o755)
}

// environment is ours without what steers an Ollama or a llama-server, and with what makes this one private.
func (o OllamaOptions) environment() []string {
	var env []string
	for _, v := range os.Environ() {
		steers := func(prefix string) bool { return strings.HasPrefix(v, prefix) }
		if !slices.ContainsFunc([]string{"HOME=", "OLLAMA_", "LLAMA_", "GGML_", "TANDEM_"}, steers) {
			env = append(env, v)
		}
	}
	return append(env,
		"HOME="+filepath.Join(o.Dir, "home"),
		"OLLAMA_MODELS="+filepath.Join(o.Dir, "models"),
		"OLLAMA_HOST="+net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)),
		"OLLAMA_NUM_PARALLEL="+strconv.Itoa(max(1, o.NumParallel)),
		"OLLAMA_MAX_LOADED_MODELS="+strconv.Itoa(max(1, len(o.Models))),
		"OLLAMA_NO_CLOUD=1",
		"OLLAMA_FLASH_ATTENTION=1", // the same everywhere, so that KV states are
		"OLLAMA_KEEP_ALIVE=-1",     // a model once loaded stays, and with it its cache
	)
}

// listening waits for the server to say where it listens.
func (s *Ollama) listening(ctx context.Context) (string, error) {
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case address := <-s.log.address:
		return "http://" + address, nil
	case <-s.process.Exited():
		return "", errors.New("it ended at once")
	case <-limit.C:
		return "", fmt.Errorf("it did not listen within %v", startLimit)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// serverLog keeps a server's output in a file and looks in it for the address that it listens on.
type serverLog struct {
	address chan string // gets the address, once
	file    *os.File
	head    []byte // what was written so far, until the address is known
}

func newServerLog(path string) (*serverLog, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	return &serverLog{address: make(chan string, 1), file: f, head: []byte{}}, err
}

// Write is called by one goroutine at a time.
func (l *serverLog) Write(b []byte) (int, error) {
	if l.head != nil {
		l.head = append(l.head, b...)
		if _, rest, ok := bytes.Cut(l.head, []byte("Listening on ")); ok {
			if address, _, ok := bytes.Cut(rest, []byte(" ")); ok {
				l.address <- string(address)
				l.head = nil
			}
		}
	}
	return l.file.Write(b)
}

func (l *serverLog) Close() error { return l.file.Close() }

// last gives the end of the log.
func (l *serverLog) last() string {
	b, err := os.ReadFile(l.file.Name())
	if err != nil {
		return err.Error()
	}
	return lastLines(b)
}
