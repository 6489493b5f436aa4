package llamacpp

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"tandem/internal/jobs"
)

// server is a llama-server that answered, and what is known of it.
type server struct {
	client client
	endpoint
	identity
	pool   *pool
	digest *sum // of the model file, if it is on this machine
}

// identity is what a server says of itself.
type identity struct {
	build   string
	model   string // path of the model file, as the server was given it
	slots   int    // used by us
	context int    // tokens of each slot
}

// connect returns the server, asking it what it is if that is not known.
func (e *Engine) connect(ctx context.Context) (*server, error) {
	at, err := e.where.endpoint()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	s := e.server
	e.mu.Unlock()
	if s != nil && s.endpoint == at {
		return s, nil
	}
	return e.ask(ctx)
}

// ask asks the server what it is. The slots' contents are kept if it is what it was.
func (e *Engine) ask(ctx context.Context) (*server, error) {
	at, err := e.where.endpoint()
	if err != nil {
		return nil, err
	}
	id, err := e.client.describe(ctx, at)
	if err != nil {
		return nil, err
	}
	switch want := e.options.Slots; {
	case want > id.slots:
		return nil, jobs.Errorf(jobs.CodeInvalid, "slots is %d, and llama-server at %s has %d; start it with -np %d or lower the worker's slots", want, at.url, id.slots, want)
	case want > 0:
		id.slots = want
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server == nil || e.server.endpoint != at || e.server.identity != id {
		e.server = &server{client: e.client, endpoint: at, identity: id, pool: newPool(id.slots), digest: e.digestOf(at, id)}
	}
	return e.server, nil
}

// digestOf returns the digest of the server's model file. A running server may have been given a path
// that is not ours to read.
func (e *Engine) digestOf(at endpoint, id identity) *sum {
	switch {
	case e.options.ModelFile != "":
		return e.digests.of(e.options.ModelFile)
	case local(at.url) && filepath.IsAbs(id.model):
		return e.digests.of(id.model)
	}
	return noSum()
}

// describe reads /props, which a server answers only when the model is loaded.
func (c client) describe(ctx context.Context, at endpoint) (identity, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second,
		jobs.Errorf(jobs.CodeEngineBusy, "llama-server at %s did not answer within 10 s", at.url))
	defer cancel()
	var props struct {
		Build    string `json:"build_info"`
		Model    string `json:"model_path"`
		Slots    int    `json:"total_slots"`
		Settings struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if err := c.call(ctx, at, "/props", nil, &props); err != nil {
		return identity{}, err
	}
	if props.Slots < 1 || props.Settings.Context < 1 {
		return identity{}, jobs.Errorf(jobs.CodeEngineUnreachable, "%s does not describe itself as a llama-server with one model would; correct the engine URL", at.url)
	}
	return identity{props.Build, props.Model, props.Slots, props.Settings.Context}, nil
}

// attached is a server that somebody else looks after.
type attached endpoint

func (a attached) endpoint() (endpoint, error) { return endpoint(a), nil }
func (attached) settled(context.Context) error { return nil }
func (attached) close()                        {}

func trimSlash(u string) string { return strings.TrimRight(u, "/") }

// local reports whether a URL leads to this machine, so that a path the server names is ours too.
func local(rawURL string) bool {
	u, err := url.Parse(rawURL)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
