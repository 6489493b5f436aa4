package ollama_test

import (
	"fmt"
	"strings"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/ollama"
	"tandem/internal/ollama/ollamatest"
	"tandem/jobs"
)

// TestFirstToken: Decode compares what it generates with the token that prefill saw.
func TestFirstToken(t *testing.T) {
	_, e := started(t, ollamatest.Options{})
	seeded := greedy("tell me", 4)
	seeded.Options.Temperature, seeded.Options.Seed = new(0.9), new(int64(5))
	random := greedy("tell me", 4)
	random.Options.Temperature = new(0.9)
	for _, tt := range []struct {
		name  string
		req   engine.Request
		first func(real string) string
		warn  bool
	}{
		{"greedy, equal", greedy("tell me", 4), func(s string) string { return s }, false},
		{"greedy, other", greedy("tell me", 4), func(string) string { return " secret" }, true},
		{"greedy, unknown", greedy("tell me", 4), func(string) string { return "" }, false},
		{"greedy, part of a character", greedy("tell me", 4), func(string) string { return "\uFFFD" }, false},
		{"seeded, equal", seeded, func(s string) string { return s }, false},
		{"seeded, other", seeded, func(string) string { return " secret" }, true},
		{"random", random, func(string) string { return " secret" }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := e.Prefill(t.Context(), tt.req)
			if err != nil || p.Kind != jobs.KindContext || len(p.Context) != p.PromptTokens+1 || p.FirstToken == "" {
				t.Fatalf("Prefill: %+v, %v", p, err)
			}
			p.FirstToken = tt.first(p.FirstToken)
			c, err := e.Decode(t.Context(), tt.req, p, discard)
			if err != nil || (len(c.Warnings) > 0) != tt.warn {
				t.Errorf("warnings %q (%v), want one: %t", c.Warnings, err, tt.warn)
			}
			if strings.Contains(fmt.Sprint(c.Warnings), "secret") {
				t.Errorf("a warning quotes the token: %q", c.Warnings)
			}
		})
	}
}

// TestOtherModel: the prefill machine had another model of that name.
func TestOtherModel(t *testing.T) {
	fake := ollamatest.Start(t, ollamatest.Options{})
	e := newEngine(t, ollama.Options{URL: fake.URL(), Model: fake.Model()})
	p, err := e.Prefill(t.Context(), greedy("tell me", 4))
	if err != nil {
		t.Fatal(err)
	}
	p.ModelDigest = strings.Repeat("0", 64)
	c, err := e.Decode(t.Context(), greedy("tell me", 4), p, discard)
	if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "digest") {
		t.Errorf("warnings %q (%v), want one about the digest", c.Warnings, err)
	}
	calls := fake.Generations()
	if strings.Contains(string(calls[len(calls)-1].Body), "context") {
		t.Error("a context was sent")
	}
}

// TestChatHandsOverNothing: Ollama's chat API returns no context.
func TestChatHandsOverNothing(t *testing.T) {
	_, e := started(t, ollamatest.Options{})
	req := greedy("", 4)
	req.Messages = []jobs.Message{{Role: jobs.RoleUser, Content: "hello"}}
	p, err := e.Prefill(t.Context(), req)
	if err != nil || p.Kind != jobs.KindNone || p.Context != nil || p.FirstToken == "" || p.Note == "" {
		t.Errorf("got %+v, %v; want kind none with the first token and a note", p, err)
	}
}
