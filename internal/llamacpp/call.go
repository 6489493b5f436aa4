package llamacpp

import (
	"context"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/internal/jobs"
)

// call is one request on its way: rendered, cut into tokens, and holding a slot.
type call struct {
	server   *server
	chat     chatRequest
	prompt   []int32 // all N tokens
	slot     *slot
	progress func()
	start    time.Time

	// What prefill did; zero if it was not needed.
	cached, computed int
	duration         time.Duration
}

// begin renders the request, checks that it fits and takes a slot for it. The caller ends the call.
func (e *Engine) begin(ctx context.Context, req engine.Request) (*call, error) {
	if strings.TrimSpace(req.Prompt) == "" && len(req.Messages) == 0 {
		return nil, jobs.Errorf(jobs.CodeInvalid, "prompt is empty; give a prompt or messages")
	}
	c := &call{chat: chatOf(req), progress: req.Progress, start: time.Now()}
	if c.progress == nil {
		c.progress = func() {}
	}
	var err error
	if c.server, err = e.connect(ctx); err != nil {
		return nil, err
	}
	if need := req.Options.NumCtx; need != nil && *need > c.server.context {
		return nil, overflow(*need, c.server.context)
	}
	if c.prompt, err = c.server.tokens(ctx, c.chat); err != nil {
		return nil, e.failed(c.server, err)
	}
	c.progress()
	if len(c.prompt) >= c.server.context {
		return nil, overflow(len(c.prompt)+1, c.server.context)
	}
	if c.slot, err = c.server.pool.acquire(ctx, c.prompt); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *call) end() { c.server.pool.release(c.slot) }

// tokens renders the request with the model's chat template and cuts it into tokens, as the chat
// request will: a beginning-of-text token is added where the model wants one (the rendered text has
// none), and control tokens are read as such.
func (s *server) tokens(ctx context.Context, chat chatRequest) ([]int32, error) {
	var rendered struct {
		Prompt string `json:"prompt"`
	}
	if err := s.client.call(ctx, s.endpoint, "/apply-template", chat, &rendered); err != nil {
		return nil, err
	}
	cut := struct {
		Content string `json:"content"`
		Add     bool   `json:"add_special"`
		Parse   bool   `json:"parse_special"`
	}{rendered.Prompt, true, true}
	var tokens struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := s.client.call(ctx, s.endpoint, "/tokenize", cut, &tokens); err != nil {
		return nil, err
	}
	if len(tokens.Tokens) == 0 {
		return nil, jobs.Errorf(jobs.CodeEngineRefused, "the prompt has no tokens after the model's chat template")
	}
	return tokens.Tokens, nil
}

// head is what a prefill computes: the prompt but for its last token. The token that follows a
// prompt can only be predicted by computing the prompt's last token, so whoever generates must do at least
// that, and a state without it needs no step back, which not every kind of model can do. A state is
// exported after the head was computed, and imported in place of computing it.
func (c *call) head() []int32 { return c.prompt[:len(c.prompt)-1] }

// prefilled reports whether the slot is thought to hold the head.
func (c *call) prefilled() bool { return common(c.slot.held, c.prompt) >= len(c.head()) }

// prefill computes the head in the call's slot.
func (c *call) prefill(ctx context.Context) error {
	head := c.head()
	if len(head) == 0 {
		return nil
	}
	c.slot.expect(head)
	body := completionRequest{
		Prompt: head, Fields: []string{"stop", "timings"}, sampling: sampling{NumPredict: new(0)}, placement: in(c.slot),
	}
	err := c.server.client.stream(ctx, c.server.endpoint, "/completion", body, c.progress, func(e *event) error {
		if e.Timings != nil {
			c.cached, c.computed, c.duration = e.Timings.Cached, e.Timings.Computed, milliseconds(e.Timings.PromptMS)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.slot.held = head
	return nil
}
