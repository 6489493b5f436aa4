package ollama

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// Generate runs both phases on this server.
func (e *Engine) Generate(ctx context.Context, req engine.Request, emit engine.Emit) (engine.Completion, error) {
	c, _, err := e.generate(ctx, "generate", req, e.wire(ctx, req), nil, emit)
	return c, err
}

// Prefill computes the prompt, in the server inside if its state is to be exported. Otherwise, or if
// that cannot be, it asks Ollama for one token and hands over the context; see prefillContext.
func (e *Engine) Prefill(ctx context.Context, req engine.Request) (engine.Prefilled, error) {
	if !req.Export {
		return e.prefillContext(ctx, req)
	}
	before, err := e.prefillState(ctx, req)
	why, ok := errors.AsType[*protocol.HandoverError](err)
	if !ok {
		return before, err
	}
	p, err := e.prefillContext(ctx, req)
	if err != nil {
		return engine.Prefilled{}, err
	}
	if before.PromptTokens == p.PromptTokens && before.ComputedTokens > p.ComputedTokens { // computed already, and found again
		p.ComputedTokens = p.PromptTokens - before.CachedTokens
		p.CachedTokens = before.CachedTokens
		p.Duration += before.Duration
	}
	p.Failure = why.Failure
	p.Note = strings.Join(slices.DeleteFunc([]string{why.Error(), p.Note}, func(s string) bool { return s == "" }), "; ")
	return p, nil
}

// prefillContext computes the prompt by asking for one token. It hands over the context that Ollama
// returns, if it does (its chat API does not), and that token's text, thinking included.
func (e *Engine) prefillContext(ctx context.Context, req engine.Request) (engine.Prefilled, error) {
	one := req
	one.Options.NumPredict = new(1)
	c, context, err := e.generate(ctx, "prefill", one, e.wire(ctx, one), nil, func(jobs.Chunk) error { return nil })
	if err != nil {
		return engine.Prefilled{}, err
	}
	p := engine.Prefilled{
		Kind: jobs.KindContext, Context: context, FirstToken: c.Thinking + c.Text,
		PromptTokens: c.PromptTokens, CachedTokens: c.CachedTokens, ComputedTokens: c.ComputedTokens,
		Duration: c.PrefillDuration, ModelDigest: e.digest(ctx),
	}
	if len(context) == 0 {
		p.Kind, p.Note = jobs.KindNone, "Ollama's chat API returns no token ids"
	}
	return p, nil
}

// Decode generates the text of a prompt that was prefilled elsewhere, by sending the original
// request to this server, once the KV state is in it if there is one. A first token other than the prefill server's, where it is determined, and another model
// are warnings. A completion without Imported, although there was a state, is a silent miss: the
// text is right, and the prompt was computed again.
func (e *Engine) Decode(ctx context.Context, req engine.Request, from engine.Prefilled, emit engine.Emit) (engine.Completion, error) {
	var warnings []string
	here := e.digest(ctx)
	if from.ModelDigest != "" && here != "" && from.ModelDigest != here {
		warnings = append(warnings, fmt.Sprintf("the model's digest is %.12s here and %.12s on the prefill machine: pull the same one on both", here, from.ModelDigest))
	}
	if from.State != nil {
		c, err := e.decodeState(ctx, req, from, emit)
		c.Warnings = append(c.Warnings, warnings...)
		return c, err
	}
	c, _, err := e.generate(ctx, "decode", req, e.wire(ctx, req), nil, emit)
	if err != nil {
		return c, err
	}
	if !agrees(req, from.FirstToken, c.Thinking+c.Text) {
		warnings = append(warnings, "the first token differs from the prefill machine's: the two engines do not compute the same; compare their versions and settings")
	}
	c.Warnings = append(c.Warnings, warnings...)
	return c, nil
}

// agrees reports whether a text begins with the token that prefill saw. Only a greedy or seeded
// request determines it. A stop word may have cut the token itself short.
func agrees(req engine.Request, first, text string) bool {
	o := req.Options
	determined := o.Temperature != nil && *o.Temperature == 0 || o.Seed != nil
	first, text = strings.TrimSpace(first), strings.TrimSpace(text)
	if !determined || strings.HasPrefix(text, first) {
		return true
	}
	whole := !strings.ContainsRune(first, '\uFFFD') // not a part of a character, of which only the replacement was seen
	return !whole || len(o.Stop) > 0 && strings.HasPrefix(first, text)
}

