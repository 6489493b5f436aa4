// Package ollama drives a model on an Ollama server, over its HTTP API, as an engine.Engine.
//
// Every request says the same num_ctx, num_thread and keep_alive, since another value would restart
// the model's runner and lose its cache, and switches off Ollama's silent shortening of prompts: a
// prompt that does not fit is an error. An answer counts only if it ends with Ollama's own mark of
// completion. Prompts never appear in errors or logs.
//
// Ollama computes in a llama-server of its own, a child of it for each model. Where the shim has made
// that one keep a slot folder (see the package shim), what is handed over is the KV state: the prompt, as
// Ollama itself renders it, is computed in the child, and the decode machine's child reads the state
// before Ollama is sent the identical original request, which then finds all but one token computed.
// Templates, formats and thinking stay Ollama's own.
//
// Without the shim it is the context, token ids as Ollama returns them. They are no KV cache: the
// decode machine computes the prompt again. So it is sent the identical original request,
// which gives the same text with any tokenizer, sampling, format or stop word, and the first token
// is compared.
package ollama

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/slots"
	"tandem/jobs"
)

// DefaultNumCtx is the context of every request, in tokens, unless [Options] says otherwise.
const DefaultNumCtx = 32768

// Options describes an [Engine].
type Options struct {
	URL         string        // of the server, such as http://127.0.0.1:11434
	Model       string        // any way of writing it that jobs.CanonicalModel takes
	NumCtx      int           // tokens of context a request may use, prompt and answer; 0 means DefaultNumCtx
	NumThread   int           // of the model's runner; 0 leaves it to Ollama
	KeepAlive   time.Duration // how long the model stays loaded after a request; 0 means as long as the server runs
	RunDir      string        // where the shim leaves its records, as shim.Live reads them; empty means that no states are moved
	StatePrefix string        // what the names of this worker's state files begin with
	Unread      []string      // formats of KV states that are moved although they cannot be read here, as in ggsq.5
	HTTP        *http.Client  // nil means one of its own, without a proxy; redirects are never followed
	Log         *slog.Logger  // nil discards
}

// Engine is one model on one Ollama server. It implements engine.Engine.
type Engine struct {
	client    client
	model     string
	numCtx    int
	numThread int
	keepAlive string
	log       *slog.Logger
	known     atomic.Pointer[description] // what the server said last
	shown     atomic.Pointer[model]       // and of the model
	inside    inside
}

var (
	_ engine.Engine    = (*Engine)(nil)
	_ engine.Estimator = (*Engine)(nil)
)

// New returns the engine for a model, without asking the server anything yet.
func New(o Options) (*Engine, error) {
	base, err := url.Parse(o.URL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, jobs.Errorf(jobs.CodeInvalid, "engine URL %q is none; want one such as http://127.0.0.1:11434", protocol.RedactURL(o.URL))
	}
	model, err := jobs.CanonicalModel(o.Model)
	if err != nil {
		return nil, err
	}
	if o.NumCtx < 0 || o.NumThread < 0 {
		return nil, jobs.Errorf(jobs.CodeInvalid, "num_ctx is %d and num_thread %d; neither may be negative", o.NumCtx, o.NumThread)
	}
	e := &Engine{
		client:    client{base: base, http: httpClient(o.HTTP)},
		model:     model,
		numCtx:    cmp.Or(o.NumCtx, DefaultNumCtx),
		numThread: o.NumThread,
		keepAlive: "-1s", // negative: for ever
		log:       cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
	}
	e.inside = inside{runDir: o.RunDir, prefix: o.StatePrefix, unread: o.Unread, client: slots.NewClient(nil), log: e.log}
	if o.KeepAlive > 0 {
		e.keepAlive = o.KeepAlive.String()
	}
	return e, nil
}

