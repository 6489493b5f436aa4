package ollama

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"tandem/internal/engine"
	"tandem/internal/gguf"
	"tandem/internal/protocol"
	"tandem/internal/shim"
	"tandem/internal/slots"
	"tandem/jobs"
)

// describeLimit bounds how long Describe waits for a slot in which to write the first, small state.
const describeLimit = 5 * time.Second

// inside finds the llama-server that Ollama runs a model in. Each start of it has another port, so it is
// looked for at every request; but all requests to one start share one slots.Server, which keeps them
// out of each other's way.
type inside struct {
	runDir, prefix string
	unread         []string
	client         *slots.Client
	log            *slog.Logger

	mu     sync.Mutex
	record shim.Record
	server *slots.Server // of record; nil if there is none
}

// errNoRecord is a model that no llama-server with the shim runs: it is not loaded, or Ollama started
// the server without the shim.
var errNoRecord error = protocol.HandoverErrorf(jobs.FailNoState, "the llama-server inside this Ollama keeps no slot folder: "+
	"install the shim (prefill-worker shim install) and restart Ollama, or let the worker start its own (--ollama-binary)")

// find returns the server that runs the model. The error is a *protocol.HandoverError where there is none
// with slots, and slots.ErrLoading as long as it is not ready.
func (i *inside) find(ctx context.Context, m *model) (*slots.Server, error) {
	if m.stateless != "" {
		return nil, protocol.HandoverErrorf(jobs.FailNoState, "%s", m.stateless)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	r, err := shim.Live(i.runDir, m.file)
	switch {
	case err != nil:
		return nil, protocol.HandoverErrorf(jobs.FailNoState, "the shim's records cannot be read: %w", err)
	case r == nil:
		i.server = nil
		return nil, errNoRecord
	case i.server != nil && i.record.PID == r.PID && i.record.Port == r.Port && i.record.Started.Equal(r.Started):
		return i.server, nil
	}
	settings, why := readArgs(r.Args)
	if why != "" {
		return nil, protocol.HandoverErrorf(jobs.FailNoState, "%s", why)
	}
	header, err := gguf.Read(m.file)
	if err != nil { // another user's file, or a container's; all works without, with more care
		i.log.Warn("the model's file cannot be read here, so its kind is not known: give this user the right to read it", "file", m.file, "error", err)
		header = nil
	}
	server, err := slots.Connect(ctx, slots.Config{
		Endpoint: slots.Endpoint{URL: "http://" + net.JoinHostPort(r.Host, strconv.Itoa(r.Port))},
		Client:   i.client, Dir: r.SlotDir, Prefix: i.prefix, Unread: i.unread, Header: header, Shared: true, Settings: settings,
		Model: func() string { return m.sha256 }, Log: i.log,
	})
	if err != nil {
		return nil, err
	}
	if runs := server.Identity().Model; filepath.Clean(runs) != filepath.Clean(r.Model) {
		return nil, protocol.HandoverErrorf(jobs.FailNoState, "port %d, where the shim's record has the llama-server of this model, is another server's, with the model file %.200q: "+
			"restart Ollama, which makes new records", r.Port, runs)
	}
	i.log.Debug("found the llama-server inside Ollama", "pid", r.PID, "port", r.Port, "slots", server.Identity().Slots)
	i.record, i.server = *r, server
	return server, nil
}

// child returns the server inside that runs the model now.
func (e *Engine) child(ctx context.Context) (*slots.Server, error) {
	if e.inside.runDir == "" {
		return nil, errNoRecord
	}
	m, err := e.about(ctx)
	if err != nil {
		return nil, err
	}
	return e.inside.find(ctx, m)
}

// loaded returns the server inside, after having the model loaded if there is none yet, or none that
// listens yet.
func (e *Engine) loaded(ctx context.Context) (*slots.Server, error) {
	s, err := e.child(ctx)
	soon := errors.Is(err, errNoRecord) || err == slots.ErrLoading || slots.Lost(err)
	if e.inside.runDir == "" || !soon {
		return s, err
	}
	if err := e.load(ctx); err != nil {
		return nil, err
	}
	return e.child(ctx)
}

// begin waits until a request may start for which the server inside chooses the slot: not while a
// state is being imported. It returns what to call at the first byte of the answer.
func (e *Engine) begin(ctx context.Context) (started func(), err error) {
	if e.inside.runDir == "" {
		return func() {}, nil
	}
	s, err := e.loaded(ctx) // first, or the request would start whenever that is done
	if err == nil {
		started, err = s.Begin(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil: // there is no such server, or no longer, and so no import to disturb; if Ollama is gone too, the request will say so
		return func() {}, nil
	}
	return started, nil
}

// kvTransfer says how the states of the server inside look, and how many slots it has.
func (e *Engine) kvTransfer(ctx context.Context) (*engine.KVTransfer, int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, describeLimit,
		errors.New("the llama-server inside Ollama was too busy to say how its states look; it is asked again"))
	defer cancel()
	s, err := e.child(ctx)
	if err != nil {
		return nil, 0, err
	}
	m, err := s.KVTransfer(ctx)
	return m, s.Identity().Slots, err
}

// Check has the server inside compute the prompts of the check.
func (e *Engine) Check(ctx context.Context) (*protocol.Check, error) {
	s, err := e.loaded(ctx)
	if err != nil {
		return nil, err
	}
	return s.Check(ctx)
}

// whyNoStates puts into words why the engine moves no states.
func (e *Engine) whyNoStates(err error, loaded bool) string {
	switch {
	case errors.Is(err, errNoRecord) && e.inside.runDir != "" && !loaded, err == slots.ErrLoading:
		return "the model is not loaded yet"
	case slots.Lost(err):
		return "the llama-server inside Ollama does not answer"
	}
	return fmt.Sprint(err)
}
