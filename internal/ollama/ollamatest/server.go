// Package ollamatest is a fake Ollama: an HTTP server with the shapes, quirks and faults of a real
// 0.34, as they were recorded (testdata/shapes.json), and text that depends only on the prompt and
// the options, so that equal requests have equal answers.
//
// It needs no files and answers within microseconds, which makes it the engine for tests of what
// happens around an engine, above all when it fails: see [Server.Fail].
package ollamatest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Options describes a [Server]. The zero value is one small model that computes at once.
type Options struct {
	Model      string        // its name, with a tag; empty means fake:latest
	Others     []string      // further models that it has, by their names
	Digest     string        // of the first model; each other one has a digest that follows from its name
	Version    string        // of Ollama; empty means 0.34.0, and with 0.33 and older answers do not count cached tokens
	Slots      int           // requests computed at once for each model, others wait; 0 means 1
	Thinks     bool          // the models can think
	PerToken   time.Duration // for each token, of the prompt (if not cached) and of the answer
	Unrecorded bool          // requests are not kept, as there will be very many: Requests and Generations return none
}

// Server is a fake Ollama that listens on a loopback port.
type Server struct {
	options Options
	addr    string
	serving sync.WaitGroup

	mu       sync.Mutex
	http     *http.Server
	faults   []Fault
	requests []Request
	calls    int
	running  int
	peak     int
	loads    int
	models   []*model      // at least one; the list itself never changes
	changed  chan struct{} // closed and replaced whenever something above changes
}

// model is one of those that a server has, and what computes it.
type model struct {
	name, digest string
	runner       *runnerOptions // nil: it is not in memory
	slots        []slot
}

// Request is one request that the server got.
type Request struct {
	Path string
	Body json.RawMessage
}

// TB is what a server needs of a test; a testing.TB is one. So programs can use this package without package testing.
type TB interface {
	Helper()
	Context() context.Context
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Start starts a server on any free port that is closed when the test ends.
func Start(t TB, o Options) *Server {
	t.Helper()
	s, err := Listen(t.Context(), "127.0.0.1:0", o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Down)
	return s
}

// Listen starts a server on an address such as 127.0.0.1:11434, which runs until Down.
func Listen(ctx context.Context, addr string, o Options) (*Server, error) {
	o.Version = cmp.Or(o.Version, "0.34.0")
	s := &Server{options: o, addr: addr, changed: make(chan struct{})}
	for _, name := range append([]string{cmp.Or(o.Model, "fake:latest")}, o.Others...) {
		s.models = append(s.models, &model{name: tagged(name), digest: fmt.Sprintf("%x", sha256.Sum256([]byte(name))), slots: make([]slot, max(o.Slots, 1))})
	}
	s.models[0].digest = cmp.Or(o.Digest, s.models[0].digest)
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Up makes a server that was taken down listen again, on the same port.
func (s *Server) Up(t TB) {
	t.Helper()
	if err := s.listen(t.Context()); err != nil {
		t.Fatalf("%v", err)
	}
}

func (s *Server) listen(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.addr)
	if err != nil {
		return fmt.Errorf("start fake Ollama: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/version", s.version)
	mux.HandleFunc("GET /api/tags", s.tags)
	mux.HandleFunc("GET /api/ps", s.ps)
	mux.HandleFunc("POST /api/show", s.show)
	mux.HandleFunc("POST /api/generate", s.answer)
	mux.HandleFunc("POST /api/chat", s.answer)
	server := &http.Server{Handler: s.recorded(mux)}
	s.mu.Lock()
	s.addr, s.http = l.Addr().String(), server
	s.mu.Unlock()
	s.serving.Go(func() { _ = server.Serve(l) }) // until Down
	return nil
}

// Down makes the server refuse connections, and breaks those that exist. The models leave memory.
func (s *Server) Down() {
	s.mu.Lock()
	server := s.http
	s.mu.Unlock()
	server.Close()
	s.serving.Wait()
	s.Unload()
}

// URL is where the server listens, or listened.
func (s *Server) URL() string { return "http://" + s.addr }

// Model is the name of its model, the first if it has several.
func (s *Server) Model() string { return s.models[0].name }

// Digest is that model's.
func (s *Server) Digest() string { return s.models[0].digest }

// Unload drops all models from memory, and their cache.
func (s *Server) Unload() {
	for _, m := range s.models {
		s.unload(m)
	}
}

func (s *Server) unload(m *model) {
	s.change(func() {
		m.runner = nil
		clear(m.slots)
	})
}

// Forget drops what was cached of prompts.
func (s *Server) Forget() {
	s.change(func() {
		for _, m := range s.models {
			m.forget()
		}
	})
}

func (m *model) forget() {
	for i := range m.slots {
		m.slots[i].tokens = nil
	}
}

// find returns the model of a name, with or without its tag, nil if there is none.
func (s *Server) find(name string) *model {
	i := slices.IndexFunc(s.models, func(m *model) bool { return m.name == tagged(name) })
	if i < 0 {
		return nil
	}
	return s.models[i]
}

// Calls is how many generations were asked for.
func (s *Server) Calls() int { return s.read(func() int { return s.calls }) }

// Running is how many generations are going on, those that wait for a slot included.
func (s *Server) Running() int { return s.read(func() int { return s.running }) }

// Peak is the largest number of generations that were going on at once.
func (s *Server) Peak() int { return s.read(func() int { return s.peak }) }

// Loads is how often a model's runner was started.
func (s *Server) Loads() int { return s.read(func() int { return s.loads }) }

// Requests are all requests since the start, in the order of their arrival; see Options.Unrecorded.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Generations are the requests that asked for text.
func (s *Server) Generations() []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool {
		var body body
		return r.Path != "/api/generate" && r.Path != "/api/chat" || json.Unmarshal(r.Body, &body) != nil || body.loads()
	})
}

// WaitRunning waits until n generations are going on.
func (s *Server) WaitRunning(ctx context.Context, n int) error {
	return s.wait(ctx, func() bool { return s.running == n })
}

// WaitCalls waits until n generations were asked for.
func (s *Server) WaitCalls(ctx context.Context, n int) error {
	return s.wait(ctx, func() bool { return s.calls >= n })
}

// wait waits until the condition, asked under the lock, holds.
func (s *Server) wait(ctx context.Context, condition func() bool) error {
	for {
		s.mu.Lock()
		held, changed := condition(), s.changed
		s.mu.Unlock()
		if held {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// change does something under the lock and wakes who waits.
func (s *Server) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) read(get func() int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return get()
}

// recorded keeps each request, if that is wanted, before it is answered.
func (s *Server) recorded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		if !s.options.Unrecorded {
			s.change(func() { s.requests = append(s.requests, Request{r.URL.Path, data}) })
		}
		r.Body = io.NopCloser(bytes.NewReader(data))
		next.ServeHTTP(w, r)
	})
}
