package llamacpp

import (
	"context"
	"errors"
	"sync"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/slots"
	"tandem/jobs"
)

// Engine drives one llama-server.
type Engine struct {
	options Options
	client  *slots.Client
	digests *digests
	where   interface {
		// endpoint is where the server listens, or why it does not.
		endpoint() (slots.Endpoint, error)
		// settled waits until the server has come up or failed to.
		settled(ctx context.Context) error
		restart() (ours bool)
		close()
	}

	mu     sync.Mutex
	server *server // the one that was last connected to; nil if that is not known to be alive
}

var _ engine.Engine = (*Engine)(nil)

// New returns an engine for the server that the options name. A supervised one is being started when
// New returns; Load waits for it. Close the engine after use.
func New(o Options) (*Engine, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.makeFolders(); err != nil {
		return nil, err
	}
	e := &Engine{options: o, client: slots.NewClient(o.HTTP), digests: newDigests(o.StateDir, o.Log)}
	if o.URL != "" {
		e.where = attached{trimSlash(o.URL), o.APIKey}
		return e, nil
	}
	s, err := supervise(o, e.client)
	if err != nil {
		return nil, err
	}
	e.where = s
	e.digests.of(o.ModelFile) // meanwhile
	return e, nil
}

// Restart ends the server, if this engine started it; then it is started again.
func (e *Engine) Restart() bool { return e.where.restart() }

// Close ends the server, if this engine started it, and waits until it is gone.
func (e *Engine) Close() error {
	e.where.close()
	e.digests.close()
	e.client.CloseIdle()
	return nil
}

// Describe asks the server what it is. While the model is being loaded, Loaded is false.
func (e *Engine) Describe(ctx context.Context) (engine.Description, error) {
	d := engine.Description{Engine: "llamacpp", Model: e.options.Model, Handover: []jobs.Kind{jobs.KindNone}}
	s, err := e.ask(ctx)
	if err == slots.ErrLoading { // errors.Is would match every busy server
		return d, nil
	}
	if err != nil {
		return d, err
	}
	id := s.Identity()
	d.Capabilities = []string{jobs.CanComplete}
	if !id.NoTools {
		d.Capabilities = append(d.Capabilities, jobs.CanTools)
	}
	d.Loaded, d.Version, d.ModelDigest, d.Slots, d.ContextTokens = s.digest.settled(), id.Build, s.digest.known(), id.Slots, id.Context
	if d.KVTransfer, err = s.KVTransfer(ctx); err == nil {
		d.Handover = []jobs.Kind{jobs.KindState, jobs.KindNone}
		return d, nil
	}
	why, ok := errors.AsType[*protocol.HandoverError](err)
	if !ok {
		return d, e.failed(s, err)
	}
	d.NoKVTransfer = why.Error()
	return d, nil
}

// Check computes the prompts of the check.
func (e *Engine) Check(ctx context.Context) (*protocol.Check, error) {
	s, err := e.ask(ctx)
	if err != nil {
		return nil, err
	}
	c, err := s.Check(ctx)
	return c, e.failed(s, err)
}

// Load waits until the server has the model in memory and, if the file can be read here, until its
// digest is known.
func (e *Engine) Load(ctx context.Context) error {
	for {
		if err := e.where.settled(ctx); err != nil {
			return err
		}
		s, err := e.ask(ctx)
		if err == nil {
			return s.digest.wait(ctx)
		}
		if err != slots.ErrLoading {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// failed passes on the error of a request. If it comes from the connection, not from the server, the
// server may be another one next time: what its slots hold is forgotten.
func (e *Engine) failed(s *server, err error) error {
	if slots.Lost(err) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.server == s {
			e.server = nil
		}
	}
	return err
}
