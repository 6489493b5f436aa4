package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tandem/internal/engine"
	"tandem/internal/ollama"
	"tandem/internal/shim"
	"tandem/internal/supervisor"
	"tandem/jobs"
)

// servedOllama is the engine over an `ollama serve` of our own, which is started again when it ends.
type servedOllama struct {
	*ollama.Engine
	served *ollamaServer
}

// newServedOllama starts an Ollama from --ollama-binary and returns the engine over it. It does not wait
// until it is up: [servedOllama.Describe] says.
func newServedOllama(f WorkerFlags, o ollama.Options, log *slog.Logger) (engine.Engine, error) {
	s, err := startOllama(f, log)
	if err != nil {
		return nil, err
	}
	o.URL, o.RunDir = s.url, s.runDir
	e, err := ollama.New(o)
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return &servedOllama{Engine: e, served: s}, nil
}

// Describe says why the server is not there, if it is not: a refused connection alone would not tell.
func (e *servedOllama) Describe(ctx context.Context) (engine.Description, error) {
	switch now := e.served.supervisor.Status(); {
	case now.Phase == supervisor.Down:
		return engine.Description{}, jobs.Errorf(jobs.CodeEngineUnreachable, "ollama does not start: %w", now.Problem)
	case now.Phase == supervisor.Starting && now.Problem != nil:
		return engine.Description{}, jobs.Errorf(jobs.CodeEngineBusy, "ollama is being restarted: %w", now.Problem)
	case now.Phase == supervisor.Starting:
		return engine.Description{}, jobs.Errorf(jobs.CodeEngineBusy, "ollama is being started")
	}
	return e.Engine.Describe(ctx)
}

// Restart ends the server, which is then started again.
func (e *servedOllama) Restart() bool { e.served.supervisor.Restart(); return true }

// Close ends the server with the engine.
func (e *servedOllama) Close() error {
	return errors.Join(e.Engine.Close(), e.served.stop())
}

// ollamaServer is an `ollama serve` from an overlay, in a folder that is ours as long as it runs.
type ollamaServer struct {
	url        string
	runDir     string // of the shim's records
	supervisor *supervisor.Supervisor
	lock       *os.File
}

// startOllama starts an Ollama that a worker has for itself, on a port of its own.
func startOllama(f WorkerFlags, log *slog.Logger) (_ *ollamaServer, err error) {
	program, err := shim.Find()
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "ollama-binary: %w", err)
	}
	dir, lock, err := lockFolder(filepath.Join(f.StateDir, "ollama"))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	s := &ollamaServer{runDir: filepath.Join(dir, "run"), lock: lock}
	binary, err := shim.Overlay(context.Background(), dir, shim.OverlayOptions{
		Ollama: f.OllamaBinary, Shim: program, SlotDir: filepath.Join(dir, "slots"), RunDir: s.runDir,
	})
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "ollama-binary: %w", err)
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s.url = "http://" + address
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, Timeout: 5 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	env := ollamaEnvironment(os.Environ(), f, address)
	s.supervisor, err = supervisor.New(supervisor.Config{
		Name: "ollama",
		Start: func(_ context.Context, output io.Writer) (*supervisor.Process, error) {
			return supervisor.Start(binary, []string{"serve"}, dir, env, output)
		},
		Up:      func(ctx context.Context) error { return answers(ctx, client, s.url+"/api/version") },
		LogFile: filepath.Join(dir, "ollama.log"),
		Log:     log,
	})
	return s, err
}

// stop ends the server and gives its folder free.
func (s *ollamaServer) stop() error {
	s.supervisor.Close()
	return s.lock.Close()
}

// lockFolder makes a folder that no other process uses: that of the given name, or one with a number behind it. The
// lock ends with the file, and so with this process.
func lockFolder(path string) (dir string, lock *os.File, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return "", nil, fmt.Errorf("make folder for ollama: %w", err)
	}
	for n := 1; ; n++ {
		dir = path
		if n > 1 {
			dir += "-" + strconv.Itoa(n)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", nil, fmt.Errorf("make folder for ollama: %w", err)
		}
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return "", nil, fmt.Errorf("lock folder for ollama: %w", err)
		}
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return dir, lock, nil
		}
		lock.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return "", nil, fmt.Errorf("lock folder for ollama: %w", err)
		}
	}
}

// freeAddress is an address of the loopback interface that is free now. The server keeps it over its restarts.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// answers asks a server for a page.
func answers(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// ollamaEnvironment is the user's own, OLLAMA_MODELS and all, but for what must be equal on both machines, what would
// change llama-server's flags behind our back, and our own settings, some of which are secret.
func ollamaEnvironment(user []string, f WorkerFlags, address string) []string {
	ours := map[string]string{
		"OLLAMA_HOST":            address,
		"OLLAMA_FLASH_ATTENTION": "1",
		"OLLAMA_NUM_PARALLEL":    strconv.Itoa(f.Slots),
	}
	if f.CacheType != "" {
		ours["OLLAMA_KV_CACHE_TYPE"] = f.CacheType
	}
	var env []string
	prune := true
	for _, v := range user {
		name, _, _ := strings.Cut(v, "=")
		_, set := ours[name]
		if set || strings.HasPrefix(name, "LLAMA_") || strings.HasPrefix(name, "TANDEM_") {
			continue
		}
		prune = prune && name != "OLLAMA_NOPRUNE"
		env = append(env, v)
	}
	for name, value := range ours {
		env = append(env, name+"="+value)
	}
	if prune { // the models are another Ollama's too, which may be fetching one
		env = append(env, "OLLAMA_NOPRUNE=1")
	}
	slices.Sort(env)
	return env
}
