package llamacpp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/internal/jobs"
)

// Prefill computes all tokens of the prompt but the last and leaves them in a slot. Nothing is handed
// over yet: the decode side computes the prompt again.
func (e *Engine) Prefill(ctx context.Context, req engine.Request) (engine.Prefilled, error) {
	c, err := e.begin(ctx, req)
	if err != nil {
		return engine.Prefilled{}, err
	}
	defer c.end()
	if err := c.prefill(ctx); err != nil {
		return engine.Prefilled{}, e.failed(c.server, err)
	}
	return engine.Prefilled{
		Kind: jobs.KindNone, PromptTokens: len(c.prompt), CachedTokens: c.cached, ComputedTokens: c.computed,
		Duration: c.duration, ModelDigest: c.server.digest.known(),
	}, nil
}

// Decode generates the text for a prompt that was prefilled elsewhere, or here: then it is found in
// a slot.
func (e *Engine) Decode(ctx context.Context, req engine.Request, _ engine.Prefilled, emit engine.Emit) (engine.Completion, error) {
	return e.Generate(ctx, req, emit)
}

// Generate runs both phases, in the same two steps as Prefill and Decode.
func (e *Engine) Generate(ctx context.Context, req engine.Request, emit engine.Emit) (engine.Completion, error) {
	c, err := e.begin(ctx, req)
	if err != nil {
		return engine.Completion{}, err
	}
	defer c.end()
	if !c.prefilled() {
		if err := c.prefill(ctx); err != nil {
			return engine.Completion{}, e.failed(c.server, err)
		}
	}
	completion, err := c.decode(ctx, emit)
	if err != nil {
		return engine.Completion{}, e.failed(c.server, err)
	}
	return completion, nil
}

// decode generates the text. The server finds all tokens but the last in the slot and computes that one.
func (c *call) decode(ctx context.Context, emit engine.Emit) (engine.Completion, error) {
	var (
		text, thinking strings.Builder
		result         engine.Completion
		took           timings
	)
	c.slot.expect(c.head())
	c.chat.placement = in(c.slot)
	err := c.server.client.stream(ctx, c.server.endpoint, "/v1/chat/completions", c.chat, c.progress, func(e *event) error {
		if e.Timings != nil {
			took = *e.Timings
		}
		for _, choice := range e.Choices {
			if choice.FinishReason != "" {
				result.FinishReason = choice.FinishReason
			}
			d := choice.Delta
			if d.Content == "" && d.Reasoning == "" {
				continue
			}
			if result.FirstToken == 0 {
				result.FirstToken = time.Since(c.start)
			}
			text.WriteString(d.Content)
			thinking.WriteString(d.Reasoning)
			for _, piece := range [...][2]string{{"", d.Reasoning}, {d.Content, ""}} {
				if piece == [2]string{} {
					continue
				}
				if err := emit(piece[0], piece[1]); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return engine.Completion{}, err
	}
	if result.FinishReason == "" {
		return engine.Completion{}, jobs.Errorf(jobs.CodeEngineFailed, "llama-server's answer ended without a reason; see its log")
	}
	c.slot.held = c.prompt
	result.Text, result.Thinking = text.String(), thinking.String()
	result.PromptTokens, result.GeneratedTokens = len(c.prompt), took.Generated
	result.ComputedTokens = c.computed + took.Computed
	result.CachedTokens = max(0, len(c.prompt)-result.ComputedTokens)
	result.PrefillDuration = c.duration + milliseconds(took.PromptMS)
	result.DecodeDuration = milliseconds(took.PredictMS)
	if used := took.Cached + took.Computed; used != len(c.prompt) {
		result.Warnings = append(result.Warnings, fmt.Sprintf(
			"llama-server read the prompt as %d tokens where prefill counted %d, so its cache was of little use", used, len(c.prompt)))
	}
	return result, nil
}
