// Package gateway tests the front door with clients that are not ours: those of Ollama, OpenAI and LangChain for JavaScript, and plain HTTP, against the whole
// system on real llama-servers.
package gateway

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/app"
	"tandem/internal/gateway"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/jobs"
	"tandem/test/npm"
)

// door is a whole system with a gateway in front.
type door struct {
	url    string
	engine string // URL of the Ollama that decodes
	client *admin.Client
}

// callerModel calls a function, seerModel sees, and embedderModel makes embeddings.
const (
	callerModel   = "caller:1b"
	seerModel     = "seer:1b"
	embedderModel = "embedder:1b"
)

func open(t *testing.T) *door {
	t.Helper()
	models := standin.Models()
	models[callerModel], models[seerModel], models[embedderModel] = standin.Caller(), standin.Seer(), standin.Embedder()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	l, err := app.StartLocal(t.Context(), app.LocalOptions{Engine: app.LocalStandIn, Models: []string{standin.CodeModel, callerModel, seerModel, embedderModel}, Specs: models, Say: t.Logf, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	c, err := client.Dial(t.Context(), client.Options{URL: l.URL(), User: "program", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	d := openGateway(t, gateway.Options{System: admin.New(c), Plan: jobs.PlanAuto, Version: "test", Log: log})
	_, decode := l.Engines()
	d.engine = decode.EngineURL
	return d
}

// call is one of a function.
type call struct {
	ID, Name  string
	Arguments map[string]int
}

// step is one line that clients.mjs prints.
type step struct {
	Step         string
	Failed       string
	Status       int
	Param, Code  string
	Type         string
	Text         string
	Streamed     string
	Role         string
	Done         bool
	Reason       string
	Finish       string
	Models       []string
	One          string
	Capabilities []string
	Pieces       int
	Prompt       int
	Written      int
	Total        int64
	Method       string
	Value        map[string]any
	Usage        map[string]any
	ID, Object   string
	Aborted      bool
	Calls        []call
	Answers      []answer
}

func TestGateway(t *testing.T) {
	npm.Install(t)
	d := open(t)
	t.Run("clients of others", d.clients)
	t.Run("Python's clients", d.python)
	t.Run("the ollama command", d.ollamaCommand)
	t.Run("whoever goes away cancels", d.goesAway)
	t.Run("one connection for several streams", d.again)
	t.Run("with curl", d.curl)
	t.Run("prefill, then decode", d.inTwoSteps)
	t.Run("bad requests", d.badRequests)
}

func (d *door) clients(t *testing.T) {
	run := runClients(t, d.url)
	steps := map[string]step{}
	for _, s := range run {
		steps[s.Step] = s
	}
	written := func(s step) bool { return s.Text != "" && s.Failed == "" }
	refused := func(status int) func(s step) bool { return func(s step) bool { return s.Status == status } }
	called := func(s step) bool {
		return s.Failed == "" && len(s.Calls) == 1 && s.Calls[0].ID != "" && s.Calls[0].Name == "add" && maps.Equal(s.Calls[0].Arguments, map[string]int{"a": 2, "b": 3})
	}
	likely := func(s step) bool { return written(s) && s.Streamed == s.Text && s.Pieces == 12 } // of all tokens, and the text is theirs
	all := func(s step) bool {
		return slices.Equal(slices.Sorted(slices.Values(s.Models)), []string{callerModel, embedderModel, standin.CodeModel, seerModel})
	}
	checkSteps(t, run, map[string]func(s step) bool{
		"ollama list": all,
		"ollama show": func(s step) bool { return len(s.Capabilities) > 0 },
		"ollama ps":   all,
		"ollama generate": func(s step) bool {
			return written(s) && s.Done && s.Reason == "length" && s.Prompt > 0 && s.Written == 12 && s.Total > 0 && s.Method != ""
		},
		"ollama generate, streamed": func(s step) bool {
			return written(s) && s.Pieces > 2 && s.Done && s.Text == steps["ollama generate"].Text && s.Written == 12
		},
		"ollama chat":              func(s step) bool { return written(s) && s.Role == "assistant" && s.Done },
		"ollama chat, by a schema": func(s step) bool { return s.Value["sum"] != nil },
		"ollama chat, logprobs":    likely, "ollama generate, logprobs, streamed": likely, "openai chat, logprobs": likely, "openai chat, logprobs, streamed": likely, "openai completion, logprobs": likely,
		"openai chat, too many logprobs": func(s step) bool {
			return s.Status == http.StatusBadRequest && strings.Contains(s.Failed, "top_logprobs is 21")
		},
		"ollama generate, raw": func(s step) bool { return written(s) && s.Prompt < steps["ollama generate"].Prompt },
		"ollama generate, a suffix for a model without": func(s step) bool {
			return s.Status == http.StatusBadRequest && strings.Contains(s.Failed, "insert")
		},
		"ollama abort": func(s step) bool { return s.Aborted },
		"ollama, a model that is not there": func(s step) bool {
			return s.Status == http.StatusNotFound && strings.Contains(s.Failed, "nobody:1b")
		},
		"ollama, an option that is not there": func(s step) bool {
			return s.Status == http.StatusBadRequest && strings.Contains(s.Failed, "options.mirostat is not supported here")
		},
		"ollama show, a model that calls": func(s step) bool { return slices.Contains(s.Capabilities, "tools") },
		"ollama, tools of a model without": func(s step) bool {
			return s.Status == http.StatusBadRequest && strings.Contains(s.Failed, "does not support tools")
		},
		"ollama, an image for a model that sees none": func(s step) bool {
			return s.Status == http.StatusBadRequest && strings.Contains(s.Failed, "does not support images")
		},
		"ollama chat, images": func(s step) bool { return written(s) && s.Streamed != "" && s.Text != s.Streamed },
		"openai chat, images": func(s step) bool {
			return s.One == steps["ollama chat, images"].Text && s.Streamed == steps["ollama chat, images"].Streamed
		},
		"ollama generate, images":      func(s step) bool { return s.Text == steps["ollama chat, images"].Text },
		"ollama chat, tools":           func(s step) bool { return called(s) && s.Reason == "stop" && s.Prompt > 0 },
		"ollama chat, tools, streamed": func(s step) bool { return called(s) && s.Reason == "stop" },
		"openai chat, tools":           func(s step) bool { return called(s) && s.Finish == "tool_calls" && s.Prompt > 0 },
		"openai chat, tools, streamed": func(s step) bool { return called(s) && s.Finish == "tool_calls" },
		"openai chat, tools that must be called": func(s step) bool {
			return s.Status == http.StatusBadRequest && strings.Contains(s.Failed, "tool_choice is required")
		},
		"langchain ollama, tools": called,
		"langchain openai, tools": called,
		"openai models":           func(s step) bool { return all(s) && s.One == standin.CodeModel },
		"openai chat": func(s step) bool {
			return written(s) && s.Finish == "length" && s.Usage["completion_tokens"] == 12.0 && strings.HasPrefix(s.ID, "chatcmpl-")
		},
		"openai chat, streamed": func(s step) bool {
			return written(s) && s.Role == "assistant" && s.Finish == "length" && s.Written == 12
		},
		"openai chat, by a schema":          func(s step) bool { return s.Value["sum"] != nil },
		"openai completion":                 func(s step) bool { return written(s) && s.Object == "text_completion" },
		"openai, a model that is not there": func(s step) bool { return s.Status == http.StatusNotFound && s.Code == "model_not_found" },
		"openai, a parameter that is not supported": func(s step) bool {
			return s.Status == http.StatusBadRequest && s.Param == "logit_bias" && s.Type == "invalid_request_error"
		},
		"openai, several answers": func(s step) bool { return s.Status == http.StatusBadRequest && s.Param == "n" },
		"openai batch": func(s step) bool {
			return s.Reason == "completed" && s.Usage["completed"] == 5.0 && s.Usage["failed"] == 0.0 && s.Text == "one" && slices.Equal(s.Models, []string{"s-0", "s-1", "s-2", "s-3", "s-4"}) &&
				s.Written == 6 && strings.Contains(s.Streamed, "Count to 0.") && s.One == "no errors"
		},
		"ollama show, a model that embeds": func(s step) bool { return slices.Equal(s.Capabilities, []string{jobs.CanEmbed}) },
		"ollama embed": func(s step) bool {
			return written(s) && s.Pieces == 2 && s.Prompt > 2 && s.Total > 0 && s.Method == string(jobs.MethodLocal)
		},
		"ollama embed, fewer dimensions":                      func(s step) bool { return strings.HasPrefix(s.Text, "4: ") },
		"ollama embed, a long text":                           func(s step) bool { return s.Pieces == 1 },
		"ollama embed, a long text that is not to be cut off": refused(http.StatusBadRequest),
		"ollama embed, nothing":                               func(s step) bool { return s.Pieces == 0 && s.Done },
		"ollama embed, an empty text":                         refused(http.StatusBadRequest),
		"ollama embed, a number":                              refused(http.StatusBadRequest),
		"ollama embed, a model that does not":                 refused(http.StatusNotImplemented),
		"ollama embeddings":                                   func(s step) bool { return written(s) && strings.HasPrefix(steps["ollama embed"].Text, s.Text+";") },
		"ollama generate, a model that embeds":                refused(http.StatusBadRequest),
		"ollama chat, a model that embeds":                    refused(http.StatusBadRequest),
		"openai embeddings": func(s step) bool {
			return s.Text == steps["ollama embed"].Text && s.Object == "list" && s.Usage["prompt_tokens"] == s.Usage["total_tokens"] && slices.Equal(s.Models, []string{"embedding 0", "embedding 1"})
		},
		"openai embeddings, numbers":               func(s step) bool { return s.Text == steps["ollama embed, fewer dimensions"].Text },
		"openai embeddings, a long text":           refused(http.StatusBadRequest),
		"openai embeddings, token ids":             func(s step) bool { return refused(http.StatusBadRequest)(s) && s.Param == "input" },
		"openai embeddings, nothing":               refused(http.StatusBadRequest),
		"openai embeddings, a model that does not": refused(http.StatusNotImplemented),
		"openai chat, a model that embeds":         refused(http.StatusBadRequest),
		"langchain ollama, embeddings":             func(s step) bool { return s.Text == steps["ollama embed"].Text },
		"langchain openai, embeddings":             func(s step) bool { return s.Text == steps["ollama embed"].Text },
		"openai batch, embeddings": func(s step) bool {
			return s.Reason == "completed" && s.Text == steps["ollama embed"].Text
		},
		"openai batch, a bad line": func(s step) bool {
			said := strings.Join(s.Models, "\n")
			return s.Reason == "failed" && len(s.Models) == 4 && strings.Contains(said, "2: the body is not as it must be") && strings.Contains(said, `3: custom_id "a" is there twice`) &&
				strings.Contains(said, "4: logit_bias is not supported here") && strings.Contains(said, "5: model 'nobody:1b' not found")
		},
		"openai batch, cancelled": func(s step) bool {
			return s.Reason == "cancelled" && s.Usage["failed"] == 20.0 && s.Pieces == 20 && slices.Equal(s.Models, []string{"batch_cancelled"})
		},
		"openai batches and files, page by page": func(s step) bool { return s.Pieces == 4 && len(s.Models) == 4 && s.Written == 8 && s.Done },
		"openai batch, no such file":             func(s step) bool { return s.Status == http.StatusNotFound && s.Param == "id" },
		"langchain ollama":                       written,
		"langchain openai":                       func(s step) bool { return written(s) && s.Streamed == s.Text },
	})
	t.Run("beside Ollama", func(t *testing.T) { d.differences(t, run) })
}

// checkSteps holds each step of a program to what is wanted of it.
func checkSteps(t *testing.T, run []step, want map[string]func(s step) bool) {
	t.Helper()
	steps := map[string]step{}
	for _, s := range run {
		steps[s.Step] = s
	}
	for name, good := range want {
		if s, there := steps[name]; !there || !good(s) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Python's ollama and openai, as apps have them that are made with Streamlit. They are Debian packages, so where there is no apt-get they are not run.
func (d *door) python(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "bash", "../../scripts/engines.sh", "python").Output()
	if err != nil {
		t.Fatalf("get Python: %v", err)
	}
	program, there := strings.CutPrefix(strings.TrimSpace(string(out)), "PYTHON=")
	if !there {
		t.Log("no apt-get to get Python's clients with")
		return
	}
	all := func(s step) bool { return slices.Contains(s.Models, standin.CodeModel) && len(s.Models) == 4 }
	missing := func(s step) bool {
		return s.Status == http.StatusNotFound && strings.Contains(s.Failed, "nobody:1b")
	}
	said := func(s step) bool { return s.Text != "" && s.Streamed == s.Text }
	checkSteps(t, runProgram(t, d.url, []string{program, "clients.py"}), map[string]func(s step) bool{
		"ollama list": all, "ollama ps": all, "openai models": all,
		"ollama show":     func(s step) bool { return slices.Contains(s.Capabilities, "completion") },
		"ollama generate": func(s step) bool { return s.Text != "" },
		"ollama chat":     said, "openai chat": said,
		"ollama chat, tools": func(s step) bool {
			return len(s.Calls) == 1 && s.Calls[0].Name == "add" && maps.Equal(s.Calls[0].Arguments, map[string]int{"a": 2, "b": 3})
		},
		"ollama, a model that is not there": missing, "openai, a model that is not there": missing,
		"ollama embed": func(s step) bool { return s.Pieces == 2 && s.Written > 0 }, "openai embeddings": func(s step) bool { return s.Pieces == 2 && s.Written > 0 },
		"ollama goes away": func(s step) bool { return s.Aborted },
		"openai batch": func(s step) bool {
			return s.Reason == "completed" && slices.Equal(s.Models, []string{"s-0", "s-1", "s-2"})
		},
	})
}

// The ollama command line, as somebody uses it who has OLLAMA_HOST point here.
func (d *door) ollamaCommand(t *testing.T) {
	program := standintest.Engines(t).Ollama
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"list": {[]string{"list"}, standin.CodeModel},
		"ps":   {[]string{"ps"}, standin.CodeModel},
		"show": {[]string{"show", standin.CodeModel}, "context length"},
		"pull": {[]string{"pull", standin.CodeModel}, "not to be had here"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, program, tt.args...)
		cmd.Env = append(os.Environ(), "OLLAMA_HOST="+d.url, "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		cancel()
		if (err != nil) != (name == "pull") || !strings.Contains(string(out), tt.want) || len(out) == 0 {
			t.Errorf("ollama %s: %v, %s; want %q in it", strings.Join(tt.args, " "), err, out, tt.want)
		}
	}
	// The stand-in does not come to an end by itself.
	ctx, enough := context.WithTimeout(t.Context(), time.Minute)
	defer enough()
	run := exec.CommandContext(ctx, program, "run", standin.CodeModel, "Say hello.")
	run.Env = append(os.Environ(), "OLLAMA_HOST="+d.url, "HOME="+t.TempDir())
	said, err := run.StdoutPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(said, make([]byte, 30)); err != nil {
		t.Errorf("ollama run says nothing: %v", err)
	}
	enough()
	_ = run.Wait() // it was killed
}

// A program that goes away cancels its job, and the engine is free again.
func (d *door) goesAway(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	body := `{"model": "` + standin.CodeModel + `", "prompt": "Write a long story.", "options": {"num_predict": 30000}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/api/generate", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.ReadFull(answer.Body, make([]byte, 20)); err != nil {
		t.Fatal(err)
	}
	leave()
	result, err := d.client.Await(t.Context(), answer.Header.Get("Tandem-Job"))
	if err != nil || result.Status != jobs.Cancelled {
		t.Fatalf("the job of a program that went away: %+v, %v; want it cancelled", result, err)
	}
	for {
		workers, err := d.client.Workers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		busy := 0
		for _, w := range workers {
			busy += w.Busy
		}
		if busy == 0 {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("a slot stays busy")
		}
	}
}

// The API of Tandem's forerunners, as a script with curl asks.
func (d *door) curl(t *testing.T) {
	for _, tt := range []struct{ path, body, want string }{
		{"/generate", `{"prompt": "Hello", "max_tokens": 5, "model": "` + standin.CodeModel + `"}`, `"model":"` + standin.CodeModel + `"`},
		{"/health", "", `{"loaded":{"` + callerModel + `":true,"` + embedderModel + `":true,"` + standin.CodeModel + `":true,"` + seerModel + `":true},"status":"ok"}`},
		{"/servers", "", `"role":"decode"`},
	} {
		method, kind := http.MethodGet, ""
		if tt.body != "" {
			method, kind = http.MethodPost, "application/x-www-form-urlencoded" // which curl -d says
		}
		r, err := http.NewRequestWithContext(t.Context(), method, d.url+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s %s: %s, %v; want %s", tt.path, tt.body, out, err, tt.want)
		}
	}
}

// What POST /prefill computed, POST /decode goes on from: the KV state is handed over, once.
func (d *door) inTwoSteps(t *testing.T) {
	type answer struct {
		ID     string
		Text   string `json:"generated_text"` // of /decode
		Whole  string `json:"response"`       // of /generate
		Error  string
		Tandem struct {
			Method   jobs.Method
			Decision string
			Usage    jobs.Usage
		}
	}
	ask := func(path, body string) (a answer, status int) {
		t.Helper()
		resp, err := http.Post(d.url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
			t.Fatal(err)
		}
		return a, resp.StatusCode
	}
	prompt := strings.Repeat("Explain what this line of the program does, and why. ", 20)
	before, status := ask("/prefill", `{"prompt": "`+prompt+`", "model": "`+standin.CodeModel+`"}`)
	if status != http.StatusOK || before.ID == "" || before.Tandem.Usage.PrefillComputed == 0 {
		t.Fatalf("prefill: status %d, %+v", status, before)
	}
	decode := `{"id": "` + before.ID + `", "max_new_tokens": 12, "temperature": 0}`
	after, status := ask("/decode", decode)
	if status != http.StatusOK || after.Tandem.Method != jobs.MethodDisaggregated || after.Tandem.Usage.HandedOver != before.Tandem.Usage.PromptTokens-1 {
		t.Errorf("decode: status %d, %+v; want all tokens but the last of %d handed over", status, after, before.Tandem.Usage.PromptTokens)
	}
	whole, status := ask("/generate", `{"prompt": "`+prompt+`", "model": "`+standin.CodeModel+`", "max_tokens": 12, "temperature": 0}`)
	if status != http.StatusOK || after.Text == "" || after.Text != whole.Whole {
		t.Errorf("generate: status %d, %+v; decode said %q", status, whole, after.Text)
	}
	if again, status := ask("/decode", decode); status != http.StatusNotFound || !strings.Contains(again.Error, "for one /decode") {
		t.Errorf("decode again: status %d, %+v", status, again)
	}
}

func (d *door) badRequests(t *testing.T) {
	const chat, generate = "/v1/chat/completions", "/api/generate"
	model := `"model": "` + standin.CodeModel + `"`
	for name, tt := range map[string]struct {
		path, body string
		header     []string
		status     int
		want       string
	}{
		"nothing":            {chat, "", nil, 400, "the body is empty"},
		"no JSON":            {chat, `{"model": }`, nil, 400, "at byte"},
		"a key twice":        {generate, `{"model": "a", "model": "b"}`, nil, 400, "model"},
		"too deep":           {chat, `{"messages": ` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, nil, 400, "deep"},
		"too long":           {generate, `{"prompt": "` + strings.Repeat("x", 9<<20) + `"}`, nil, 413, "more than 8388608 bytes"},
		"another type":       {chat, `{` + model + `, "messages": "hello"}`, nil, 400, "messages is of JSON type string"},
		"a field of nobody":  {generate, `{` + model + `, "promt": "x"}`, nil, 400, "promt is not supported here"},
		"no model":           {chat, `{"messages": [{"role": "user", "content": "x"}]}`, nil, 400, "model is required"},
		"no messages":        {chat, `{` + model + `}`, nil, 400, "messages is empty"},
		"a role of nobody":   {chat, `{` + model + `, "messages": [{"role": "boss", "content": "x"}]}`, nil, 400, "role"},
		"too many tokens":    {generate, `{` + model + `, "prompt": "x", "options": {"num_predict": 1000000000}}`, nil, 400, "num_predict"},
		"an image":           {generate, `{` + model + `, "prompt": "x", "images": ["aGVsbG8="]}`, nil, 400, "does not support images"},
		"an image's address": {chat, `{` + model + `, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}]}`, nil, 400, "nothing is fetched here"},
		"a tool of nobody":   {"/api/chat", `{"model": "` + callerModel + `", "messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function"}]}`, nil, 400, "tools[0] is none"},
		"a call cut off":     {chat, `{` + model + `, "messages": [{"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{"}}]}]}`, nil, 400, "messages[0].tool_calls[0].function.arguments"},
		"a choice of nobody": {chat, `{` + model + `, "messages": [{"role": "user", "content": "x"}], "tool_choice": {"type": "function"}}`, nil, 400, "tool_choice is"},
		"which model":        {"/generate", `{"prompt": "Hello"}`, nil, 400, "model is required: there are 4"},
		"a form":             {generate, "prompt=x", []string{"Content-Type", "application/x-www-form-urlencoded"}, 400, "not as it must be"},
		"another kind":       {generate, `{}`, []string{"Content-Type", "text/html"}, 415, "send application/json"},
		"a page":             {generate, `{}`, []string{"Origin", "https://example.org", "Sec-Fetch-Site", "cross-site"}, 403, "web pages of other origins"},
		"a plan of nobody":   {generate, `{` + model + `, "prompt": "x"}`, []string{"Tandem-Plan", "fast"}, 400, "want auto, local or disaggregated"},
		"a prefix of nobody": {generate, `{` + model + `, "prompt": "x"}`, []string{"Tandem-Shared-Prefix", "-1"}, 400, "Tandem-Shared-Prefix is"},
		"a model of nobody":  {generate, `{"model": "x/../y:\u0001", "prompt": "x"}`, nil, 400, "model"},
		"a bomb":             {generate, "\x1f\x8b", []string{"Content-Encoding", "gzip"}, 415, "send the body as it is"},
		"a header in a name": {generate, `{"model": "x\r\nTandem-Plan: local", "prompt": "x"}`, nil, 400, "model"},
		"a negative limit":   {chat, `{` + model + `, "messages": [{"role": "user", "content": "x"}], "max_tokens": -5}`, nil, 400, "num_predict"},
		"no form":            {"/v1/files", `{}`, nil, 400, "multipart/form-data"},
		"no such file":       {"/v1/batches", `{"input_file_id": "file-x", "endpoint": "/v1/chat/completions", "completion_window": "24h"}`, nil, 404, "there is no file"},
		"a window of nobody": {"/v1/batches", `{"input_file_id": "file-x", "endpoint": "/v1/chat/completions", "completion_window": "soon"}`, nil, 400, "completion_window"},
		"another endpoint":   {"/v1/batches", `{"input_file_id": "file-x", "endpoint": "/v1/responses", "completion_window": "24h"}`, nil, 400, "endpoint is"},
		"what nobody holds":  {"/decode", `{"id": "01936f2a-5b7c-7d3e-8f90-a1b2c3d4e5f6"}`, nil, 404, "POST /prefill again"},
		"nothing to go on":   {"/decode", `{"prompt": "x"}`, nil, 400, "prompt is not supported here"},
		"which of them":      {"/decode", `{}`, nil, 400, "id is required"},
		"token ids":          {"/v1/embeddings", `{"model": "` + embedderModel + `", "input": [[1, 2]]}`, nil, 400, "token ids are not supported here"},
		"a text of nobody":   {"/api/embed", `{"model": "` + embedderModel + `", "input": {"text": "x"}}`, nil, 400, "input is neither a text nor a list"},
		"many texts":         {"/api/embed", `{"model": "` + embedderModel + `", "input": [` + strings.Repeat(`"x",`, 2048) + `"x"]}`, nil, 400, "embed.input has 2049 texts"},
		"a vector of nobody": {"/v1/embeddings", `{"model": "` + embedderModel + `", "input": "x", "encoding_format": "hex"}`, nil, 400, "want float or base64"},
		"few dimensions":     {"/v1/embeddings", `{"model": "` + embedderModel + `", "input": "x", "dimensions": -1}`, nil, 400, "embed.dimensions is -1"},
		"embed on two":       {"/api/embed", `{"model": "` + embedderModel + `", "input": "x"}`, []string{"Tandem-Plan", "disaggregated"}, 400, "plan is disaggregated; embeddings"},
		"embed in no model":  {"/api/embed", `{"model": "nobody:1b", "input": "x"}`, nil, 404, "not found"},
		"embed nothing":      {"/api/embeddings", `{"input": "x"}`, nil, 400, "input is not supported here"},
		"load an embedder":   {generate, `{"model": "` + embedderModel + `"}`, nil, 400, "does not support generate"},
		"pulling":            {"/api/pull", `{}`, nil, 501, "not to be had here"},
		"something else":     {"/v1/audio/speech", `{}`, nil, 404, "there is no POST"},
		"a think of nobody":  {generate, `{` + model + `, "prompt": "x", "think": "hard"}`, nil, 400, "think is"},
		"a format of nobody": {chat, `{` + model + `, "messages": [{"role": "user", "content": "x"}], "response_format": {"type": "xml"}}`, nil, 400, "response_format.type"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			for i := 0; i+1 < len(tt.header); i += 2 {
				r.Header.Set(tt.header[i], tt.header[i+1])
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			said, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != tt.status || !strings.Contains(string(said), tt.want) || !json.Valid(said) {
				t.Errorf("status %d, %.300s, %v; want %d and %q", answer.StatusCode, said, err, tt.status, tt.want)
			}
		})
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/api/tags", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "rebound.example.org"
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("another host: status %d, want %d", answer.StatusCode, http.StatusMisdirectedRequest)
	}
}

// A connection that streamed once is of use again, and a stream has its figures as trailers.
func (d *door) again(t *testing.T) {
	idle := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer idle.CloseIdleConnections()
	for range 3 {
		body := `{"model": "` + standin.CodeModel + `", "prompt": "Hello", "options": {"num_predict": 4}}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/api/generate", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := idle.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !strings.Contains(string(said), `"done":true`) || answer.Trailer.Get("Tandem-Method") == "" || !strings.HasPrefix(answer.Trailer.Get("Server-Timing"), "queue;dur=") {
			t.Errorf("%.200s, trailers %v, %v", said, answer.Trailer, err)
		}
	}
}
