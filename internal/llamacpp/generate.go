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
	c.slot.expect(c.head())
	c.chat.placement = in(c.slot)
	a := answer{emit: emit, start: c.start}
	err := c.server.client.stream(ctx, c.server.endpoint, "/v1/chat/completions", c.chat, c.progress, a.take)
	if c.chat.ResponseFormat != nil && err != nil && strings.Contains(err.Error(), noSampler) {
		if _, asked := c.chat.TemplateArgs["reasoning_effort"]; asked || c.chat.TemplateArgs["enable_thinking"] == true {
			a.Warnings = append(a.Warnings, "llama-server cannot have this model think before an answer in the wanted format")
		}
		err = c.server.client.stream(ctx, c.server.endpoint, "/completion", completionOf(c.prompt, c.chat), c.progress, a.take)
	}
	if err != nil {
		return engine.Completion{}, err
	}
	if a.FinishReason == "" {
		return engine.Completion{}, jobs.Errorf(jobs.CodeEngineFailed, "llama-server's answer ended without a reason; see its log")
	}
	c.slot.held = c.prompt
	a.Text, a.Thinking = a.text.String(), a.thinking.String()
	a.PromptTokens, a.GeneratedTokens = len(c.prompt), a.took.Generated
	a.ComputedTokens = c.computed + a.took.Computed
	a.CachedTokens = max(0, len(c.prompt)-a.ComputedTokens)
	a.PrefillDuration = c.duration + milliseconds(a.took.PromptMS)
	a.DecodeDuration = milliseconds(a.took.PredictMS)
	if used := a.took.Cached + a.took.Computed; used != len(c.prompt) {
		a.Warnings = append(a.Warnings, fmt.Sprintf(
			"llama-server read the prompt as %d tokens where prefill counted %d, so its cache was of little use", used, len(c.prompt)))
	}
	return a.Completion, nil
}

// noSampler is how llama-server refuses a chat with a format before it computes anything, if its grammar
// for the answer begins with the end of the prompt and the model's tokenizer reads that differently. With
// 0.7.0 this meets every SentencePiece model, and others in other builds (llama.cpp issues 22396, 23775). The same
// prompt and schema are then sent as tokens, which is equal for models that do not think.
const noSampler = "Failed to initialize samplers"

// answer gathers what is generated.
type answer struct {
	engine.Completion
	emit           engine.Emit
	start          time.Time
	text, thinking strings.Builder
	took           timings
}

func (a *answer) take(e *event) error {
	if e.Timings != nil {
		a.took = *e.Timings
	}
	if e.StopType != "" {
		a.finish(e.StopType == "limit")
	}
	text, thinking := e.Content, ""
	for _, choice := range e.Choices {
		if r := choice.FinishReason; r != "" {
			a.finish(r == "length")
		}
		text, thinking = text+choice.Delta.Content, thinking+choice.Delta.Reasoning
	}
	if a.FirstToken == 0 && text+thinking != "" {
		a.FirstToken = time.Since(a.start)
	}
	if thinking != "" {
		a.thinking.WriteString(thinking)
		if err := a.emit("", thinking); err != nil {
			return err
		}
	}
	if text != "" {
		a.text.WriteString(text)
		return a.emit(text, "")
	}
	return nil
}

func (a *answer) finish(limit bool) {
	a.FinishReason = "stop"
	if limit {
		a.FinishReason = "length"
	}
}
