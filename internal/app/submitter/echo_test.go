package submitter

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tandem/internal/engine"
	"tandem/jobs"
)

// echo is an engine for scripts. It answers with the prompt, or by the schema if there is one, and a word
// of the prompt makes it fail in a known way.
type echo struct {
	holding chan struct{} // one for each job that is held
	gate    chan struct{}
	open    func()
	fixed   atomic.Bool // the words say nothing
}

// The words.
const (
	wordHold    = "HOLD"    // wait until the script releases the job
	wordRefuse  = "REFUSE"  // a permanent error
	wordPrefill = "PREFILL" // prefill fails, so that it becomes a fallback
	wordEscape  = "ESCAPE"  // answer with a terminal escape sequence
	wordMumble  = "MUMBLE"  // answer without regard to the schema
)

func newEcho() *echo {
	e := &echo{holding: make(chan struct{}, 100), gate: make(chan struct{})}
	e.open = sync.OnceFunc(func() { close(e.gate) })
	return e
}

func (e *echo) Describe(context.Context) (engine.Description, error) {
	return engine.Description{
		Engine: "echo", Version: "1", ModelDigest: "sha256:0123456789abcdef", Loaded: true, Slots: 1, ContextTokens: 16384,
		Handover: []jobs.Kind{jobs.KindNone},
	}, nil
}

func (e *echo) Load(context.Context) error { return nil }
func (e *echo) Close() error               { return nil }

func (e *echo) Prefill(_ context.Context, req engine.Request) (engine.Prefilled, error) {
	if e.heeds(req, wordPrefill) {
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
	if len(req.Format) > 0 && !e.heeds(req, wordMumble) {
		text = bySchema(req.Format)
	}
	switch {
	case e.heeds(req, wordRefuse):
		return engine.Completion{}, jobs.Errorf(jobs.CodeEngineRefused, "the engine refuses")
	case e.heeds(req, wordEscape):
		text = "\x1b[2J" + text
	case e.heeds(req, wordHold):
		e.holding <- struct{}{}
		select {
		case <-e.gate:
		case <-ctx.Done():
			return engine.Completion{}, context.Cause(ctx)
		}
	}
	words := strings.SplitAfter(text, " ")
	for _, w := range words {
		if err := emit(jobs.Chunk{Text: w}); err != nil {
			return engine.Completion{}, err
		}
	}
	n := len(strings.Fields(req.Prompt))
	return engine.Completion{
		Text: text, FinishReason: "stop", PromptTokens: n, ComputedTokens: n, GeneratedTokens: len(words),
		PrefillDuration: 10 * time.Millisecond, DecodeDuration: 20 * time.Millisecond, FirstToken: 12 * time.Millisecond,
	}, nil
}

// heeds reports whether a word is in the prompt, unless words say nothing any more.
func (e *echo) heeds(req engine.Request, word string) bool {
	return !e.fixed.Load() && strings.Contains(req.Prompt, word)
}

// bySchema is an answer in JSON: every property, the first word of an enumeration, empty lists.
func bySchema(format json.RawMessage) string {
	var schema map[string]any
	if err := json.Unmarshal(format, &schema); err != nil {
		return "the schema is no JSON: " + err.Error()
	}
	text, err := json.Marshal(instance(schema))
	if err != nil {
		return "there is no answer: " + err.Error()
	}
	return string(text)
}

func instance(schema map[string]any) any {
	if words, _ := schema["enum"].([]any); len(words) > 0 {
		return words[0]
	}
	switch schema["type"] {
	case "object":
		all := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		for key, value := range properties {
			property, _ := value.(map[string]any)
			all[key] = instance(property)
		}
		return all
	case "array":
		return []any{}
	}
	return "as asked"
}
