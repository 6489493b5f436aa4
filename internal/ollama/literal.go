package ollama

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tandem/internal/engine"
)

// The literal hand-over: the token ids of the prompt as context, and the first token's text as the
// prompt, without the model's template. Ollama turns the ids back into text and the whole into
// tokens again, which gives the same tokens only for byte-pair encodings, and it begins a new
// request at that point, so that nothing may be pending there: no grammar, no stop word half seen,
// no thinking, no sequence of random numbers.

// bareTemplate adds nothing to the prompt.
const bareTemplate = "{{ .Prompt }}"

// literalRequest says why a request's context must not be sent literally; empty if it may.
func literalRequest(req engine.Request) string {
	o := req.Options
	switch {
	case len(req.Messages) > 0:
		return "it is a chat"
	case len(req.Format) > 0:
		return "it has a format"
	case len(o.Stop) > 0:
		return "it has stop words"
	case req.Think != "":
		return "it says whether to think"
	case o.NumPredict != nil && *o.NumPredict < 2:
		return "no token is left to generate"
	case o.Seed != nil && (o.Temperature == nil || *o.Temperature != 0):
		return "its seed would start again"
	}
	return ""
}

// whyNotLiteral adds what the model and this prefill's outcome forbid.
func (e *Engine) whyNotLiteral(ctx context.Context, req engine.Request, p engine.Prefilled) string {
	if reason := literalRequest(req); reason != "" {
		return reason
	}
	if p.FirstToken == "" || strings.ContainsRune(p.FirstToken, '\uFFFD') {
		return "the first token is not text by itself"
	}
	m, err := e.about(ctx)
	if err != nil {
		return "Ollama does not describe the model"
	}
	begins := 0 // tokens that the runner puts in front by itself: not in the context, but counted
	if m.begins {
		begins = 1
	}
	switch {
	case m.tokenizer != "gpt2":
		return "the model's tokenizer is not byte-pair encoding"
	case m.parsesAnswer:
		return "Ollama parses what the model writes"
	case len(p.Context)+begins != p.PromptTokens+1:
		return "the context has another number of tokens than the prompt"
	}
	return ""
}

// continueFrom sends the context literally. The first token is the prefill machine's.
func (e *Engine) continueFrom(ctx context.Context, req engine.Request, from engine.Prefilled, emit engine.Emit) (engine.Completion, error) {
	w := e.wire(ctx, req)
	w.System, w.Prompt, w.Template, w.Context = "", from.FirstToken, bareTemplate, from.Context[:len(from.Context)-1]
	if n := req.Options.NumPredict; n != nil {
		w.Options.NumPredict = new(*n - 1)
	}
	start := time.Now()
	if err := emit(from.FirstToken, ""); err != nil {
		return engine.Completion{}, err
	}
	first := time.Since(start)
	c, _, err := e.generate(ctx, "decode from context", req, w, nil, emit)
	if err != nil {
		return c, err
	}
	c.Text, c.FirstToken = from.FirstToken+c.Text, first
	c.GeneratedTokens++
	c.PromptTokens-- // the first token came in as prompt
	c.CachedTokens = min(c.CachedTokens, c.PromptTokens)
	c.ComputedTokens = c.PromptTokens - c.CachedTokens
	if c.PromptTokens != from.PromptTokens {
		c.Warnings = append(c.Warnings, fmt.Sprintf(
			"the context was read as %d prompt tokens instead of %d: use the hand-over auto", c.PromptTokens, from.PromptTokens))
	}
	return c, nil
}
