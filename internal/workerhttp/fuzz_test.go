package workerhttp_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/workerhttp"
	"tandem/jobs"
)

// checked is an engine that looks at what it is asked, as no engine may be asked for what no job may ask.
type checked struct {
	engine.Engine
	t     *testing.T
	calls int
}

func (c *checked) check(r engine.Request) {
	c.calls++
	o := r.Options
	switch {
	case strings.TrimSpace(r.Prompt) == "" || len(r.Prompt) > jobs.MaxBody || !utf8.ValidString(r.Prompt):
		c.t.Errorf("the engine is asked with a prompt of %d bytes", len(r.Prompt))
	case o.NumPredict != nil && (*o.NumPredict < 1 || *o.NumPredict > jobs.MaxTokens):
		c.t.Errorf("the engine is asked for %d tokens", *o.NumPredict)
	case o.Temperature != nil && !(*o.Temperature >= 0 && *o.Temperature <= 10):
		c.t.Errorf("the engine is asked with temperature %v", *o.Temperature)
	}
}

func (c *checked) Prefill(_ context.Context, r engine.Request) (engine.Prefilled, error) {
	c.check(r)
	return engine.Prefilled{}, nil
}

func (c *checked) Generate(_ context.Context, r engine.Request, _ engine.Emit) (engine.Completion, error) {
	c.check(r)
	return engine.Completion{Text: "x"}, nil
}

func (c *checked) Decode(ctx context.Context, r engine.Request, _ engine.Prefilled, emit engine.Emit) (engine.Completion, error) {
	return c.Generate(ctx, r, emit)
}

// ask sends a body to a handler of its own and returns the status, the answer's error, and how often the engine was asked.
func ask(t *testing.T, role jobs.Stage, path string, body []byte) (status int, said string, calls int) {
	t.Helper()
	e := &checked{t: t}
	h := workerhttp.New(workerhttp.Config{
		Role: role, Model: "m:latest", Engine: e, Slots: engine.NewSlots(1),
		Health: func() engine.Health { return engine.Health{State: engine.Ready} }, Ready: func() error { return nil },
		Metrics: http.NotFoundHandler(), Count: func(string, int) {}, Log: slog.New(slog.DiscardHandler),
	})
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(string(body)))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(rec, r)
	var answer struct {
		Error string
		Code  jobs.Code
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil {
		t.Fatalf("the answer is no JSON: %v", err)
	}
	if rec.Code != http.StatusOK && (rec.Code != http.StatusBadRequest || answer.Code != jobs.CodeInvalid) {
		t.Errorf("status %d, code %s: %s", rec.Code, answer.Code, answer.Error)
	}
	return rec.Code, answer.Error, e.calls
}

// Whatever is sent: the engine is asked once for what a job may ask for, or the sender is told in a few printable
// words what is wrong, and the engine is not asked.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		`{"prompt":"p"}`, `{"prompt":"p","max_new_tokens":5,"temperature":0.5,"context":[1,2]}`, `{"prompt":"p","max_tokens":0}`,
		`{"prompt":"p","prompt":"q"}`, `{"kv_cache":"x"}`, `{"prompt":1e400}`, `{"prompt":"p","temperature":1e400}`, `{"prompt":"p","context":[9223372036854775808]}`,
		`{"prompt":"p","input_ids":"\u202e"}`, `[]`, `null`, "\xff", `{"Prompt":"p"}`, strings.Repeat("[", 100),
	} {
		for _, path := range []byte{0, 1, 2} {
			f.Add(path, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, path byte, body []byte) {
		role, where := protocol.RoleDecode, "/generate"
		switch path % 3 {
		case 0:
			role, where = protocol.RolePrefill, "/prefill"
		case 1:
			where = "/decode"
		}
		status, said, calls := ask(t, role, where, body)
		if (status == http.StatusOK) != (calls == 1) || calls > 1 {
			t.Errorf("status %d, and the engine was asked %d times", status, calls)
		}
		if len(said) > 600 || strings.ContainsFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("the refusal has %d bytes: %.200q", len(said), said)
		}
	})
}
