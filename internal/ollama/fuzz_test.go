package ollama

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/engine/enginetest"
	"tandem/jobs"
)

// scripted is an Ollama that answers each path with a fixed body and status 200, unless status is set.
type scripted struct {
	bodies map[string]string
	status int
}

func (s scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	status := s.status
	if status == 0 {
		status = http.StatusOK
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(s.bodies[r.URL.Path]))}, nil
}

func (s scripted) engine(t testing.TB) *Engine {
	t.Helper()
	e, err := New(Options{URL: "http://127.0.0.1:1", Model: "m", HTTP: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

const (
	tags = `{"models":[{"model":"m:latest","digest":"d1"}]}`
	ps   = `{"models":[{"model":"m:latest","digest":"d1","context_length":4096}]}`
	show = `{"modelfile":"FROM ` + blob + `","capabilities":["thinking"],"details":{"format":"gguf"},"model_info":{"tokenizer.ggml.model":"gpt2","tokenizer.ggml.bos_token_id":1e300}}`
)

// What an Ollama says of itself (/api/version, /api/tags, /api/ps): what is believed is within bounds.
func FuzzDescribe(f *testing.F) {
	f.Add(`{"version":"0.34.0"}`, tags, ps)
	f.Add(`{"version":"`+strings.Repeat("v", 2000)+`"}`, tags, ps)
	f.Add(`{"version":1}`, `{"models":null}`, `[]`)
	f.Add(`{"version":"1"}`, strings.Replace(tags, "d1", strings.Repeat("d", 2000), 1), strings.Replace(ps, "4096", "-5", 1))
	f.Add(`{"version":"1"}`, tags, strings.Replace(ps, "4096", "1e400", 1))
	f.Fuzz(func(t *testing.T, version, tags, ps string) {
		d, err := scripted{bodies: map[string]string{"/api/version": version, "/api/tags": tags, "/api/ps": ps}}.engine(t).Describe(t.Context())
		if err != nil {
			enginetest.CheckError(t, err)
			return
		}
		if d.Version == "" || len(d.Version) > maxMark || len(d.ModelDigest) > maxMark || d.ContextTokens < 1 || d.ContextTokens > DefaultNumCtx {
			t.Errorf("believed %+v", d)
		}
	})
}

// What it says of the model (/api/show): a file is believed only if its name is a digest.
func FuzzShow(f *testing.F) {
	f.Add(show)
	f.Add(`{"modelfile":"FROM ../../etc/passwd","details":{"format":"safetensors"}}`)
	f.Add(`{"model_info":{"tokenizer.ggml.bos_token_id":"x","tokenizer.ggml.add_bos_token":1}}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, show string) {
		e := scripted{bodies: map[string]string{"/api/version": `{"version":"1"}`, "/api/tags": tags, "/api/ps": ps, "/api/show": show}}.engine(t)
		m, err := e.about(t.Context())
		if err != nil {
			return
		}
		if m.stateless == "" && (len(m.sha256) != 64 || !strings.HasSuffix(m.file, "sha256-"+m.sha256)) {
			t.Errorf("believed the file %q with the digest %q", m.file, m.sha256)
		}
	})
}

// However an Ollama refuses, before the answer or in a line of it, the job is told why, without the prompt.
func FuzzRefusal(f *testing.F) {
	for _, body := range []string{
		`{"error":"model 'm' not found"}`, `{"error":"{\"error\":{\"code\":400,\"message\":\"m\",\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":9,\"n_ctx\":5}}"}`,
		`{"error":"\u001b[31mred\u202e ` + strings.Repeat("é", 300) + `"}`, `{"error":"you said: the secret of student seven"}`, `{"error":{"message":"x"}}`, `<html>`, ``,
	} {
		for _, status := range []int{200, 302, 400, 404, 429, 500, 503} {
			f.Add(status, body)
		}
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		req := engine.Request{Prompt: "the secret of student seven"}
		_, err := scripted{bodies: map[string]string{pathGenerate: body}, status: status}.engine(t).Generate(t.Context(), req, func(jobs.Chunk) error { return nil })
		if err == nil {
			return
		}
		enginetest.CheckError(t, err)
		if strings.Contains(err.Error(), "secret of student") {
			t.Errorf("the error quotes the prompt: %v", err)
		}
	})
}
