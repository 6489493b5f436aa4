package llamacpp

import (
	"context"
	"slices"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/internal/slots"
	"tandem/jobs"
)

// call is one request on its way: rendered, cut into tokens, and holding a slot.
type call struct {
	server *server
	chat   chatRequest
	raw    bool // the prompt goes to the model as it is
	top    int  // of the logprobs that are asked for
	prompt slots.Prompt
	slot   *slots.Slot
	start  time.Time

	computed slots.Computed   // what prefill did; zero if it was not needed
	imported *engine.Imported // what was restored in its place; else nil
}

// begin renders the request, checks that it fits and takes a slot for it. The caller ends the call.
func (e *Engine) begin(ctx context.Context, req engine.Request) (*call, error) {
	c, err := e.read(ctx, req)
	if err != nil {
		return nil, err
	}
	if c.slot, err = c.server.Acquire(ctx, c.prompt.Tokens); err != nil {
		return nil, e.failed(c.server, err)
	}
	return c, nil
}

// read renders the request and checks that it fits.
func (e *Engine) read(ctx context.Context, req engine.Request) (*call, error) {
	if strings.TrimSpace(req.Prompt) == "" && len(req.Messages) == 0 {
		return nil, jobs.Errorf(jobs.CodeInvalid, "prompt is empty; give a prompt or messages")
	}
	c := &call{chat: chatOf(req), top: req.TopLogprobs, start: time.Now()}
	c.prompt.Sample, c.prompt.Progress, c.prompt.Restored = req.Sample, req.Progress, req.Restored
	if c.prompt.Progress == nil {
		c.prompt.Progress = func() {}
	}
	var err error
	if c.server, err = e.connect(ctx); err != nil {
		return nil, err
	}
	if len(req.Tools) > 0 && c.server.Identity().NoTools {
		return nil, jobs.Errorf(jobs.CodeEngineRefused, "tools: the chat template of this model has none; leave them out, or give llama-server one that has (--chat-template-file)")
	}
	if slices.ContainsFunc(req.Messages, func(m jobs.Message) bool { return len(m.Images) > 0 }) {
		return nil, jobs.Errorf(jobs.CodeEngineRefused, "images: a llama-server whose KV states are moved takes none; leave them out, or use Ollama or --engine openai for a model that sees")
	}
	if req.Suffix != "" {
		return nil, jobs.Errorf(jobs.CodeEngineRefused, "suffix: llama-server is asked for chats here, which have none; leave it out, or ask a model on Ollama")
	}
	c.raw = req.Raw
	size := c.server.Identity().Context
	if need := req.Options.NumCtx; need != nil && *need > size {
		return nil, slots.Overflow(*need, size)
	}
	if err := c.tokenise(ctx, req); err != nil {
		return nil, e.failed(c.server, err)
	}
	c.prompt.Progress()
	if n := len(c.prompt.Tokens); n >= size {
		return nil, slots.Overflow(n+1, size)
	}
	return c, nil
}

func (c *call) end() { c.slot.Release() }

// tokenise renders the request with the model's chat template and cuts it into tokens, as the chat
// request will.
func (c *call) tokenise(ctx context.Context, req engine.Request) error {
	text, err := req.Prompt, error(nil)
	if !req.Raw {
		if text, err = c.server.render(ctx, c.chat); err != nil {
			return err
		}
	}
	if c.prompt.Tokens, err = c.server.Tokens(ctx, text); err != nil {
		return err
	}
	if len(c.prompt.Tokens) == 0 {
		return jobs.Errorf(jobs.CodeEngineRefused, "the prompt has no tokens after the model's chat template")
	}
	c.prompt.Shared, err = c.shared(ctx, req, text)
	return err
}

// render applies the model's chat template.
func (s *server) render(ctx context.Context, chat chatRequest) (string, error) {
	rendered, err := slots.Constant[struct {
		Prompt string `json:"prompt"`
	}](ctx, s.Server, "/apply-template", chat)
	return rendered.Prompt, err
}
