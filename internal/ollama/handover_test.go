package ollama_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
			if err != nil || p.Kind != jobs.KindContext || len(p.Context) != p.PromptTokens+1 || p.FirstToken == "" || p.Literal {
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
	for _, handover := range []string{ollama.HandoverAuto, ollama.HandoverContext} {
		fake := ollamatest.Start(t, ollamatest.Options{})
		e := newEngine(t, ollama.Options{URL: fake.URL(), Model: fake.Model(), Handover: handover})
		p, err := e.Prefill(t.Context(), greedy("tell me", 4))
		if err != nil {
			t.Fatal(err)
		}
		p.ModelDigest = strings.Repeat("0", 64)
		c, err := e.Decode(t.Context(), greedy("tell me", 4), p, discard)
		if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "digest") {
			t.Errorf("%s: warnings %q (%v), want one about the digest", handover, c.Warnings, err)
		}
		calls := fake.Generations()
		if strings.Contains(string(calls[len(calls)-1].Body), "context") {
			t.Errorf("%s: a context of another model was sent", handover)
		}
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

// TestLiteral: how a context is sent, and that the text is the same as without a hand-over.
func TestLiteral(t *testing.T) {
	fake := ollamatest.Start(t, ollamatest.Options{})
	e := newEngine(t, ollama.Options{URL: fake.URL(), Model: fake.Model(), Handover: ollama.HandoverContext})
	req := greedy("a prompt that stays at home", 6)
	req.System = "a system prompt too"
	want, err := e.Generate(t.Context(), req, discard)
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.Prefill(t.Context(), req)
	if err != nil || !p.Literal {
		t.Fatalf("Prefill: %+v, %v", p, err)
	}
	var emitted string
	c, err := e.Decode(t.Context(), req, p, func(text, _ string) error { emitted += text; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if c.Text != want.Text || emitted != want.Text || c.GeneratedTokens != 6 || c.PromptTokens != want.PromptTokens || len(c.Warnings) != 0 {
		t.Errorf("got %+v, emitted %q; want %+v", c, emitted, want)
	}
	calls := fake.Generations()
	var sent map[string]any
	if err := json.Unmarshal(calls[len(calls)-1].Body, &sent); err != nil {
		t.Fatal(err)
	}
	got := map[string]any{"prompt": sent["prompt"], "template": sent["template"], "system": sent["system"], "tokens": len(sent["context"].([]any)), "num_predict": sent["options"].(map[string]any)["num_predict"]}
	if d := cmp.Diff(map[string]any{"prompt": p.FirstToken, "template": "{{ .Prompt }}", "system": nil, "tokens": p.PromptTokens, "num_predict": 5.0}, got); d != "" {
		t.Errorf("sent (-want +got):\n%s", d)
	}

	p.PromptTokens++ // as if the context had been read as other tokens
	if c, err := e.Decode(t.Context(), req, p, discard); err != nil || len(c.Warnings) != 1 {
		t.Errorf("a context read as another number of tokens: warnings %q, %v", c.Warnings, err)
	}
}

// TestLiteralRefused: where a context would change the text, the original request is sent, and the
// result says why.
func TestLiteralRefused(t *testing.T) {
	with := func(change func(*engine.Request)) engine.Request {
		req := greedy("tell me", 8)
		change(&req)
		return req
	}
	for name, tt := range map[string]struct {
		req    engine.Request
		fake   ollamatest.Options
		reason string
	}{
		"chat": {with(func(r *engine.Request) {
			r.Prompt, r.Messages = "", []jobs.Message{{Role: jobs.RoleUser, Content: "u"}}
		}), ollamatest.Options{}, "chat"},
		"format": {with(func(r *engine.Request) { r.Format = json.RawMessage(`"json"`) }), ollamatest.Options{}, "format"},
		"stop":   {with(func(r *engine.Request) { r.Options.Stop = []string{"qqq"} }), ollamatest.Options{}, "stop words"},
		"think":  {with(func(r *engine.Request) { r.Think = jobs.ThinkOff }), ollamatest.Options{}, "think"},
		"one":    {with(func(r *engine.Request) { r.Options.NumPredict = new(1) }), ollamatest.Options{}, "no token is left"},
		"seed": {with(func(r *engine.Request) { r.Options.Temperature, r.Options.Seed = new(1.0), new(int64(1)) }),
			ollamatest.Options{}, "seed"},
		"thinking model": {with(func(*engine.Request) {}), ollamatest.Options{Thinks: true}, "parses"},
		"sentencepiece":  {with(func(*engine.Request) {}), ollamatest.Options{SentencePiece: true}, "byte-pair"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := ollamatest.Start(t, tt.fake)
			e := newEngine(t, ollama.Options{URL: fake.URL(), Model: fake.Model(), Handover: ollama.HandoverContext})
			p, err := e.Prefill(t.Context(), tt.req)
			if err != nil || p.Literal || !strings.Contains(p.Note, tt.reason) {
				t.Fatalf("Prefill: literal %t, note %q, %v; want a refusal about %q", p.Literal, p.Note, err, tt.reason)
			}
			c, err := e.Decode(t.Context(), tt.req, p, discard)
			if err != nil || len(c.Warnings) != 0 {
				t.Fatalf("Decode: %q, %v", c.Warnings, err)
			}
			calls := fake.Generations()
			if strings.Contains(string(calls[len(calls)-1].Body), `"context"`) {
				t.Errorf("the context was sent: %s", calls[len(calls)-1].Body)
			}
		})
	}
}
