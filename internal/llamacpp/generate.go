package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/slots"
	"tandem/jobs"
)

// Prefill computes all tokens of the prompt but the last and leaves them in a slot, and, if asked, in a
// file.
func (e *Engine) Prefill(ctx context.Context, req engine.Request) (engine.Prefilled, error) {
	c, err := e.begin(ctx, req)
	if err != nil {
		return engine.Prefilled{}, err
	}
	defer c.end()
	if err := c.prefill(ctx); err != nil {
		return engine.Prefilled{}, e.failed(c.server, err)
	}
	p := engine.Prefilled{
		Kind: jobs.KindNone, PromptTokens: len(c.prompt.Tokens), CachedTokens: c.computed.Cached, ComputedTokens: c.computed.Computed,
		Duration: c.computed.Duration, ModelDigest: c.server.digest.known(),
	}
	if !req.Export {
		return p, nil
	}
	state, err := c.slot.Export(ctx, c.prompt)
	if err == nil {
		p.Kind, p.State = jobs.KindState, state
		return p, nil
	}
	if ctx.Err() != nil {
		return engine.Prefilled{}, context.Cause(ctx)
	}
	p.Failure, p.Note = jobs.FailSave, err.Error()
	if failed, ok := errors.AsType[*protocol.HandoverError](e.failed(c.server, err)); ok {
		p.Failure = failed.Failure
	}
	return p, nil
}

// Decode generates the text for a prompt that was prefilled: from the state that is given; or here, if
// it was prefilled here, finding it in a slot; or else from its beginning.
func (e *Engine) Decode(ctx context.Context, req engine.Request, from engine.Prefilled, emit engine.Emit) (engine.Completion, error) {
	if from.State == nil {
		return e.Generate(ctx, req, emit)
	}
	c, err := e.begin(ctx, req)
	if err != nil {
		return engine.Completion{}, err
	}
	defer c.end()
	imported, err := c.slot.Import(ctx, c.prompt, from.State)
	if err != nil {
		return engine.Completion{}, e.failed(c.server, err)
	}
	c.imported = &imported
	completion, err := c.decode(ctx, emit)
	if err != nil {
		return engine.Completion{}, e.failed(c.server, err)
	}
	return completion, nil
}

