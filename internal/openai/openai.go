// Package openai is the [engine.Engine] over a server that speaks the OpenAI API, as vLLM, MLX-LM, LM Studio and llama-server do: /v1/models and a streamed
// /v1/chat/completions, and nothing else.
//
// Such a server shows no KV states, so nothing can be handed over: it does whole requests, as the decode worker of plans local and fallback, and of plan auto
// on either side. Prefill generates one token, which leaves the prompt in the cache of a server that has one.
//
// The API says less of an answer than others. How long the prompt took is the time until the first piece of text, with what the request waited for at the
// server; how many of its tokens were cached is known if the server tells (usage.prompt_tokens_details). The model's digest is the name that the server
// has for it: whether two servers have the same weights is for who starts them.
package openai

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// Options say which server an [Engine] drives.
type Options struct {
	URL    string // with or without /v1
	Key    string // that it asks for, if it does
	Model  string // canonical name, for [engine.Description]
	Served string // the server's name for it; empty: Model, or the only one that the server has
	NumCtx int    // tokens of context that the server gives a request

	HTTP *http.Client // nil for one of our own
	Log  *slog.Logger // nil for none
}

// Engine drives one server.
type Engine struct {
	options Options
	client  client

	mu     sync.Mutex
	served string // name of the model, once the server was asked
}

var _ engine.Engine = (*Engine)(nil)

// New returns an engine for the server that the options name.
func New(o Options) (*Engine, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "engine URL is %.80q; want one such as http://127.0.0.1:8000, without a user or a query", protocol.RedactURL(o.URL))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	base := strings.TrimSuffix(strings.TrimRight(o.URL, "/"), "/v1")
	return &Engine{options: o, client: client{strings.TrimRight(base, "/"), o.Key, engine.HTTPClient(o.HTTP)}}, nil
}

// Close closes the connections that nothing goes over.
func (e *Engine) Close() error {
	e.client.http.CloseIdleConnections()
	return nil
}

// Describe asks the server which models it has. While it loads one, Loaded is false.
func (e *Engine) Describe(ctx context.Context) (engine.Description, error) {
	d := engine.Description{
		Engine: "openai", Model: e.options.Model, ContextTokens: e.options.NumCtx, Handover: []jobs.Kind{jobs.KindNone},
		NoKVTransfer: "the OpenAI API shows none; use Ollama or llama-server to have prompts handed over",
	}
	m, err := e.find(ctx)
	if jobs.CodeOf(err) == jobs.CodeEngineBusy {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	d.Loaded, d.Version, d.ModelDigest = true, cmp.Or(m.OwnedBy, "unknown"), m.ID
	if m.Context > 0 {
		d.ContextTokens = min(d.ContextTokens, m.Context)
	}
	return d, nil
}

// Load asks whether the server has the model: it loads models by itself.
func (e *Engine) Load(ctx context.Context) error {
	_, err := e.find(ctx)
	return err
}

// find asks the server for its model.
func (e *Engine) find(ctx context.Context) (model, error) {
	list, err := e.client.models(ctx)
	if err != nil {
		return model{}, e.failure(ctx, "list models", err, engine.Request{})
	}
	i := slices.IndexFunc(list, func(m model) bool { return m.ID == cmp.Or(e.options.Served, e.options.Model) })
	if i < 0 && e.options.Served == "" && len(list) == 1 {
		i = 0
	}
	if i < 0 {
		var names []string
		for _, m := range list {
			names = append(names, fmt.Sprintf("%.80q", m.ID))
		}
		return model{}, jobs.Errorf(jobs.CodeModelMissing, "the server at %s has no model %s; name with --engine-model one that it has: %.400s",
			protocol.RedactURL(e.client.base), cmp.Or(e.options.Served, e.options.Model), strings.Join(names, ", "))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.served = list[i].ID
	return list[i], nil
}

// name is the server's name for the model.
func (e *Engine) name(ctx context.Context) (string, error) {
	e.mu.Lock()
	served := e.served
	e.mu.Unlock()
	if served != "" {
		return served, nil
	}
	m, err := e.find(ctx)
	return m.ID, err
}
