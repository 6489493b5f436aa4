package ollama

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"tandem/internal/engine"
	"tandem/jobs"
)

const pathEmbed = "/api/embed"

var _ engine.Embedder = (*Engine)(nil)

// embedWire is a request to /api/embed. With no input it only loads the model.
type embedWire struct {
	Model      string   `json:"model"`
	Input      []string `json:"input,omitempty"`
	Truncate   bool     `json:"truncate"`
	Dimensions int      `json:"dimensions,omitempty"`
	KeepAlive  string   `json:"keep_alive"`
	Options    options  `json:"options"` // the worker's own, since no other changes a vector
}

type embedAnswer struct {
	Embeddings [][]float32   `json:"embeddings"`
	Tokens     int           `json:"prompt_eval_count"`
	Total      time.Duration `json:"total_duration"`
	Load       time.Duration `json:"load_duration"`
}

func (e *Engine) embedWire(asked *jobs.Embed) embedWire {
	return embedWire{
		Model: e.model, Input: asked.Input, Truncate: asked.Truncate, Dimensions: asked.Dimensions, KeepAlive: e.keepAlive,
		Options: options{NumCtx: e.numCtx, NumThread: e.numThread},
	}
}

// Embed makes embeddings, which Ollama scales to the length 1. It computes no prompt that could be handed over.
func (e *Engine) Embed(ctx context.Context, req engine.Request) (engine.Completion, error) {
	c, err := e.embed(ctx, req)
	if err != nil {
		return engine.Completion{}, e.failure(ctx, "embed", err, req)
	}
	return c, nil
}

func (e *Engine) embed(ctx context.Context, req engine.Request) (c engine.Completion, err error) {
	if m, err := e.about(ctx); err == nil && m.can != nil && !slices.Contains(m.can, jobs.CanEmbed) {
		return c, jobs.Errorf(jobs.CodeEngineRefused, "the model makes no embeddings, as `ollama show` says of it; ask one that does, such as nomic-embed-text")
	}
	if n := req.Options.NumCtx; n != nil && *n > e.numCtx {
		return c, e.tooLittle(*n)
	}
	resp, err := e.client.post(ctx, pathEmbed, e.embedWire(req.Embed))
	if r, ok := errors.AsType[*refusal](err); ok && r.overflows() {
		return c, jobs.Errorf(jobs.CodeContextOverflow, "a text is longer than the model takes at once: cut it in pieces, or have Ollama cut it off (truncate)")
	} else if ok && r.status == http.StatusNotImplemented {
		return c, jobs.Errorf(jobs.CodeEngineRefused, "the model makes no embeddings: %s", engine.Quote(r.message, req))
	}
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	var a embedAnswer
	if err := engine.ReadEmbeddings(resp.Body, &a); err != nil {
		return c, err
	}
	if err := engine.CheckEmbeddings(a.Embeddings, req.Embed); err != nil {
		return c, err
	}
	return engine.Completion{
		Embeddings: a.Embeddings, FinishReason: "stop", PromptTokens: a.Tokens, ComputedTokens: a.Tokens, PrefillDuration: a.Total - a.Load,
	}, nil
}

// loadEmbedder makes Ollama hold a model that generates no text, and so refuses to be loaded as those that do.
func (e *Engine) loadEmbedder(ctx context.Context) error {
	var a embedAnswer
	if err := e.client.ask(ctx, pathEmbed, e.embedWire(&jobs.Embed{}), &a); err != nil {
		return err
	}
	if a.Embeddings == nil {
		return fmt.Errorf("no embeddings of nothing: %w", errNotOllama)
	}
	return nil
}