// Generate runs both phases, in the same two steps as Prefill and Decode.
func (e *Engine) Generate(ctx context.Context, req engine.Request, emit engine.Emit) (engine.Completion, error) {
	c, err := e.begin(ctx, req)
	if err != nil {
		return engine.Completion{}, err
	}
	defer c.end()
	if !c.slot.Holds(c.prompt.Tokens) {
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

// Estimate says what a prompt will cost, by what the slots hold now.
func (e *Engine) Estimate(ctx context.Context, req engine.Request) (engine.Estimate, error) {
	c, err := e.read(ctx, req)
	if err != nil {
		return engine.Estimate{}, err
	}
	n := len(c.prompt.Tokens)
	return engine.Estimate{PromptTokens: n, CachedTokens: min(c.server.Cached(c.prompt.Tokens), n-1)}, nil
}

func (c *call) prefill(ctx context.Context) (err error) {
	c.computed, err = c.slot.Prefill(ctx, c.prompt)
	return err
}

// decode generates the text. The server finds all tokens but the last in the slot and computes that one.
func (c *call) decode(ctx context.Context, emit engine.Emit) (engine.Completion, error) {
	c.chat.Placement = c.slot.Placement()
	a := answer{emit: emit, start: c.start, top: c.top}
	stream := func(path string, body any) error {
		return c.slot.Stream(ctx, path, body, c.prompt.Tokens, c.prompt.Progress, a.take)
	}
	var err error
	if c.raw {
		err = stream("/completion", completionOf(c.prompt.Tokens, c.chat))
	} else {
		err = stream("/v1/chat/completions", c.chat)
	}
	if !c.raw && c.chat.ResponseFormat != nil && err != nil && strings.Contains(err.Error(), noSampler) {
		if _, asked := c.chat.TemplateArgs["reasoning_effort"]; asked || c.chat.TemplateArgs["enable_thinking"] == true {
			a.Warnings = append(a.Warnings, "llama-server cannot have this model think before an answer in the wanted format")
		}
		err = stream("/completion", completionOf(c.prompt.Tokens, c.chat))
	}
	if err != nil {
		return engine.Completion{}, err
	}
	if a.FinishReason == "" {
		return engine.Completion{}, jobs.Errorf(jobs.CodeEngineFailed, "llama-server's answer ended without a reason; see its log")
	}
	c.account(&a)
	return a.Completion, nil
}

// account says what the answer took, and whether that is what was to be expected.
func (c *call) account(a *answer) {
	n := len(c.prompt.Tokens)
	a.Text, a.Thinking, a.Warnings = a.text.String(), a.thinking.String(), append(a.Warnings, a.calls.Warnings...)
	a.PromptTokens, a.GeneratedTokens, a.Logprobs = n, a.took.Generated, a.logprobs.All()
	a.ComputedTokens = c.computed.Computed + a.took.Computed
	if used := a.took.Cached + a.took.Computed; used == n {
		a.ComputedTokens = min(a.ComputedTokens, n) // one that had to be computed twice counts once
	} else {
		a.Warnings = append(a.Warnings, fmt.Sprintf(
			"llama-server read the prompt as %d tokens where prefill counted %d, so its cache was of little use", used, n))
	}
	a.CachedTokens = max(0, n-a.ComputedTokens)
	switch i := c.imported; {
	case i != nil && a.took.Cached >= c.server.Proof(i.Tokens):
		a.Imported = i
	case i != nil:
		a.Warnings = append(a.Warnings, fmt.Sprintf(
			"the KV state was read and then not used: llama-server found %d of %d prompt tokens in its cache; let only the worker use it", a.took.Cached, n))
	}
	a.PrefillDuration = c.computed.Duration + a.took.PromptTime()
	a.DecodeDuration = a.took.PredictTime()
}

// noSampler is how llama-server refuses a chat with a format before it computes anything, if its grammar
// for the answer begins with the end of the prompt and the model's tokenizer reads that differently. With
// 0.7.0 this meets every SentencePiece model, and others in other builds (llama.cpp issues 22396, 23775). The same
// prompt and schema are then sent as tokens, which is equal for models that do not think.
const noSampler = "Failed to initialize samplers"

// maxAnswer bounds the text and the thinking of an answer, in bytes.
const maxAnswer = jobs.MaxRecord

// answer gathers what is generated.
type answer struct {
	engine.Completion
	emit           engine.Emit
	start          time.Time
	text, thinking strings.Builder
	calls          engine.ToolCalls
	logprobs       engine.Logprobs
	top            int // of the logprobs
	took           slots.Timings
}

func (a *answer) take(e *slots.Event) error {
	if e.Timings != nil {
		a.took = *e.Timings
	}
	if e.StopType != "" {
		a.finish(e.StopType == "limit")
	}
	text, thinking := e.Content, ""
	a.logprobs.Add(e.Logprobs, a.top)
	var calls []jobs.ToolCall
	for _, choice := range e.Choices {
		a.logprobs.Add(choice.Logprobs.Content, a.top)
		text, thinking = text+choice.Delta.Content, thinking+choice.Delta.Reasoning
		for _, d := range choice.Delta.ToolCalls {
			calls = append(calls, a.calls.Add(d)...)
		}
		if r := choice.FinishReason; r != "" {
			a.finish(r == "length")
			calls = append(calls, a.calls.End()...)
		}
	}
	if a.text.Len()+a.thinking.Len()+a.calls.Bytes()+len(text)+len(thinking) > maxAnswer {
		return jobs.Errorf(jobs.CodeEngineFailed, "llama-server's answer is longer than %d bytes, which no result could hold: give the job a num_predict", maxAnswer)
	}
	a.thinking.WriteString(thinking)
	a.text.WriteString(text)
	a.ToolCalls = append(a.ToolCalls, calls...)
	for _, piece := range []jobs.Chunk{{Thinking: thinking}, {Text: text}, {ToolCalls: calls}} {
		if piece.Text+piece.Thinking == "" && len(piece.ToolCalls) == 0 {
			continue
		}
		if a.FirstToken == 0 {
			a.FirstToken = time.Since(a.start)
		}
		piece.Logprobs = a.logprobs.News()
		if err := a.emit(piece); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) finish(limit bool) {
	a.FinishReason = "stop"
	if limit {
		a.FinishReason = "length"
	}
}
