package ollama

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"tandem/internal/engine"
	"tandem/internal/slots"
)

// render returns the prompt as Ollama makes it of a request, and loads the model with our options if it
// was not.
func (e *Engine) render(ctx context.Context, req engine.Request) (string, error) {
	w := e.wire(ctx, req)
	w.RenderOnly = true
	var a struct {
		Debug *struct {
			Rendered string `json:"rendered_template"`
		} `json:"_debug_info"`
	}
	if err := e.client.ask(ctx, w.path(), w, &a); err != nil {
		return "", err
	}
	if a.Debug == nil {
		return "", fmt.Errorf("it does not show how it renders a prompt: %w", errNotOllama)
	}
	return a.Debug.Rendered, nil
}

// prompt has the model loaded and returns the tokens that Ollama will send for a request, and the
// server inside that it will send them to. The error is a *protocol.HandoverError where there is none.
func (e *Engine) prompt(ctx context.Context, req engine.Request) (*slots.Server, slots.Prompt, error) {
	none := slots.Prompt{}
	if err := e.check(ctx, req); err != nil {
		return nil, none, err
	}
	if _, err := e.loaded(ctx); err != nil {
		return nil, none, err
	}
	text, err := e.render(ctx, req)
	if err != nil {
		return nil, none, err
	}
	m, err := e.about(ctx)
	if err != nil {
		return nil, none, err
	}
	s, err := e.inside.find(ctx, m) // again, since rendering restarts a runner that somebody gave other options
	if err != nil {
		return nil, none, err
	}
	tokens, err := m.tokens(ctx, s, text)
	if err != nil {
		return nil, none, err
	}
	if n, room := len(tokens), s.Identity().Context; n+1 > room {
		return nil, none, &refusal{status: http.StatusBadRequest, kind: overflow, tokens: n, context: room}
	}
	p := slots.Prompt{Tokens: tokens, Sample: req.Sample, Progress: req.Progress, Restored: req.Restored}
	if end := sharedEnd(text, req); end > 0 {
		head, err := m.tokens(ctx, s, text[:end])
		if err != nil {
			return nil, none, err
		}
		for p.Shared < min(len(head), len(tokens)) && head[p.Shared] == tokens[p.Shared] {
			p.Shared++ // the last tokens may differ, where text and next text grow together
		}
	}
	return s, p, nil
}

// tokens cuts a rendered prompt as the server inside does when Ollama sends it. If the tokenizer begins every
// text with a token of its own, Ollama removes that token's text where its own code wrote it.
func (m *model) tokens(ctx context.Context, s *slots.Server, text string) ([]int32, error) {
	list, err := s.Tokens(ctx, text)
	if err != nil {
		return nil, err
	}
	removes := m.renderer || strings.HasPrefix(text, "<bos>")
	if removes && len(list) > 1 && list[0] == m.beginID && list[1] == m.beginID {
		list = list[1:]
	}
	return list, nil
}

// sharedEnd is where in the rendered prompt the text ends that other requests share, in bytes, and 0 if
// it is not found. A template may change what is around the texts, but keeps their order. Where a text
// occurs earlier too, the end comes out too early, which costs time only.
func sharedEnd(rendered string, req engine.Request) int {
	if req.SharedPrefix <= 0 {
		return 0
	}
	if len(req.Messages) == 0 {
		if at := strings.Index(rendered, req.Prompt); at >= 0 {
			return at + min(req.SharedPrefix, len(req.Prompt))
		}
		return 0
	}
	end := 0
	for _, m := range req.Messages[:min(req.SharedPrefix, len(req.Messages))] {
		text := strings.TrimSpace(m.Content) // as some templates do
		at := strings.Index(rendered[end:], text)
		if at < 0 {
			break
		}
		end += at + len(text)
	}
	return end
}
