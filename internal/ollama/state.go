package ollama

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/slots"
	"tandem/jobs"
)

// prefillState computes all tokens of the prompt but the last in the server inside, and leaves the
// state in a file. If only that fails, what was computed is returned with the *protocol.HandoverError.
func (e *Engine) prefillState(ctx context.Context, req engine.Request) (engine.Prefilled, error) {
	s, prompt, err := e.prompt(ctx, req)
	if err != nil {
		return engine.Prefilled{}, e.trouble(ctx, "prefill", err, req)
	}
	if _, err := s.KVTransfer(ctx); err != nil { // finds out with a slot of its own, the first time
		return engine.Prefilled{}, e.trouble(ctx, "prefill", err, req)
	}
	slot, err := s.Acquire(ctx, prompt.Tokens)
	if err != nil {
		return engine.Prefilled{}, e.trouble(ctx, "prefill", err, req)
	}
	defer slot.Release()
	done, err := slot.Prefill(ctx, prompt)
	if err != nil {
		return engine.Prefilled{}, e.trouble(ctx, "prefill", err, req)
	}
	p := engine.Prefilled{
		Kind: jobs.KindState, PromptTokens: len(prompt.Tokens), CachedTokens: done.Cached, ComputedTokens: done.Computed,
		Duration: done.Duration, ModelDigest: e.digest(ctx),
	}
	if p.State, err = slot.Export(ctx, prompt); err != nil {
		return p, e.trouble(ctx, "save state", err, req)
	}
	return p, nil
}

// decodeState has the server inside read the state into a slot and then sends Ollama the original
// request, which finds the slot by what it holds. What fails before the first byte of the answer, and
// is not the request's own fault, is a *protocol.HandoverError.
func (e *Engine) decodeState(ctx context.Context, req engine.Request, from engine.Prefilled, emit engine.Emit) (engine.Completion, error) {
	start := time.Now()
	s, prompt, err := e.prompt(ctx, req)
	if err != nil {
		return engine.Completion{}, refused(ctx, e.trouble(ctx, "decode", err, req))
	}
	if n := len(prompt.Tokens); n != from.PromptTokens {
		return engine.Completion{}, protocol.HandoverErrorf(jobs.FailRestore,
			"the prompt has %d tokens here and %d on the prefill machine: pull the same model on both, with its template", n, from.PromptTokens)
	}
	slot, err := s.Acquire(ctx, prompt.Tokens)
	if err != nil {
		return engine.Completion{}, refused(ctx, e.trouble(ctx, "decode", err, req))
	}
	defer slot.Release()
	imported, err := slot.Import(ctx, prompt, from.State)
	if err != nil {
		return engine.Completion{}, refused(ctx, e.trouble(ctx, "restore state", err, req))
	}
	ahead, began := time.Since(start), false
	c, _, err := e.generate(ctx, "decode", req, e.wire(ctx, req), func() { began = true; slot.Started() }, emit)
	if err != nil {
		if !began {
			err = refused(ctx, err)
		}
		return c, err
	}
	if c.FirstToken > 0 {
		c.FirstToken += ahead
	}
	if c.PromptTokens == len(prompt.Tokens) && c.CachedTokens >= s.Proof(from.State.Tokens) {
		c.Imported = &imported
		slot.Held(prompt.Tokens)
	} else {
		c.Warnings = append(c.Warnings, fmt.Sprintf("the KV state was read and then not used: Ollama found %d of %d prompt tokens in its cache, "+
			"which happens if others send requests to this Ollama", c.CachedTokens, c.PromptTokens))
	}
	return c, nil
}

// Estimate says how much of a prompt would have to be computed. It needs the server inside.
func (e *Engine) Estimate(ctx context.Context, req engine.Request) (engine.Estimate, error) {
	s, prompt, err := e.prompt(ctx, req)
	if err != nil {
		return engine.Estimate{}, e.trouble(ctx, "estimate", err, req)
	}
	n := len(prompt.Tokens)
	return engine.Estimate{PromptTokens: n, CachedTokens: min(s.Cached(prompt.Tokens), n-1)}, nil
}

// trouble gives an error of Ollama or of the server inside its code, as failure does, and leaves a
// *protocol.HandoverError as it is.
func (e *Engine) trouble(ctx context.Context, doing string, err error, req engine.Request) error {
	if ctx.Err() != nil {
		return e.left(ctx)
	}
	if refused, ok := errors.AsType[*protocol.HandoverError](err); ok {
		return refused
	}
	if slots.Lost(err) {
		err = jobs.Errorf(jobs.CodeEngineFailed, "the llama-server inside Ollama at %s ended or broke off: %w", e.client, err)
	}
	return e.failure(ctx, doing, err, req)
}

// refused makes a failed hand-over of an engine's failure before it has written anything: the prompt
// can still be computed here. Other errors would come again, or are none.
func refused(ctx context.Context, err error) error {
	known, ok := errors.AsType[*protocol.HandoverError](err)
	switch {
	case ok && known.Failure == jobs.FailNoState: // that is what the prefill side would say
		return &protocol.HandoverError{Failure: jobs.FailRestore, Message: known.Message, Err: known.Err}
	case ok || ctx.Err() != nil || protocol.Classify(err) != protocol.Retry:
		return err
	}
	return protocol.HandoverErrorf(jobs.FailRestore, "%w", err)
}
