package enginetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"tandem/internal/engine"
	"tandem/jobs"
)

// embeddings: each text has a vector of its own, in the order of the texts, and a model that has none says so by name.
func (s *suite) embeddings(t *testing.T) {
	texts := func(list ...string) engine.Request {
		return engine.Request{Embed: &jobs.Embed{Input: list}, Progress: func() {}}
	}
	refused := func(what string, err error, code jobs.Code) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error, want %s", what, code)
		} else if CheckError(t, err); jobs.CodeOf(err) != code || strings.Contains(err.Error(), "strawberries") {
			t.Errorf("%s: %v (%s), want %s", what, err, jobs.CodeOf(err), code)
		}
	}
	if e, can := s.Engine.(engine.Embedder); can {
		_, err := e.Embed(patient(t), texts("the price of strawberries"))
		refused("a model that generates text", err, jobs.CodeEngineRefused)
	}
	if s.Embedder == nil {
		return // Run has said why
	}
	if err := s.Embedder.Load(patient(t)); err != nil {
		t.Fatal(err)
	}
	d, err := s.Embedder.Describe(patient(t))
	if err != nil || !d.Loaded || d.Capabilities != nil && (!slices.Contains(d.Capabilities, jobs.CanEmbed) || d.Generates()) {
		t.Errorf("the model is described as %+v, want it loaded, and able to make embeddings and no text; %v", d, err)
	}
	e := s.Embedder.(engine.Embedder)
	embed := func(req engine.Request) [][]float32 {
		t.Helper()
		c, err := e.Embed(patient(t), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Embeddings) != len(req.Embed.Input) || c.PromptTokens < len(req.Embed.Input) || c.PrefillDuration <= 0 || c.GeneratedTokens != 0 || c.FinishReason != "stop" {
			t.Errorf("%d vectors of %d tokens in %v, %d generated, finish reason %q; want one of each text", len(c.Embeddings), c.PromptTokens, c.PrefillDuration, c.GeneratedTokens, c.FinishReason)
		}
		for _, v := range c.Embeddings {
			if n := cosine(v, v); math.Abs(n-1) > 1e-3 {
				t.Errorf("a vector of length %v, want 1", math.Sqrt(n))
			}
		}
		return c.Embeddings
	}
	const fruit, sea = "the price of strawberries", "ships in the night"
	v := embed(texts(fruit, sea, fruit))
	if alike, unlike := cosine(v[0], v[2]), cosine(v[0], v[1]); alike < 0.999 || unlike > 0.99 {
		t.Errorf("equal texts are alike by %v, others by %v", alike, unlike)
	}
	if w := embed(texts(sea, fruit)); cosine(w[0], v[1]) < 0.999 || cosine(w[1], v[0]) < 0.999 {
		t.Error("the vectors do not follow the order of the texts")
	}
	few := texts(fruit)
	few.Embed.Dimensions = 8
	if c, err := e.Embed(patient(t), few); err != nil {
		refused("fewer dimensions", err, jobs.CodeEngineRefused)
	} else if len(c.Embeddings[0]) != 8 {
		t.Errorf("the vector has %d numbers, want 8", len(c.Embeddings[0]))
	}
	long := texts(strings.Repeat("strawberries and ", 8*1024))
	_, err = e.Embed(patient(t), long)
	refused("a long text", err, jobs.CodeContextOverflow)
	long.Embed.Truncate = true
	if _, err = e.Embed(patient(t), long); err != nil {
		refused("a long text to be cut off", err, jobs.CodeContextOverflow)
	}
	if d.Capabilities != nil { // else the engine does not say, and a model may do both
		_, err = s.Embedder.Generate(patient(t), greedy("strawberries", 4), discard)
		refused("text of a model that makes embeddings", err, jobs.CodeEngineRefused)
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := e.Embed(ctx, texts(fruit)); !errors.Is(err, gone) {
		t.Errorf("cancelled: %v, want the cause", err)
	}
}

// cosine of vectors of length 1; of one with itself, the square of its length.
func cosine(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}
