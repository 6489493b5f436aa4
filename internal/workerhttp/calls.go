package workerhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"tandem/internal/engine"
	"tandem/jobs"
)

// discard takes the pieces of a text that is answered whole.
func discard(jobs.Chunk) error { return nil }

// prefill answers POST /prefill {"prompt"}. With an engine that hands over a context, that is the
// list of token ids; /decode takes it back.
func (s *server) prefill(w http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Prompt string `json:"prompt"`
	}
	if err := read(w, r, &in); err != nil {
		return nil, err
	}
	j, err := s.job(in.Prompt, nil, nil)
	if err != nil {
		return nil, err
	}
	var p engine.Prefilled
	start := time.Now()
	err = s.run(r.Context(), func(ctx context.Context) (err error) {
		start = time.Now()
		p, err = s.Engine.Prefill(ctx, engine.RequestOf(j))
		return err
	})
	if err != nil {
		return nil, err
	}
	if p.Context == nil {
		p.Context = []int{}
	}
	return map[string]any{
		"context": p.Context, "prompt": in.Prompt, "prefill_time": time.Since(start).Seconds(), "model": s.Model,
		"backend": s.Health().Description.Engine,
		"metrics": map[string]any{
			"prompt_eval_count": p.PromptTokens, "prompt_eval_duration_ns": p.Duration.Nanoseconds(),
			"prompt_tokens_per_sec": engine.PerSecond(p.ComputedTokens, p.Duration), "prompt_eval_cached_count": p.CachedTokens,
		},
	}, nil
}

// decode answers POST /decode {"prompt", "context"|"kv_cache"|"input_ids", "max_new_tokens", "temperature"}.
// The prompt is computed here again whatever else is sent (see docs/ARCHITECTURE.md), so it is required.
func (s *server) decode(w http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Prompt       string          `json:"prompt"`
		Context      []int           `json:"context"`
		KVCache      json.RawMessage `json:"kv_cache"`
		InputIDs     []int           `json:"input_ids"`
		MaxNewTokens *int            `json:"max_new_tokens"`
		Temperature  *float64        `json:"temperature"`
	}
	if err := read(w, r, &in); err != nil {
		return nil, err
	}
	if in.Prompt == "" && (in.Context != nil || in.KVCache != nil || in.InputIDs != nil) {
		return nil, jobs.Errorf(jobs.CodeInvalid, "prompt is missing: context, kv_cache and input_ids do not hold the KV cache, so the prompt must be sent with them")
	}
	c, took, err := s.complete(r, in.Prompt, in.MaxNewTokens, in.Temperature, func(ctx context.Context, req engine.Request) (engine.Completion, error) {
		if in.Context == nil {
			return s.Engine.Generate(ctx, req, discard)
		}
		return s.Engine.Decode(ctx, req, engine.Prefilled{Kind: jobs.KindContext, Context: in.Context}, discard)
	})
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"generated_text": c.Text, "decode_time": took.Seconds(), "tokens_generated": c.GeneratedTokens,
		"tokens_per_sec": engine.PerSecond(c.GeneratedTokens, c.DecodeDuration), "model": s.Model, "metrics": metrics(c),
	}, nil
}

// generate answers POST /generate {"prompt", "max_tokens"}: both phases here.
func (s *server) generate(w http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Prompt      string   `json:"prompt"`
		MaxTokens   *int     `json:"max_tokens"`
		Temperature *float64 `json:"temperature"`
	}
	if err := read(w, r, &in); err != nil {
		return nil, err
	}
	c, took, err := s.complete(r, in.Prompt, in.MaxTokens, in.Temperature, func(ctx context.Context, req engine.Request) (engine.Completion, error) {
		return s.Engine.Generate(ctx, req, discard)
	})
	if err != nil {
		return nil, err
	}
	return map[string]any{"response": c.Text, "generation_time": took.Seconds(), "model": s.Model, "metrics": metrics(c)}, nil
}

func (s *server) complete(r *http.Request, prompt string, maxTokens *int, temperature *float64,
	call func(context.Context, engine.Request) (engine.Completion, error)) (c engine.Completion, took time.Duration, err error) {
	j, err := s.job(prompt, maxTokens, temperature)
	if err != nil {
		return c, 0, err
	}
	err = s.run(r.Context(), func(ctx context.Context) (err error) {
		start := time.Now()
		c, err = call(ctx, engine.RequestOf(j))
		took = time.Since(start)
		return err
	})
	return c, took, err
}

func metrics(c engine.Completion) map[string]any {
	return map[string]any{
		"prompt_eval_count": c.PromptTokens, "prompt_eval_cached_count": c.CachedTokens,
		"prompt_eval_duration_ns": c.PrefillDuration.Nanoseconds(),
		"prompt_tokens_per_sec":   engine.PerSecond(c.ComputedTokens, c.PrefillDuration),
		"eval_count":              c.GeneratedTokens, "eval_duration_ns": c.DecodeDuration.Nanoseconds(),
		"eval_tokens_per_sec": engine.PerSecond(c.GeneratedTokens, c.DecodeDuration), "done_reason": c.FinishReason,
	}
}
