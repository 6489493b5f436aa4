package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/internal/app"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// post sends a request as curl would and returns the fields of the answer.
func post(ctx context.Context, url, body string) (map[string]any, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return fields(req)
}

func get(ctx context.Context, url string) (map[string]any, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return nil, err
	}
	return fields(req)
}

func fields(req *http.Request) (map[string]any, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var f map[string]any
	if err := json.Unmarshal(data, &f); err != nil {
		return map[string]any{"text": string(data)}, nil
	}
	if resp.StatusCode != http.StatusOK {
		return f, fmt.Errorf("%s: %v", resp.Status, f["error"])
	}
	return f, nil
}

// TestCurlLinesOfTheOriginal runs the calls of the original installation's documents.
func TestCurlLinesOfTheOriginal(t *testing.T) {
	s, p, d := newSystem(t), fake(t), fake(t)
	prefill, decode := s.worker(protocol.RolePrefill, p.URL()), s.worker(protocol.RoleDecode, d.URL())
	a, err := post(t.Context(), "http://"+prefill.Addr()+"/prefill", `{"prompt": "def hello():"}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"context", "prompt", "prefill_time", "model", "backend", "metrics"} {
		if a[field] == nil {
			t.Errorf("/prefill answers without %s: %v", field, a)
		}
	}
	handed, err := json.Marshal(map[string]any{"prompt": a["prompt"], "context": a["context"], "max_new_tokens": 50, "temperature": 0})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"prompt": "def hello():", "max_new_tokens": 50}`, string(handed)} {
		a, err := post(t.Context(), "http://"+decode.Addr()+"/decode", body)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := a["generated_text"].(string); text == "" || strings.Contains(text, "def hello") || a["tokens_generated"] == 0.0 {
			t.Errorf("/decode answers %v", a)
		}
	}
	a, err = post(t.Context(), "http://"+decode.Addr()+"/generate", `{"prompt": "def fibonacci(n):", "max_tokens": 100}`)
	if err != nil || a["response"] == "" || a["generation_time"] == nil {
		t.Errorf("/generate answers %v, %v", a, err)
	}
	for _, w := range []*running{prefill, decode} {
		h, err := get(t.Context(), "http://"+w.Addr()+"/health")
		if err != nil || h["status"] != "healthy" || h["model"] != model || h["loaded"] != true || h["backend"] != "ollama" {
			t.Errorf("/health answers %v, %v", h, err)
		}
		if r, err := get(t.Context(), "http://"+w.Addr()+"/ready"); err != nil || r["ready"] != true {
			t.Errorf("/ready answers %v, %v", r, err)
		}
	}
	s.await(s.submit(s.job("counted")))
	for w, want := range map[*running]string{
		prefill: `tandem_deliveries_total{delivery="first",model="qwen3-coder:30b",outcome="hop",role="prefill",stage="prefill"} 1`,
		decode:  `tandem_deliveries_total{delivery="first",model="qwen3-coder:30b",outcome="succeeded",role="decode",stage="decode"} 1`,
	} {
		m, err := get(t.Context(), "http://"+w.Addr()+"/metrics")
		if text, _ := m["text"].(string); err != nil || !strings.Contains(text, want) || strings.Contains(text, "counted") || !strings.Contains(text, "tandem_queue_waiting{") { // which takes rights
			t.Errorf("/metrics lacks %s or the queue, or holds a prompt: %v", want, err)
		}
	}
}

// ask sends a request with another Host, which may be empty, and headers.
func ask(t *testing.T, method, url, host string, header map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(`{"prompt": "x <- 1", "max_tokens": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// A web page can neither run the model nor read what a worker says of itself, under whatever name it has the address.
func TestWebPagesReachNoWorker(t *testing.T) {
	s, d := newSystem(t), fake(t)
	w := s.worker(protocol.RoleDecode, d.URL(), func(f *app.WorkerFlags) { f.HTTPHost = []string{"tandem.example"} })
	base := "http://" + w.Addr()
	before := len(d.Generations())
	for _, header := range []map[string]string{
		{"Content-Type": "text/plain"},
		{"Content-Type": "text/plain", "Origin": "http://evil.example"},
		{"Content-Type": "application/json", "Origin": "http://evil.example"},
	} {
		if code, body := ask(t, "POST", base+"/generate", "", header); code == http.StatusOK || len(d.Generations()) != before {
			t.Errorf("a POST with %v ran the model: %d %s", header, code, body)
		}
	}
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{"evil.example": 421, "": 200, "localhost:1": 200, own: 200, "test-decode:8000": 200, "tandem.example": 200} {
		for _, path := range []string{"/health", "/metrics"} {
			if code, body := ask(t, "GET", base+path, host, nil); code != want {
				t.Errorf("GET %s with Host %q: %d %.200s, want %d", path, host, code, body, want)
			}
		}
	}
}

func TestTokenOfTheHTTPAPI(t *testing.T) {
	const token = "0123456789abcdef-token"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, d := newSystem(t), fake(t)
	w := s.worker(protocol.RoleDecode, d.URL(), func(f *app.WorkerFlags) { f.HTTPTokenFile = file })
	base := "http://" + w.Addr()
	if code, body := ask(t, "GET", base+"/health", "", nil); code != http.StatusOK || strings.TrimSpace(body) != `{"status":"healthy"}` {
		t.Errorf("/health without a token: %d %s", code, body)
	}
	for _, path := range []string{"/ready", "/metrics"} {
		if code, _ := ask(t, "GET", base+path, "", nil); code != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d, want 401", path, code)
		}
		if code, body := ask(t, "GET", base+path, "", map[string]string{"Authorization": "Bearer " + token}); code != http.StatusOK {
			t.Errorf("%s with the token: %d %s", path, code, body)
		}
	}

	for name, text := range map[string]string{"empty": "\n", "short": "secret", "of two lines": token + "\n" + token, "absent": ""} {
		bad := filepath.Join(t.TempDir(), "token")
		if name != "absent" {
			if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := app.ReadToken(bad); jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), "http-token-file") || strings.Contains(err.Error(), token) {
			t.Errorf("a file that is %s: %v", name, err)
		}
	}
}
