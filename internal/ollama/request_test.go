package ollama_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/engine"
	"tandem/internal/ollama"
	"tandem/internal/ollama/ollamatest"
	"tandem/jobs"
)

// TestRequests: what is sent, field by field.
func TestRequests(t *testing.T) {
	const common = `"model": "fake:latest", "keep_alive": "-1s", "truncate": false, "shift": false`
	fake := ollamatest.Start(t, ollamatest.Options{Thinks: true})
	e := newEngine(t, ollama.Options{URL: fake.URL(), Model: "fake"})
	cannot := ollamatest.Start(t, ollamatest.Options{})
	simple := newEngine(t, ollama.Options{URL: cannot.URL(), Model: "fake"})
	all := engine.Request{
		System: "be brief", Prompt: "why?", Format: json.RawMessage(`{"type": "string"}`), Think: jobs.ThinkHigh,
		Options: jobs.Options{
			Temperature: new(0.5), Seed: new(int64(3)), NumPredict: new(9), NumCtx: new(100), TopP: new(0.9), TopK: new(40), MinP: new(0.1),
			RepeatPenalty: new(1.1), Stop: []string{"end"}, Extra: jobs.Extra{"num_gpu": json.RawMessage(`1`)},
		},
	}
	for _, tt := range []struct {
		name string
		do   func() error
		path string
		want string
	}{
		{"load", func() error { return e.Load(t.Context()) }, "/api/generate",
			`{` + common + `, "options": {"num_ctx": 4096, "num_thread": 1}}`},
		{"format", func() error { _, err := e.Generate(t.Context(), all, discard); return err }, "/api/chat",
			`{` + common + `, "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "why?"}], "format": {"type": "string"}, "think": "high", "options": {"num_ctx": 4096, "num_thread": 1,
				"temperature": 0.5, "seed": 3, "num_predict": 9, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "repeat_penalty": 1.1, "stop": ["end"]}}`},
		{"prefill", func() error {
			_, err := e.Prefill(t.Context(), engine.Request{Prompt: "a < b && c", Options: jobs.Options{NumPredict: new(50)}})
			return err
		}, "/api/generate", `{` + common + `, "prompt": "a < b && c", "options": {"num_ctx": 4096, "num_thread": 1, "num_predict": 1}}`},
		{"chat", func() error {
			_, err := e.Generate(t.Context(), engine.Request{Messages: []jobs.Message{{Role: jobs.RoleSystem, Content: "s"}, {Role: jobs.RoleUser, Content: "u"}}, Think: jobs.ThinkOff}, discard)
			return err
		}, "/api/chat", `{` + common + `, "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], "think": false, "options": {"num_ctx": 4096, "num_thread": 1}}`},
		{"how hard to think, of a model that cannot", func() error {
			_, err := simple.Generate(t.Context(), engine.Request{Prompt: "p", Think: jobs.ThinkLow}, discard)
			return err
		}, "/api/generate", `{` + common + `, "prompt": "p", "options": {"num_ctx": 4096, "num_thread": 1}}`},
		{"think", func() error {
			_, err := e.Generate(t.Context(), engine.Request{Prompt: "p", Think: jobs.ThinkOn}, discard)
			return err
		}, "/api/generate", `{` + common + `, "prompt": "p", "think": true, "options": {"num_ctx": 4096, "num_thread": 1}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.do(); err != nil {
				t.Fatal(err)
			}
			requests := fake.Requests()
			if strings.HasSuffix(tt.name, "cannot") {
				requests = cannot.Requests()
			}
			sent := requests[len(requests)-1]
			if sent.Path != tt.path {
				t.Errorf("sent to %s, want %s", sent.Path, tt.path)
			}
			var got, want any
			if json.Unmarshal(sent.Body, &got) != nil || json.Unmarshal([]byte(tt.want), &want) != nil {
				t.Fatalf("no JSON: %s\n%s", sent.Body, tt.want)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("request (-want +sent):\n%s", d)
			}
		})
	}
	if fake.Loads() != 1 {
		t.Errorf("the runner was started %d times; options that restart it must not vary", fake.Loads())
	}
}

// TestNotSent: requests that Ollama would misunderstand do not reach it.
func TestNotSent(t *testing.T) {
	fake, e := started(t, ollamatest.Options{})
	wide := greedy("x", 1)
	wide.Options.NumCtx = new(4097)
	for _, tt := range []struct {
		req     engine.Request
		code    jobs.Code
		message string
	}{
		{greedy("", 5), jobs.CodeInvalid, "prompt is empty"},
		{greedy("x", 0), jobs.CodeInvalid, "num_predict is 0"},
		{greedy("x", -1), jobs.CodeInvalid, "num_predict is -1"},
		{wide, jobs.CodeContextOverflow, "4097 and this worker's context is 4096"},
	} {
		_, err := e.Generate(t.Context(), tt.req, discard)
		if jobs.CodeOf(err) != tt.code || !strings.Contains(fmt.Sprint(err), tt.message) {
			t.Errorf("got %v (%s); want %s about %q", err, jobs.CodeOf(err), tt.code, tt.message)
		}
	}
	if n := len(fake.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestKeepAlive(t *testing.T) {
	fake := ollamatest.Start(t, ollamatest.Options{})
	e := newEngine(t, ollama.Options{URL: fake.URL(), Model: fake.Model(), KeepAlive: 90 * time.Second})
	if err := e.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := fake.Requests()
	if body := string(sent[len(sent)-1].Body); !strings.Contains(body, `"keep_alive":"1m30s"`) {
		t.Errorf("sent %s", body)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]ollama.Options{
		"no URL":       {Model: "m"},
		"no scheme":    {URL: "127.0.0.1:11434", Model: "m"},
		"other scheme": {URL: "unix:///run/ollama", Model: "m"},
		"no model":     {URL: closed},
		"num_ctx":      {URL: closed, Model: "m", NumCtx: -1},
		"num_thread":   {URL: closed, Model: "m", NumThread: -1},
	} {
		if _, err := ollama.New(o); jobs.CodeOf(err) != jobs.CodeInvalid {
			t.Errorf("%s: New gave %v, want an error of code %s", name, err, jobs.CodeInvalid)
		}
	}
}
