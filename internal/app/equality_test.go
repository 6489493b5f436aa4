package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tandem/internal/app"
	"tandem/internal/protocol"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// askedDirectly is how a program without Tandem would get the text of a prompt, greedily.
type askedDirectly func(ctx context.Context, prompt string, tokens int) (string, error)

// TestTextEqualsTheEngineAskedDirectly runs the same prompts, in the same order, through the pipeline
// on two engines and, without Tandem, on a third: cold with cold, one slot each.
func TestTextEqualsTheEngineAskedDirectly(t *testing.T) {
	for _, tokenizer := range []tinymodel.Tokenizer{tinymodel.BPE, tinymodel.SentencePiece} {
		t.Run("ollama "+string(tokenizer), func(t *testing.T) {
			start := func() string {
				return standintest.StartOllama(t, standin.OllamaOptions{Models: map[string]tinymodel.Spec{model: tinymodel.Tiny(tokenizer)}}).URL()
			}
			s := newSystem(t)
			one := func(f *app.WorkerFlags) { f.Threads = 1 }
			s.worker(protocol.RolePrefill, start(), one)
			s.worker(protocol.RoleDecode, start(), one)
			s.compare(ollamaDirectly(start()))
		})
		t.Run("llama-server "+string(tokenizer), func(t *testing.T) {
			file, binary := standintest.ModelFile(t, tinymodel.Tiny(tokenizer)), standintest.Engines(t).LlamaServer
			s := newSystem(t)
			supervised := func(f *app.WorkerFlags) {
				f.Engine, f.EngineURL, f.ModelFile, f.LlamaServer, f.Threads = "llamacpp", "", file, binary, 1
			}
			s.worker(protocol.RolePrefill, "", supervised)
			s.worker(protocol.RoleDecode, "", supervised)
			s.compare(llamaDirectly(standintest.StartLlamaServer(t, tinymodel.Tiny(tokenizer))))
		})
	}
}

// compare runs twenty prompts both ways.
func (s *system) compare(direct askedDirectly) {
	s.t.Helper()
	const tokens = 24
	for i, prompt := range prompts() {
		j := s.job(prompt)
		n := tokens
		j.Options.NumPredict = &n
		r := s.await(s.submit(j))
		if r.Status != jobs.Succeeded || r.Method != jobs.MethodDisaggregated || len(r.Warnings) != 0 {
			s.t.Fatalf("prompt %d: %s by %s, warnings %q, error %+v", i, r.Status, r.Method, r.Warnings, r.Error)
		}
		want, err := direct(s.t.Context(), prompt, tokens)
		if err != nil {
			s.t.Fatal(err)
		}
		if r.Text != want || want == "" {
			s.t.Errorf("prompt %d through the pipeline:\n%q\nasked directly:\n%q", i, r.Text, want)
		}
	}
}

// prompts are twenty that differ from their beginning on, so that none finds another in a cache.
func prompts() []string {
	var list []string
	for i := range 20 {
		code := fmt.Sprintf("%d. sales_%d <- df |> filter(region == %q) |> summarise(total = sum(price * %d))\n", i, i, strings.Repeat("n", i+1), i)
		list = append(list, strings.Repeat(code, 1+i%4*8)+"Explain what it does; naïve café ✓")
	}
	return list
}

func ollamaDirectly(url string) askedDirectly {
	return func(ctx context.Context, prompt string, tokens int) (string, error) {
		var a struct{ Response string }
		err := askJSON(ctx, url+"/api/generate", map[string]any{
			"model": model, "prompt": prompt, "stream": false,
			"options": map[string]any{"temperature": 0, "num_predict": tokens, "num_ctx": 8192, "num_thread": 1},
		}, &a)
		return a.Response, err
	}
}

func llamaDirectly(url string) askedDirectly {
	return func(ctx context.Context, prompt string, tokens int) (string, error) {
		var a struct {
			Choices []struct{ Message struct{ Content string } }
		}
		err := askJSON(ctx, url+"/v1/chat/completions", map[string]any{
			"messages":    []map[string]string{{"role": "user", "content": prompt}},
			"temperature": 0, "max_tokens": tokens,
		}, &a)
		if err != nil || len(a.Choices) != 1 {
			return "", fmt.Errorf("%d choices, %w", len(a.Choices), err)
		}
		return a.Choices[0].Message.Content, nil
	}
}

func askJSON(ctx context.Context, url string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}
