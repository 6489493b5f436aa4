// Package enginetest is the conformance suite that every engine passes: [Run] holds an
// implementation of engine.Engine to what the interface promises and the rest of the system builds
// on. It runs against real engines with a model of random weights as well as against fakes, so it
// never looks at what the text says, only at what must hold for any text.
//
// Greedy texts are compared like with like: each pass computes the same prompts in the same order
// from an empty cache, because a prompt that was partly cached is computed in another batch shape,
// which may change the last digits and with them a token.
package enginetest

import (
	"context"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem/internal/engine"
	"tandem/jobs"
)

// Ability is something that not every engine or model can show.
type Ability string

// The abilities that a [Subject] may lack, if it says why.
const (
	Thinking     Ability = "thinking"      // keep a model's reasoning apart from its answer
	MissingModel Ability = "missing model" // notice that it does not have the model
	CacheCounts  Ability = "cache counts"  // say how much of a prompt was cached
	States       Ability = "states"        // move KV states
	Formats      Ability = "formats"       // hold an answer to a JSON schema
	Tools        Ability = "tools"         // have a model call functions
	Images       Ability = "images"        // have a model see
	Embeddings   Ability = "embeddings"    // make embeddings
	Raw          Ability = "raw"           // give a model a prompt without its chat template
	Logprobs     Ability = "logprobs"      // say how likely tokens are
)

// Subject is an engine under test and what the suite needs to know about it. The suite closes all
// engines.
type Subject struct {
	Engine engine.Engine // computes at least 1,024 tokens of context
	Slots  int           // requests it computes at once

	// Forget empties the engine's prompt cache. Nil says that the engine caches only the last
	// prompt of each slot, and that the suite may compute something else instead.
	Forget func(ctx context.Context) error

	Thinker     engine.Engine // the same, with a model that can think
	Seer        engine.Engine // the same, with a model that sees
	Caller      engine.Engine // the same, with a model that answers every prompt with a call of add with 2 and 3, if it is told of it
	Embedder    engine.Engine // the same, with a model that makes embeddings
	Missing     engine.Engine // the same, for a model that its server does not have
	Unreachable engine.Engine // the same, with nobody listening at its address

	// Peer is the same on another machine: states move from Engine to Peer.
	Peer       engine.Engine
	Window     int // of a sliding-window model, in tokens: see Pair
	LineTokens int // see Pair

	Cannot map[Ability]string // reasons; without Thinker, Missing or Peer the ability must be listed
}

// suite is one run.
type suite struct {
	Subject
	about engine.Description
}

