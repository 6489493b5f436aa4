// Package workerhttp is the HTTP API of a worker: the calls that the original installation's
// servers answered (health, prefill, decode, generate), for people with curl and for the machine
// next door, sharing the worker's slots with its queue; and metrics and readiness for operations.
package workerhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// maxBody bounds a request: a prompt as large as a job's, escaped as JSON at its worst.
const maxBody = 6*jobs.MaxBody + 1<<20

// callLimit is how long a call may hold its slot, whatever the engine does.
const callLimit = 30 * time.Minute

// Config describes a worker to its HTTP API.
type Config struct {
	Role    jobs.Stage // prefill serves /prefill; decode serves /decode and /generate
	Model   string
	Machine string
	Engine  engine.Engine
	Slots   *engine.Slots
	Health  func() engine.Health
	Ready   func() error // why the worker takes no jobs; nil if it does
	Hosts   []string     // names under which it may be asked, beside localhost and IP addresses
	Token   string       // that requests must have; empty: they need none
	Metrics http.Handler
	Count   func(path string, code int) // counts a request; path is a route, never what the client sent
	Log     *slog.Logger
}

// New returns the handler.
func New(c Config) http.Handler {
	c.Hosts = append(slices.Clone(c.Hosts), "localhost")
	s := &server{Config: c, calls: make(chan struct{}, callsPerSlot*c.Slots.Size()), origins: http.NewCrossOriginProtection()}
	routes := http.NewServeMux()
	handle := func(method, path string, f handler) {
		routes.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) {
			body, err := f(w, r)
			s.write(w, path, body, err)
		})
	}
	handle("GET", "/health", s.health)
	handle("GET", "/ready", s.ready)
	if c.Role == protocol.RolePrefill {
		handle("POST", "/prefill", s.bounded(s.prefill))
	} else {
		handle("POST", "/decode", s.bounded(s.decode))
		handle("POST", "/generate", s.bounded(s.generate))
	}
	routes.Handle("GET /metrics", c.Metrics)
	return s.guard(routes)
}

// handler returns what is answered as JSON.
type handler func(http.ResponseWriter, *http.Request) (any, error)

type server struct {
	Config
	calls   chan struct{} // holds a value for each call that runs or waits
	origins *http.CrossOriginProtection
}

// write answers with a body as JSON, or with an error and a fitting status.
func (s *server) write(w http.ResponseWriter, path string, body any, err error) {
	code := http.StatusOK
	if err != nil {
		code = status(err)
		if body == nil {
			body = map[string]any{"error": err.Error(), "code": jobs.CodeOf(err)}
		}
		s.Log.Warn("http request failed", "path", path, "status", code, "code", jobs.CodeOf(err))
	}
	s.Count(path, code)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		s.Log.Debug("http client went away", "path", path, "err", err)
	}
}

func status(err error) int {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.status
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge
	}
	switch jobs.CodeOf(err) {
	case jobs.CodeInvalid, jobs.CodeContextOverflow, jobs.CodeEngineRefused:
		return http.StatusBadRequest
	case jobs.CodeModelMissing:
		return http.StatusNotFound
	case jobs.CodeEngineBusy, jobs.CodeDraining:
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway
}

func (s *server) health(_ http.ResponseWriter, r *http.Request) (any, error) {
	h := s.Health()
	body := map[string]any{
		"status": "healthy", "model": s.Model, "loaded": h.State == engine.Ready, "backend": h.Description.Engine,
		"role": s.Role, "machine": s.Machine, "slots": s.Slots.Size(), "busy": s.Slots.Busy(),
	}
	if !s.authorized(r) {
		body = map[string]any{"status": "healthy"}
	}
	switch h.State {
	case engine.Loading:
		body["status"] = "loading"
	case engine.Down:
		body["status"] = "down"
		if s.authorized(r) {
			body["problem"] = h.Problem
		}
		return body, jobs.Errorf(jobs.CodeEngineBusy, "the engine is down: %s", h.Problem)
	}
	return body, nil
}

func (s *server) ready(http.ResponseWriter, *http.Request) (any, error) {
	if err := s.Ready(); err != nil {
		return map[string]any{"ready": false, "reason": err.Error()}, jobs.Errorf(jobs.CodeEngineBusy, "%w", err)
	}
	return map[string]any{"ready": true}, nil
}

// read reads the request into v; unknown fields are ignored, as the original servers did.
func read(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "read the request: %w", err)
	}
	if err := jobs.CheckJSON(data); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // whose own words hold all of a number, however long
			return jobs.Errorf(jobs.CodeInvalid, "%s is a JSON %.60s; want %s", cmp.Or(e.Field, "the request"), e.Value, jobs.JSONKind(e.Type))
		}
		return jobs.Errorf(jobs.CodeInvalid, "read the request: %w", err)
	}
	return nil
}

// job makes a job of a request, so that the same rules hold for both.
func (s *server) job(prompt string, maxTokens *int, temperature *float64) (*jobs.Job, error) {
	j := &jobs.Job{
		V: jobs.Version, ID: jobs.NewID(), User: "http", Batch: jobs.SingleBatch, Class: jobs.Interactive,
		Model: s.Model, Prompt: prompt, SubmittedAt: time.Now().UTC(),
		Options: jobs.Options{NumPredict: maxTokens, Temperature: temperature},
	}
	return j, j.Validate()
}

// run waits for a slot and holds it while f runs. A worker that drains takes no more calls.
func (s *server) run(ctx context.Context, f func(context.Context) error) error {
	if err := s.Ready(); errors.Is(err, jobs.ErrDraining) {
		return err
	}
	release, err := s.Slots.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeoutCause(ctx, callLimit, jobs.ErrStalled)
	defer cancel()
	if err = f(ctx); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
