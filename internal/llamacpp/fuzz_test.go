package llamacpp

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"tandem/internal/engine/enginetest"
	"tandem/jobs"
)

// scripted is a llama-server that answers as a real one, but for the paths of the test.
type scripted map[string]string

func (s scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	body, ok := s[r.URL.Path]
	if !ok {
		body = map[string]string{
			"/props":          `{"build_info":"b1","total_slots":1,"default_generation_settings":{"n_ctx":100}}`,
			"/lora-adapters":  `[]`,
			"/apply-template": `{"prompt":"abc"}`,
			"/tokenize":       `{"tokens":[1,2,3]}`,
			"/completion":     "data: {\"stop\":true,\"timings\":{\"cache_n\":0,\"prompt_n\":2}}\n\n",
		}[r.URL.Path]
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func (s scripted) engine(t testing.TB) *Engine {
	t.Helper()
	e, err := New(Options{URL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// What the chat streams is the text, once and in order: what was emitted while it came equals what is returned at
// the end, and an answer without a reason for its end is none.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"timings\":{\"cache_n\":2,\"prompt_n\":1,\"predicted_n\":1}}\n\ndata: [DONE]\n\n",
		"data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}},{\"delta\":{\"content\":\"b\"}}]}\n\ndata: {\"stop\":true,\"stop_type\":\"limit\"}\n\n",
		"data: {\"choices\":[{\"finish_reason\":\"length\"}],\"timings\":{\"prompt_ms\":-1e308,\"cache_n\":9223372036854775807,\"prompt_n\":9223372036854775807}}\n\ndata: [DONE]\n\n",
		"data: {\"error\":{\"code\":500,\"message\":\"Failed to parse input at \\u001b[31m\"}}\n\n", "data: [DONE]\n\n", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		e := scripted{"/v1/chat/completions": body}.engine(t)
		var text, thinking strings.Builder
		c, err := e.Generate(t.Context(), ask("x", 5), func(piece jobs.Chunk) error {
			said, thought := piece.Text, piece.Thinking
			text.WriteString(said)
			thinking.WriteString(thought)
			return nil
		})
		if err != nil {
			enginetest.CheckError(t, err)
			return
		}
		if c.Text != text.String() || c.Thinking != thinking.String() {
			t.Errorf("emitted %q and %q, returned %q and %q", &text, &thinking, c.Text, c.Thinking)
		}
		if c.FinishReason != "stop" && c.FinishReason != "length" || c.PromptTokens != 3 || c.CachedTokens < 0 || c.CachedTokens > 3 {
			t.Errorf("believed %+v", c)
		}
	})
}

// How a server renders and cuts the prompt: what comes of it fits a slot, or is refused.
func FuzzTokenise(f *testing.F) {
	for _, s := range [][2]string{
		{`{"prompt":"abc"}`, `{"tokens":[1,2,3]}`}, {`{"prompt":""}`, `{"tokens":[]}`}, {`{"prompt":"\ud800"}`, `{"tokens":[2147483648]}`},
		{`[]`, `{"tokens":null}`}, {`{"prompt":1}`, `{"tokens":[1.5]}`}, {``, `{"tokens":[` + strings.Repeat("1,", 200) + `1]}`},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, rendered, tokens string) {
		e := scripted{"/apply-template": rendered, "/tokenize": tokens}.engine(t)
		n, err := e.Estimate(t.Context(), ask("x", 5))
		if err != nil {
			enginetest.CheckError(t, err)
		} else if n.PromptTokens < 1 || n.PromptTokens >= 100 || n.CachedTokens >= n.PromptTokens {
			t.Errorf("believed %+v", n)
		}
	})
}
