package submitter

import (
	"context"
	"strings"
	"sync"
	"time"

	"tandem/internal/engine"
	"tandem/internal/jobs"
)

// echo is an engine for scripts. It answers with the prompt, and a word of the prompt makes it fail
// in a known way.
type echo struct {
	holding chan struct{} // one for each job that is held
	gate    chan struct{}
	open    func()
}

// The words.
const (
	wordHold    = "HOLD"    // wait until the script releases the job
	wordRefuse  = "REFUSE"  // a permanent error
	wordPrefill = "PREFILL" // prefill fails, so that it becomes a fallback
	wordEscape  = "ESCAPE"  // answer with a terminal escape sequence
)

func newEcho() *echo {
	e := &echo{holding: make(chan struct{}, 100), gate: make(chan struct{})}
	e.open = sync.OnceFunc(func() { close(e.gate) })
	return e
}

func (e *echo) Describe(context.Context) (engine.Description, error) {
	return engine.Description{
		Engine: "echo", Version: "1", ModelDigest: "sha256:0123456789abcdef", Loaded: true, Slots: 1, ContextTokens: 4096,
		Handover: []jobs.Kind{jobs.KindNone},
	}, nil
}

func (e *echo) Load(context.Context) error { return nil }
func (e *echo) Close() error               { return nil }

func (e *echo) Prefill(_ context.Context, req engine.Request) (engine.Prefilled, error) {
	if strings.Contains(req.Prompt, wordPrefill) {
		return engine.Prefilled{}, jobs.Errorf(jobs.CodeEngineFailed, "the engine failed")
	}
	n := len(strings.Fields(req.Prompt))
	return engine.Prefilled{Kind: jobs.KindNone, PromptTokens: n, ComputedTokens: n, Duration: 10 * time.Millisecond}, nil
}

func (e *echo) Decode(ctx context.Context, req engine.Request, _ engine.Prefilled, emit engine.Emit) (engine.Completion, error) {
	return e.Generate(ctx, req, emit)
}

func (e *echo) Generate(ctx context.Context, req engine.Request, emit engine.Emit) (engine.Completion, error) {
	text := "echo: " + req.Prompt
	switch {
	case strings.Contains(req.Prompt, wordRefuse):
		return engine.Completion{}, jobs.Errorf(jobs.CodeEngineRefused, "the engine refuses")
	case strings.Contains(req.Prompt, wordEscape):
		text = "\x1b[2J" + text
	case strings.Contains(req.Prompt, wordHold):
		e.holding <- struct{}{}
		select {
		case <-e.gate:
		case <-ctx.Done():
			return engine.Completion{}, context.Cause(ctx)
		}
	}
	words := strings.SplitAfter(text, " ")
	for _, w := range words {
		if err := emit(w, ""); err != nil {
			return engine.Completion{}, err
		}
	}
	n := len(strings.Fields(req.Prompt))
	return engine.Completion{
		Text: text, FinishReason: "stop", PromptTokens: n, ComputedTokens: n, GeneratedTokens: len(words),
		PrefillDuration: 10 * time.Millisecond, DecodeDuration: 20 * time.Millisecond, FirstToken: 12 * time.Millisecond,
	}, nil
}
