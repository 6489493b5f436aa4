package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"tandem/internal/jobs"
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
	prefill, decode := s.worker(jobs.RolePrefill, p.URL()), s.worker(jobs.RoleDecode, d.URL())
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
		prefill: `tandem_tasks_total{model="qwen3-coder:30b",outcome="hop",role="prefill",stage="prefill"} 1`,
		decode:  `tandem_tasks_total{model="qwen3-coder:30b",outcome="succeeded",role="decode",stage="decode"} 1`,
	} {
		m, err := get(t.Context(), "http://"+w.Addr()+"/metrics")
		if text, _ := m["text"].(string); err != nil || !strings.Contains(text, want) || strings.Contains(text, "counted") {
			t.Errorf("/metrics lacks %s, or holds a prompt: %v", want, err)
		}
	}
}
