package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"tandem/internal/engine"
	"tandem/internal/engine/enginetest"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The real server is llama-server, of which nothing is used but the OpenAI API.
func TestConformance(t *testing.T) {
	const size = 2048
	for _, slots := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d slots", slots), func(t *testing.T) {
			enginetest.Run(t, func(t testing.TB) enginetest.Subject {
				server := standintest.StartLlamaServer(t, tinymodel.Tiny(tinymodel.BPE), "--ctx-size", fmt.Sprint(slots*size), "--parallel", fmt.Sprint(slots), "--cache-ram", "0")
				o := Options{URL: server + "/v1", Model: "tiny:latest", NumCtx: size}
				template := filepath.Join(t.TempDir(), "thinker.jinja")
				if err := os.WriteFile(template, []byte(standintest.Thinker), 0o600); err != nil {
					t.Fatal(err)
				}
				missing := o
				missing.Served = "another"
				e := open(t, o)
				return enginetest.Subject{
					Engine: e, Slots: slots, Missing: open(t, missing), Unreachable: open(t, Options{URL: "http://127.0.0.1:1", Model: o.Model, NumCtx: size}),
					Thinker:  open(t, Options{URL: standintest.StartLlamaServer(t, tinymodel.Tiny(tinymodel.BPE), "--chat-template-file", template), Model: o.Model, NumCtx: size}),
					Caller:   open(t, Options{URL: standintest.StartLlamaServer(t, standin.Caller(), "--jinja"), Model: o.Model, NumCtx: size}),
					Seer:     open(t, Options{URL: standintest.StartLlamaServer(t, standin.Seer(), "--jinja", "--cache-ram", "0"), Model: o.Model, NumCtx: size}),
					Embedder: open(t, Options{URL: standintest.StartLlamaServer(t, standin.Embedder(), "--embeddings", "--ubatch-size", "8192"), Model: o.Model, NumCtx: size}),
					Forget:   func(ctx context.Context) error { return forget(ctx, e, slots) },
					Cannot:   map[enginetest.Ability]string{enginetest.States: "the API shows no KV states", enginetest.Raw: "it is asked for chats"},
				}
			})
		})
	}
}

func open(t testing.TB, o Options) *Engine {
	t.Helper()
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// forget fills every slot of a llama-server with something else.
func forget(ctx context.Context, e *Engine, slots int) error {
	for id := range slots {
		body, err := e.client.open(ctx, "/completion", map[string]any{"prompt": []int{5}, "n_predict": 1, "id_slot": id, "cache_prompt": false})
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return err
		}
		body.Close()
	}
	return nil
}

// saying is an engine whose server has two models, and answers a chat with a status and a body.
func saying(t *testing.T, status int, body string) *Engine {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/v1/models" {
			io.WriteString(w, `{"data": [{"id": "tiny:latest", "owned_by": "vllm", "max_model_len": 1000}, {"id": "other"}]}`)
			return
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return open(t, Options{URL: server.URL, Key: "secret", Model: "tiny:latest", NumCtx: 4096})
}

const (
	text  = `data: {"choices": [{"delta": {"reasoning": "so", "content": "x"}}]}` + "\n\n"
	ended = `data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}` + "\n\n"
	count = `data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 7}}}` + "\n\n"
	last  = "data: [DONE]\n\n"
)

// What servers were seen or are documented to answer, and what llama-server does not.
func TestAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		code   jobs.Code
		says   string
	}{
		"whole":             {200, text + ended + count + last, "", ""},
		"an event broken":   {200, text + "data: {", jobs.CodeEngineFailed, "broke off"},
		"no end":            {200, text + ended + count, jobs.CodeEngineFailed, "ended before its last event"},
		"no reason":         {200, text + count + last, jobs.CodeEngineFailed, "without a reason"},
		"no counts":         {200, text + ended + last, jobs.CodeEngineFailed, "include_usage"},
		"counts impossible": {200, text + ended + strings.Replace(count, "7", "-7", 1) + last, jobs.CodeEngineFailed, "impossible"},
		"no JSON":           {200, "data: <html>\n\n", jobs.CodeEngineFailed, "does not speak the OpenAI API"},
		"an error midway":   {200, text + `data: {"error": {"message": "out of memory", "type": "server_error"}}` + "\n\n", jobs.CodeEngineFailed, "out of memory"},
		"busy":              {503, `{"error": {"message": "Loading model"}}`, jobs.CodeEngineBusy, "Loading model"},
		"too many":          {429, ``, jobs.CodeEngineBusy, "Too Many Requests"},
		"too long, of vLLM": {400, `{"object": "error", "message": "This model's maximum context length is 1000 tokens. However, you requested 2000 tokens", "type": "BadRequestError"}`, jobs.CodeContextOverflow, "maximum context length is 1000"},
		"too long, llama":   {400, `{"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 2000, "n_ctx": 1000}}`, jobs.CodeContextOverflow, "needs 2000 tokens of context and the server has 1000"},
		"refused":           {400, `{"error": {"message": "top_k is not supported"}}`, jobs.CodeEngineRefused, "top_k is not supported"},
		"quotes the prompt": {400, `{"error": {"message": "cannot render 'a secret that nobody may read'"}}`, jobs.CodeEngineRefused, "refuses the request (status 400)"},
		"no such path":      {404, `Not Found`, jobs.CodeEngineUnreachable, "check --engine-url"},
		"redirect":          {302, ``, jobs.CodeEngineUnreachable, "check --engine-url"},
		"another key":       {401, ``, jobs.CodeEngineUnreachable, "--engine-key-file"},
		"fails":             {500, `{"error": {"message": "CUDA error"}}`, jobs.CodeEngineFailed, "CUDA error"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := saying(t, tt.status, tt.body).Generate(t.Context(), engine.Request{Prompt: "a secret that nobody may read"}, func(jobs.Chunk) error { return nil })
			if tt.code != "" {
				if enginetest.CheckError(t, err); jobs.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "nobody may read") {
					t.Errorf("error %v (%s), want %s and %q", err, jobs.CodeOf(err), tt.code, tt.says)
				}
				return
			}
			if err != nil || c.Text != "x" || c.Thinking != "so" || c.PromptTokens != 7 || c.CachedTokens != 6 || c.GeneratedTokens != 2 {
				t.Errorf("completion %+v, %v", c, err)
			}
		})
	}
}