// httpClient returns a client that stays at the server it was given. Each request has a connection
// of its own: that costs a fraction of a millisecond, and a server that was restarted is never
// mistaken for one that failed, as it is when a connection dies while it is idle.
func httpClient(given *http.Client) *http.Client {
	c := http.Client{Transport: &http.Transport{
		DialContext:        (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		DisableKeepAlives:  true,
		DisableCompression: true,
	}}
	if given != nil {
		c = *given
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// Close ends connections that are left. The model stays loaded as long as KeepAlive says.
func (e *Engine) Close() error {
	e.client.http.CloseIdleConnections()
	e.inside.client.CloseIdle()
	return nil
}

// Load makes Ollama hold the model, with the context size that every request will ask for.
func (e *Engine) Load(ctx context.Context) error {
	if err := e.load(ctx); err != nil {
		return e.failure(ctx, "load model "+e.model, err, engine.Request{})
	}
	return nil
}

func (e *Engine) load(ctx context.Context) error {
	if m, err := e.about(ctx); err == nil && slices.Contains(m.can, jobs.CanEmbed) && !slices.Contains(m.can, jobs.CanComplete) {
		return e.loadEmbedder(ctx)
	}
	var a answer
	if err := e.client.ask(ctx, pathGenerate, e.wire(ctx, engine.Request{}), &a); err != nil {
		return err
	}
	if a.DoneReason != "load" {
		return fmt.Errorf("done without loading: %w", errNotOllama)
	}
	return nil
}

// description is what the server says of itself and the model.
type description struct {
	version string
	digest  string // of the model's manifest: everything that makes up the model
	loaded  bool
	context int // tokens, of the loaded runner
}

// Describe asks the server for its version, the model's digest and whether it is loaded, and the
// llama-server inside it for how its states look. A model that was never pulled is an error of code
// model_missing.
func (e *Engine) Describe(ctx context.Context) (engine.Description, error) {
	d, err := e.look(ctx)
	if err != nil {
		return engine.Description{}, e.failure(ctx, "describe engine", err, engine.Request{})
	}
	usable := e.numCtx
	if d.context > 0 {
		usable = min(usable, d.context)
	}
	about := engine.Description{
		Engine: "ollama", Version: d.version, Model: e.model, ModelDigest: d.digest, Loaded: d.loaded,
		ContextTokens: usable, Handover: []jobs.Kind{jobs.KindContext},
	}
	if m, err := e.about(ctx); err == nil {
		about.Capabilities = m.can
	}
	if about.KVTransfer, about.Slots, err = e.kvTransfer(ctx); err != nil {
		about.NoKVTransfer = e.whyNoStates(err, d.loaded)
	} else {
		about.Handover = []jobs.Kind{jobs.KindState, jobs.KindContext}
	}
	return about, nil
}

// look asks the server, and keeps what it says.
func (e *Engine) look(ctx context.Context) (d description, err error) {
	var version struct {
		Version string `json:"version"`
	}
	if err := e.client.get(ctx, "/api/version", &version); err != nil {
		return d, err
	}
	if n := len(version.Version); n == 0 || n > maxMark {
		return d, fmt.Errorf("the version in /api/version has %d bytes: %w", n, errNotOllama)
	}
	d.version = version.Version

	type listed struct {
		Model   string `json:"model"`
		Digest  string `json:"digest"`
		Context int    `json:"context_length"` // of running models only
	}
	var pulled, running struct {
		Models []listed `json:"models"`
	}
	find := func(list []listed) (listed, bool) {
		for _, m := range list {
			if name, err := jobs.CanonicalModel(m.Model); err == nil && strings.EqualFold(name, e.model) {
				return m, true
			}
		}
		return listed{}, false
	}
	if err := e.client.get(ctx, "/api/tags", &pulled); err != nil {
		return d, err
	}
	m, found := find(pulled.Models)
	if !found {
		return d, &refusal{status: http.StatusNotFound, message: "model not found"}
	}
	if n := len(m.Digest); n > maxMark {
		return d, fmt.Errorf("the digest in /api/tags has %d bytes: %w", n, errNotOllama)
	}
	d.digest = m.Digest
	if err := e.client.get(ctx, "/api/ps", &running); err != nil {
		return d, err
	}
	m, d.loaded = find(running.Models)
	if i := slices.IndexFunc(running.Models, func(r listed) bool { return r.Digest == d.digest }); !d.loaded && i >= 0 {
		m, d.loaded = running.Models[i], true // loaded under another of its names
	}
	d.context = m.Context
	e.known.Store(&d)
	return d, nil
}

// digest is the model's, as far as it can be learnt; no job fails for the want of it.
func (e *Engine) digest(ctx context.Context) string {
	if e.known.Load() == nil {
		if _, err := e.look(ctx); err != nil {
			return ""
		}
	}
	return e.known.Load().digest
}
