package workerhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/workerhttp"
	"tandem/jobs"
)

// echo is an engine that says what it was asked.
type echo struct {
	engine.Engine
	err     error
	started chan struct{} // told when a call begins, if not nil
	hold    chan struct{} // a call waits for it, if not nil
}

func (e *echo) begin(ctx context.Context) error {
	if e.started != nil {
		e.started <- struct{}{}
	}
	if e.hold != nil {
		select {
		case <-e.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return e.err
}

func (e *echo) Prefill(ctx context.Context, r engine.Request) (engine.Prefilled, error) {
	return engine.Prefilled{Kind: jobs.KindContext, Context: []int{1, 2, 3}, PromptTokens: 3, ComputedTokens: 3, Duration: 1e9}, e.begin(ctx)
}

func (e *echo) Generate(ctx context.Context, r engine.Request, _ engine.Emit) (engine.Completion, error) {
	n := -1
	if r.Options.NumPredict != nil {
		n = *r.Options.NumPredict
	}
	return engine.Completion{Text: fmt.Sprintf("%s|%d", r.Prompt, n), GeneratedTokens: 5, DecodeDuration: 1e9}, e.begin(ctx)
}

func (e *echo) Decode(ctx context.Context, r engine.Request, from engine.Prefilled, emit engine.Emit) (engine.Completion, error) {
	c, err := e.Generate(ctx, r, emit)
	c.Text += fmt.Sprintf("|%v", from.Context)
	return c, err
}

type rig struct {
	*httptest.Server
	slots  *engine.Slots
	health engine.Health
	ready  error
}

func start(t *testing.T, role jobs.Stage, e engine.Engine) *rig {
	r := &rig{
		slots:  engine.NewSlots(1),
		health: engine.Health{State: engine.Ready, Description: engine.Description{Engine: "ollama"}},
	}
	r.Server = httptest.NewServer(workerhttp.New(workerhttp.Config{
		Role: role, Model: "qwen3-coder:30b", Machine: "here", Engine: e, Slots: r.slots,
		Health: func() engine.Health { return r.health }, Ready: func() error { return r.ready },
		Metrics: http.NotFoundHandler(), Count: func(string, int) {}, Log: slog.New(slog.DiscardHandler),
	}))
	t.Cleanup(r.Close)
	return r
}

// call returns the status and the fields of the answer.
func (r *rig) call(t *testing.T, method, path, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return resp.StatusCode, map[string]any{"error": string(data)}
	}
	return resp.StatusCode, fields
}

func TestPrefillAnswersAsTheOriginal(t *testing.T) {
	r := start(t, protocol.RolePrefill, &echo{})
	code, got := r.call(t, "POST", "/prefill", `{"prompt": "def hello():"}`)
	if code != 200 || got["prompt"] != "def hello():" || got["model"] != "qwen3-coder:30b" || got["backend"] != "ollama" ||
		fmt.Sprint(got["context"]) != "[1 2 3]" || got["prefill_time"] == nil {
		t.Errorf("%d %v", code, got)
	}
	m := got["metrics"].(map[string]any)
	if m["prompt_eval_count"] != 3.0 || m["prompt_eval_duration_ns"] != 1e9 || m["prompt_tokens_per_sec"] != 3.0 {
		t.Errorf("metrics %v", m)
	}
	if code, _ := r.call(t, "POST", "/decode", `{"prompt": "x"}`); code != 404 {
		t.Errorf("a prefill worker answers /decode with %d, want 404", code)
	}
}

func TestDecodeAndGenerateAnswerAsTheOriginal(t *testing.T) {
	r := start(t, protocol.RoleDecode, &echo{})
	for _, c := range []struct{ path, body, field, text string }{
		{"/decode", `{"prompt": "def hello():", "max_new_tokens": 50}`, "generated_text", "def hello():|50"},
		{"/decode", `{"prompt": "p", "context": [7, 8], "temperature": 0}`, "generated_text", "p|-1|[7 8]"},
		{"/generate", `{"prompt": "def fibonacci(n):", "max_tokens": 100}`, "response", "def fibonacci(n):|100"},
	} {
		code, got := r.call(t, "POST", c.path, c.body)
		if code != 200 || got[c.field] != c.text || got["model"] != "qwen3-coder:30b" {
			t.Errorf("%s %s: %d %v", c.path, c.body, code, got)
		}
	}
	_, got := r.call(t, "POST", "/decode", `{"prompt": "p"}`)
	if got["tokens_generated"] != 5.0 || got["tokens_per_sec"] != 5.0 || got["decode_time"] == nil {
		t.Errorf("decode answer %v", got)
	}
}

func TestBadRequestsAreNamed(t *testing.T) {
	r := start(t, protocol.RoleDecode, &echo{})
	for body, want := range map[string]string{
		`{"prompt": ""}`:                                   "prompt is empty",
		`{"prompt": 3}`:                                    "prompt",
		`{"prompt": "a", "prompt": "b"}`:                   "duplicate key",
		`{"kv_cache": "x"}`:                                "prompt is missing",
		`{"prompt": "a", "max_new_tokens": 0}`:             "num_predict is 0",
		`{"prompt": "a", "temperature": -1}`:               "temperature is -1",
		"{\"prompt\": \"\xff\"}":                           "invalid UTF-8",
		`not json`:                                         "JSON",
		`{"prompt": "` + strings.Repeat("a", 5<<20) + `"}`: "5242880 bytes long; 4194304 are allowed",
	} {
		code, got := r.call(t, "POST", "/decode", body)
		if msg, _ := got["error"].(string); code != 400 || !strings.Contains(msg, want) {
			t.Errorf("%.40s: %d %q; want 400 and %q", body, code, msg, want)
		}
	}
}

func TestEngineErrorsHaveAStatus(t *testing.T) {
	for code, want := range map[jobs.Code]int{
		jobs.CodeEngineBusy: 503, jobs.CodeModelMissing: 404, jobs.CodeContextOverflow: 400, jobs.CodeEngineUnreachable: 502,
	} {
		r := start(t, protocol.RoleDecode, &echo{err: jobs.Errorf(code, "no")})
		if got, body := r.call(t, "POST", "/generate", `{"prompt": "a"}`); got != want || body["code"] != string(code) {
			t.Errorf("%s: %d %v, want %d", code, got, body, want)
		}
	}
}

func TestHealthAndReadiness(t *testing.T) {
	r := start(t, protocol.RoleDecode, &echo{})
	if code, got := r.call(t, "GET", "/health", ""); code != 200 || got["status"] != "healthy" || got["loaded"] != true || got["backend"] != "ollama" {
		t.Errorf("healthy: %d %v", code, got)
	}
	if code, _ := r.call(t, "GET", "/ready", ""); code != 200 {
		t.Errorf("ready: %d", code)
	}
	r.health = engine.Health{State: engine.Down, Problem: "gone; start it"}
	r.ready = errors.New("draining")
	if code, got := r.call(t, "GET", "/health", ""); code != 503 || got["status"] != "down" || got["loaded"] != false || got["problem"] != "gone; start it" {
		t.Errorf("down: %d %v", code, got)
	}
	if code, got := r.call(t, "GET", "/ready", ""); code != 503 || got["reason"] != "draining" {
		t.Errorf("not ready: %d %v", code, got)
	}
	r.ready = jobs.ErrDraining
	if code, got := r.call(t, "POST", "/generate", `{"prompt": "a"}`); code != 503 || got["code"] != string(jobs.CodeDraining) {
		t.Errorf("a call to a worker that drains: %d %v", code, got)
	}
}

func TestCallsShareTheSlots(t *testing.T) {
	e := &echo{started: make(chan struct{}), hold: make(chan struct{})}
	r := start(t, protocol.RoleDecode, e)
	answers := make(chan int)
	for range 2 {
		go func() {
			code, _ := r.call(t, "POST", "/generate", `{"prompt": "a"}`)
			answers <- code
		}()
	}
	<-e.started // one runs; the other must wait for its slot
	select {
	case <-e.started:
		t.Fatal("two calls run on one slot")
	default:
	}
	if r.slots.Busy() != 1 {
		t.Errorf("busy %d, want 1", r.slots.Busy())
	}
	e.hold <- struct{}{}
	if code := <-answers; code != 200 {
		t.Errorf("first call: %d", code)
	}
	<-e.started
	e.hold <- struct{}{}
	if code := <-answers; code != 200 {
		t.Errorf("second call: %d", code)
	}
}