// Embeddings come in any order, and not every server has them.
func TestEmbeddings(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		code   jobs.Code
		says   string
	}{
		"whole":              {200, `{"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}], "usage": {"prompt_tokens": 7, "total_tokens": 7}}`, "", ""},
		"one too few":        {200, `{"data": [{"index": 0, "embedding": [0, 1]}]}`, jobs.CodeEngineFailed, "a vector for each text"},
		"one twice":          {200, `{"data": [{"index": 0, "embedding": [0, 1]}, {"index": 0, "embedding": [0, 1]}]}`, jobs.CodeEngineFailed, "a vector for each text"},
		"out of range":       {200, `{"data": [{"index": -1, "embedding": [0, 1]}, {"index": 0, "embedding": [0, 1]}]}`, jobs.CodeEngineFailed, "a vector for each text"},
		"no JSON":            {200, `<html>`, jobs.CodeEngineFailed, "a vector for each text"},
		"cut off":            {200, `{"data": [`, jobs.CodeEngineFailed, "a vector for each text"},
		"none":               {404, `Not Found`, jobs.CodeEngineRefused, "makes no embeddings"},
		"not with the flags": {501, `{"error": {"message": "This server does not support embeddings. Start it with --embeddings"}}`, jobs.CodeEngineRefused, "makes no embeddings"},
		"too long":           {500, `{"error": {"message": "input (3000 tokens) is too large to process. increase the physical batch size (current batch size: 512)"}}`, jobs.CodeContextOverflow, "physical batch size"},
		"quotes the text":    {400, `{"error": {"message": "cannot read 'a secret that nobody may read'"}}`, jobs.CodeEngineRefused, "refuses the request (status 400)"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := saying(t, tt.status, tt.body).Embed(t.Context(), engine.Request{Embed: &jobs.Embed{Input: []string{"a secret that nobody may read", "b"}}})
			if tt.code != "" {
				if enginetest.CheckError(t, err); jobs.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "nobody may read") {
					t.Errorf("error %v (%s), want %s and %q", err, jobs.CodeOf(err), tt.code, tt.says)
				}
				return
			}
			if err != nil || c.Embeddings[0][0] != 1 || c.Embeddings[1][0] != 0 || c.PromptTokens != 7 {
				t.Errorf("completion %+v, %v", c, err)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	e := saying(t, 200, "")
	d, err := e.Describe(t.Context())
	if err != nil || d.ContextTokens != 1000 || d.Version != "vllm" || d.KVTransfer != nil || d.NoKVTransfer == "" {
		t.Errorf("description %+v, %v", d, err)
	}
	e.options.Model = "unknown:latest"
	if _, err := e.Describe(t.Context()); jobs.CodeOf(err) != jobs.CodeModelMissing || !strings.Contains(err.Error(), `--engine-model one that it has: "tiny:latest", "other"`) {
		t.Errorf("with two models of other names: %v", err)
	}
	e.client.key = "wrong"
	if _, err := e.Describe(t.Context()); jobs.CodeOf(err) != jobs.CodeEngineUnreachable || !strings.Contains(err.Error(), "--engine-key-file") {
		t.Errorf("with the wrong key: %v", err)
	}
	for _, url := range []string{"", "127.0.0.1:8000", "http://a:b@host", "http://host?x=1"} {
		if _, err := New(Options{URL: url}); jobs.CodeOf(err) != jobs.CodeInvalid {
			t.Errorf("New with URL %q: %v", url, err)
		}
	}
}

// TestRequest: what the standard has no name for is sent by the names that servers have for it, and only if it is asked for.
func TestRequest(t *testing.T) {
	req := engine.Request{System: "s", Prompt: "p"}
	plain, err := json.Marshal(chatOf("m", req))
	if want := `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"p"}],"stream":true,"stream_options":{"include_usage":true}}`; err != nil || string(plain) != want {
		t.Errorf("a plain request is %s, %v; want %s", plain, err, want)
	}
	req.Think, req.Format = jobs.ThinkHigh, json.RawMessage(`{"type":"object"}`)
	req.Options = jobs.Options{RepeatPenalty: new(1.1), TopK: new(40), Seed: new(int64(-1))}
	full, err := json.Marshal(chatOf("m", req))
	for _, want := range []string{
		`"repeat_penalty":1.1,"repetition_penalty":1.1`, `"top_k":40`, `"reasoning_effort":"high"`, `"chat_template_kwargs":{"enable_thinking":true`,
		`"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}}`,
	} {
		if err != nil || !strings.Contains(string(full), want) || strings.Contains(string(full), "seed") {
			t.Errorf("the request is %s, %v; want %s, and no seed", full, err, want)
		}
	}
}
