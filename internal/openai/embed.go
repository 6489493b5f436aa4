package openai

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tandem/internal/engine"
	"tandem/jobs"
)

var _ engine.Embedder = (*Engine)(nil)

// Embed asks the server for embeddings. The API cannot have a text cut off: one that is too long is an error, whatever the request says.
func (e *Engine) Embed(ctx context.Context, req engine.Request) (engine.Completion, error) {
	if need := req.Options.NumCtx; need != nil && *need > e.options.NumCtx {
		return engine.Completion{}, overflow("embed", *need, e.options.NumCtx)
	}
	name, err := e.name(ctx)
	if err != nil {
		return engine.Completion{}, err
	}
	c, err := e.embed(ctx, name, req)
	if _, ours := errors.AsType[*jobs.Error](err); ours && ctx.Err() == nil {
		return engine.Completion{}, err
	}
	if err != nil {
		e.forget()
		return engine.Completion{}, e.failure(ctx, "embed", err, req)
	}
	return c, nil
}

func (e *Engine) embed(ctx context.Context, name string, req engine.Request) (c engine.Completion, err error) {
	start := time.Now()
	body, err := e.client.open(ctx, "/v1/embeddings", struct {
		Model      string   `json:"model"`
		Input      []string `json:"input"`
		Dimensions int      `json:"dimensions,omitempty"`
		Format     string   `json:"encoding_format"`
	}{name, req.Embed.Input, req.Embed.Dimensions, "float"})
	if r, ok := errors.AsType[*refusal](err); ok && (r.status == http.StatusNotFound || r.status == http.StatusMethodNotAllowed || r.status == http.StatusNotImplemented) {
		return c, jobs.Errorf(jobs.CodeEngineRefused, "the server makes no embeddings with this model (status %d): ask another one, or start llama-server with --embeddings", r.status)
	}
	if err != nil {
		return c, err
	}
	defer body.Close()
	var a struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
		Usage usage `json:"usage"`
	}
	if err := engine.ReadEmbeddings(body, &a); err != nil {
		return c, err
	}
	vectors := make([][]float32, len(a.Data))
	for _, d := range a.Data {
		if d.Index < 0 || d.Index >= len(vectors) {
			return c, engine.ErrNoEmbeddings
		}
		vectors[d.Index] = d.Embedding
	}
	if err := engine.CheckEmbeddings(vectors, req.Embed); err != nil {
		return c, err
	}
	return engine.Completion{
		Embeddings: vectors, FinishReason: "stop", PromptTokens: a.Usage.Prompt, ComputedTokens: a.Usage.Prompt, PrefillDuration: time.Since(start),
	}, nil
}