// generate runs one request and returns what came of it and the context that Ollama returned. Started
// is called at the first byte of the answer; if it is nil, the request waits for its turn (see begin).
func (e *Engine) generate(ctx context.Context, doing string, req engine.Request, w wire, started func(), emit engine.Emit) (engine.Completion, []int, error) {
	if ctx.Err() != nil {
		return engine.Completion{}, nil, context.Cause(ctx)
	}
	if err := e.check(ctx, req); err != nil {
		return engine.Completion{}, nil, e.failure(ctx, doing, err, req)
	}
	if started == nil {
		var err error
		if started, err = e.begin(ctx); err != nil {
			return engine.Completion{}, nil, e.left(ctx)
		}
		defer started()
	}
	within, stop := context.WithCancelCause(ctx) // ended by the caller, or by emit
	defer stop(nil)
	c, last, err := e.receive(within, req, w, started, func(piece jobs.Chunk) {
		if err := emit(piece); err != nil {
			stop(err)
		}
	})
	switch {
	case ctx.Err() != nil: // first, since within learns of it a little later
		return engine.Completion{}, nil, e.left(ctx)
	case within.Err() != nil:
		return engine.Completion{}, nil, context.Cause(within)
	case err == nil && last.DoneReason != "stop" && last.DoneReason != "length":
		err = jobs.Errorf(jobs.CodeEngineFailed, "done_reason is neither stop nor length: Ollama generated nothing")
	}
	if err != nil {
		return engine.Completion{}, nil, e.failure(ctx, doing, err, req)
	}
	e.log.Debug("ollama answered", "for", doing, "model", e.model, "prompt_tokens", c.PromptTokens, "cached", c.CachedTokens,
		"generated", c.GeneratedTokens, "finish", c.FinishReason)
	return c, last.Context, nil
}

// receive sends a request and gathers its answer, line by line, the first of which makes it call
// started. Once the context has ended, lines are read but no longer given to emit; see closeGracefully.
func (e *Engine) receive(ctx context.Context, req engine.Request, w wire, started func(), emit func(jobs.Chunk)) (c engine.Completion, last answer, err error) {
	connected, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	heard, wait := closeGracefully(ctx, connected.Done(), hangUp)
	defer wait()
	defer hangUp()

	start := time.Now()
	resp, err := e.client.post(connected, w.path(), w)
	if err != nil {
		return c, last, err
	}
	defer resp.Body.Close()

	var text, thinking strings.Builder
	var logprobs engine.Logprobs
	last, err = readStream(resp.Body, func(a answer) {
		heard()
		started()
		if req.Progress != nil {
			req.Progress()
		}
		said, thought := a.text()
		calls := a.calls()
		text.WriteString(said)
		thinking.WriteString(thought)
		c.ToolCalls = append(c.ToolCalls, calls...)
		logprobs.Add(a.Logprobs, req.TopLogprobs)
		for _, piece := range []jobs.Chunk{{Thinking: thought}, {Text: said}, {ToolCalls: calls}} {
			if piece.Text+piece.Thinking == "" && len(piece.ToolCalls) == 0 {
				continue
			}
			if c.FirstToken == 0 {
				c.FirstToken = time.Since(start)
			}
			piece.Logprobs = logprobs.News()
			if ctx.Err() == nil {
				emit(piece)
			}
		}
	})
	if err != nil {
		return c, last, err
	}
	c.Text, c.Thinking, c.FinishReason, c.Logprobs = text.String(), thinking.String(), last.DoneReason, logprobs.All()
	c.PromptTokens, c.CachedTokens, c.ComputedTokens = last.PromptEvalCount, last.cached(), last.PromptEvalCount-last.cached()
	c.GeneratedTokens, c.PrefillDuration, c.DecodeDuration = last.EvalCount, last.PromptEvalDuration, last.EvalDuration
	return c, last, nil
}