// Run holds the subject to the contract of engine.Engine. Other tests must not run in parallel,
// because the last check looks for goroutines left behind.
func Run(t *testing.T, subject func(t testing.TB) Subject) {
	s := suite{Subject: subject(t)}
	before := goleak.IgnoreCurrent()
	if s.Slots < 1 {
		t.Fatalf("Subject.Slots is %d; want at least 1", s.Slots)
	}
	for ability, lacks := range map[Ability]bool{Thinking: s.Thinker == nil, MissingModel: s.Missing == nil, States: s.Peer == nil, Tools: s.Caller == nil, Images: s.Seer == nil, Embeddings: s.Embedder == nil} {
		if lacks && s.Cannot[ability] == "" {
			t.Fatalf("the subject brings no engine to show %q, and no reason in Cannot", ability)
		}
	}
	for ability, reason := range s.Cannot {
		t.Logf("not shown: %s: %s", ability, reason)
	}
	if !t.Run("describe", s.describe) {
		return // nothing else can work
	}
	t.Run("handover", s.handover)
	if s.Peer != nil {
		t.Run("state", func(t *testing.T) {
			Handover(t, Pair{Prefill: s.Engine, Decode: s.Peer, Slots: s.Slots, Window: s.Window, LineTokens: s.LineTokens})
		})
	}
	t.Run("counts", s.counts)
	t.Run("cached", s.cachedPrompt)
	t.Run("length", s.length)
	t.Run("stop", s.stopWords)
	t.Run("seed", s.seeds)
	t.Run("schema", s.schema)
	t.Run("roles", s.roles)
	t.Run("thinking", s.thinking)
	t.Run("tools", s.tools)
	t.Run("images", s.images)
	t.Run("embeddings", s.embeddings)
	t.Run("raw", s.raw)
	t.Run("logprobs", s.logprobs)
	t.Run("progress", s.progress)
	t.Run("concurrent", s.concurrent)
	t.Run("cancel", s.cancel)
	t.Run("emit", s.emitError)
	t.Run("overflow", s.overflow)
	t.Run("refuse", s.refuse)
	t.Run("missing", s.missing)
	t.Run("unreachable", s.unreachable)
	t.Run("close", func(t *testing.T) {
		for _, e := range []engine.Engine{s.Engine, s.Peer, s.Thinker, s.Caller, s.Seer, s.Embedder, s.Missing, s.Unreachable} {
			if e == nil {
				continue
			}
			if err := e.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		goleak.VerifyNone(t, before)
	})
}

// describe loads the model and asks what the engine is.
func (s *suite) describe(t *testing.T) {
	ctx := patient(t)
	if err := s.Engine.Load(ctx); err != nil {
		t.Fatalf("Load: %v", err)
	}
	d, err := s.Engine.Describe(ctx)
	if err != nil {
		t.Fatalf("Describe: %v", err)
	}
	if d.Engine == "" || d.Version == "" || d.ModelDigest == "" || len(d.Handover) == 0 {
		t.Errorf("Describe leaves out what identifies the engine: %+v", d)
	}
	if m, err := jobs.CanonicalModel(d.Model); err != nil || m != d.Model {
		t.Errorf("model %q is not canonical (%v)", d.Model, err)
	}
	if !d.Loaded {
		t.Error("the model is not loaded after Load")
	}
	if d.ContextTokens < 1024 {
		t.Errorf("the context is %d tokens; the suite needs 1,024", d.ContextTokens)
	}
	if err := s.Engine.Load(ctx); err != nil {
		t.Errorf("Load of a loaded model: %v", err)
	}
	s.about = d
}

// cold makes the next prompts find an empty cache, or always the same one.
func (s *suite) cold(t *testing.T) {
	t.Helper()
	if s.Forget != nil {
		if err := s.Forget(t.Context()); err != nil {
			t.Fatalf("Forget: %v", err)
		}
		return
	}
	for range s.Slots {
		s.generate(t, greedy("Z: nothing begins like this.", 1))
	}
}

// generate runs a request that must succeed, and checks what holds for every completion.
func (s *suite) generate(t *testing.T, req engine.Request) engine.Completion {
	t.Helper()
	return s.complete(t, req, s.Engine.Generate)
}

// complete calls one of the ways to generate.
func (s *suite) complete(t *testing.T, req engine.Request, call func(context.Context, engine.Request, engine.Emit) (engine.Completion, error)) engine.Completion {
	t.Helper()
	var got emitted
	start := time.Now()
	c, err := call(patient(t), req, got.emit)
	if err != nil {
		t.Fatalf("the engine failed: %v", err)
	}
	got.check(t, c)
	s.check(t, req, c, time.Since(start))
	return c
}

// patient bounds a call, so that an engine which hangs fails the test and not the whole run.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// emitted gathers what was emitted.
type emitted struct {
	text, thinking string
	calls          []jobs.ToolCall
	logprobs       []jobs.TokenLogprob
	mixed, empty   int
}

func (e *emitted) emit(piece jobs.Chunk) error {
	kinds := 0
	for _, there := range []bool{piece.Text != "", piece.Thinking != "", len(piece.ToolCalls) > 0} {
		if there {
			kinds++
		}
	}
	switch kinds {
	case 0:
		e.empty++
	case 1:
	default:
		e.mixed++
	}
	e.text += piece.Text
	e.thinking += piece.Thinking
	e.calls = append(e.calls, piece.ToolCalls...)
	e.logprobs = append(e.logprobs, piece.Logprobs...)
	return nil
}

func (e *emitted) check(t *testing.T, c engine.Completion) {
	t.Helper()
	if e.text != c.Text || e.thinking != c.Thinking {
		t.Errorf("the pieces do not add up to the completion:\n text %q, want %q\n thinking %q, want %q", e.text, c.Text, e.thinking, c.Thinking)
	}
	if !reflect.DeepEqual(e.calls, c.ToolCalls) {
		t.Errorf("the calls %s were emitted, and the completion has %s", e.calls, c.ToolCalls)
	}
	if n := len(e.logprobs); n > len(c.Logprobs) || n > 0 && !reflect.DeepEqual(e.logprobs, c.Logprobs[:n]) {
		t.Errorf("the logprobs %v were emitted, and the completion has %v", e.logprobs, c.Logprobs)
	}
	if e.mixed > 0 || e.empty > 0 {
		t.Errorf("%d pieces were text, thinking and calls at once, %d nothing", e.mixed, e.empty)
	}
}

// check holds for every completion.
func (s *suite) check(t *testing.T, req engine.Request, c engine.Completion, wall time.Duration) {
	t.Helper()
	if c.FinishReason != "stop" && c.FinishReason != "length" {
		t.Errorf("finish reason %q; want stop or length", c.FinishReason)
	}
	if c.PromptTokens < 1 || c.CachedTokens < 0 || c.ComputedTokens < 1 || c.CachedTokens+c.ComputedTokens != c.PromptTokens {
		t.Errorf("%d cached and %d computed do not make %d prompt tokens", c.CachedTokens, c.ComputedTokens, c.PromptTokens)
	}
	if n := req.Options.NumPredict; n != nil && c.GeneratedTokens > *n {
		t.Errorf("%d tokens generated; at most %d were asked for", c.GeneratedTokens, *n)
	}
	if c.GeneratedTokens < 1 || c.PrefillDuration <= 0 || c.DecodeDuration <= 0 {
		t.Errorf("nothing measured: %d tokens, prefill %v, decode %v", c.GeneratedTokens, c.PrefillDuration, c.DecodeDuration)
	}
	if c.Text+c.Thinking != "" && (c.FirstToken <= 0 || c.FirstToken > wall) {
		t.Errorf("first token after %v of %v", c.FirstToken, wall)
	}
}

func sameText(a, b engine.Completion) bool { return a.Text == b.Text && a.Thinking == b.Thinking }
