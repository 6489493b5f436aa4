package llamacpp

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/internal/slots"
	"tandem/internal/supervisor"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// attachedTo starts a server as a stranger would, and attaches to it.
func attachedTo(t testing.TB, args ...string) *Engine {
	t.Helper()
	return attach(t, Options{}, args...)
}

// attach is attachedTo with other options.
func attach(t testing.TB, o Options, args ...string) *Engine {
	t.Helper()
	o.APIKey = "secret"
	var p *supervisor.Process
	until(t, "the server answers", func() bool {
		if p == nil || ended(p) { // not yet, or another program took the port
			port, err := freePort()
			if err != nil {
				t.Fatal(err)
			}
			o.URL = fmt.Sprintf("http://127.0.0.1:%d/", port)
			all := append([]string{"--model", model(t, tinymodel.BPE), "--port", fmt.Sprint(port), "--threads", "1"}, args...)
			if p, err = supervisor.Start(binary(t), all, "", environment("secret"), t.Output()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Stop)
		}
		_, err := slots.Describe(t.Context(), slots.NewClient(nil), slots.Endpoint{URL: trimSlash(o.URL), Key: o.APIKey})
		return err == nil && !ended(p)
	})
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if err := e.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

func ended(p *supervisor.Process) bool {
	select {
	case <-p.Exited():
		return true
	default:
		return false
	}
}

func TestAttach(t *testing.T) {
	e := attachedTo(t, "--ctx-size", "2048", "--parallel", "2")
	d, err := e.Describe(t.Context())
	if err != nil || d.Slots != 2 || d.ContextTokens != 1024 || len(d.ModelDigest) != 64 {
		t.Errorf("description %+v, %v", d, err)
	}
	if c := generate(t, e, ask("x <- 1", 5)); c.Text == "" || c.PromptTokens == 0 {
		t.Errorf("completion %+v", c)
	}
	at, err := e.where.endpoint()
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]Options{
		"API key":                        {URL: at.URL, APIKey: "wrong"},
		"slots is 3, and llama-server":   {URL: at.URL, APIKey: "secret", Slots: 3},
		"answers /props with status 404": {URL: at.URL + "/v1/props", APIKey: "secret"},
	} {
		other, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = other.Describe(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
		other.Close()
	}
}

func TestDeadURL(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	e, err := New(Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	_, described := e.Describe(t.Context())
	_, prefilled := e.Prefill(t.Context(), ask("x", 1))
	for _, err := range []error{described, prefilled, e.Load(t.Context())} {
		if jobs.CodeOf(err) != jobs.CodeEngineUnreachable || !strings.Contains(err.Error(), url) || !strings.Contains(err.Error(), "is it running") {
			t.Errorf("error %v (%s), want engine_unreachable with URL and remedy", err, jobs.CodeOf(err))
		}
	}
}

// fake is a server that answers as a real one up to the streams, which are the test's.
func fake(t *testing.T, routes map[string]string) *Engine {
	t.Helper()
	answers := map[string]string{
		"/props":          `{"build_info":"b1","total_slots":1,"default_generation_settings":{"n_ctx":100}}`,
		"/lora-adapters":  `[]`,
		"/apply-template": `{"prompt":"abc"}`,
		"/tokenize":       `{"tokens":[1,2,3]}`,
		"/completion":     "data: {\"stop\":true,\"timings\":{\"cache_n\":0,\"prompt_n\":2}}\n\n",
	}
	maps.Copy(answers, routes)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[r.URL.Path]
		if status := 0; strings.HasPrefix(answer, "HTTP ") {
			fmt.Sscanf(answer, "HTTP %d", &status)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, answer, _ = strings.Cut(answer, "\n")
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(s.Close)
	e, err := New(Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestFaults(t *testing.T) {
	const (
		chat  = "/v1/chat/completions"
		token = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
		last  = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"timings\":{\"cache_n\":2,\"prompt_n\":1,\"predicted_n\":1}}\n\n"
	)
	for name, tt := range map[string]struct {
		path, answer string
		code         jobs.Code // empty: no error
		says         string
	}{
		"complete":                   {chat, token + last + "data: [DONE]\n\n", "", ""},
		"comments and carriage feed": {chat, ": ping\r\n\r\n" + strings.ReplaceAll(token+last, "\n", "\r\n") + "data: [DONE]\r\n\r\n", "", ""},
		"loading":                    {"/props", "HTTP 503\n{\"error\":{\"message\":\"Loading model\"}}", jobs.CodeEngineBusy, "loading"},
		"loading later":              {"/completion", "HTTP 503\n{}", jobs.CodeEngineBusy, "loading"},
		"redirect":                   {"/props", "HTTP 302\n", jobs.CodeEngineUnreachable, "302"},
		"not llama-server":           {"/props", "<html>", jobs.CodeEngineFailed, "/props"},
		"another JSON server":        {"/props", "{}", jobs.CodeEngineUnreachable, "engine URL"},
		"refused":                    {"/apply-template", "HTTP 400\n{\"error\":{\"message\":\"no such role\"}}", jobs.CodeEngineRefused, "no such role"},
		"no tokens":                  {"/tokenize", `{"tokens":[]}`, jobs.CodeEngineRefused, "no tokens"},
		"too long for the server":    {"/completion", "HTTP 400\n{\"error\":{\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":99,\"n_ctx\":50}}", jobs.CodeContextOverflow, "99"},
		"prefill breaks off":         {"/completion", "data: {\"prompt_progress\":{}}\n\n", jobs.CodeEngineFailed, "before its last event"},
		"answer breaks off":          {chat, token, jobs.CodeEngineFailed, "before its last event"},
		"answer ends in an event":    {chat, token + "data: {\"cho", jobs.CodeEngineFailed, "unexpected EOF"},
		"done without a reason":      {chat, token + "data: [DONE]\n\n", jobs.CodeEngineFailed, "without a reason"},
		"empty answer":               {chat, "", jobs.CodeEngineFailed, "before its last event"},
		"error event":                {chat, token + "data: {\"error\":{\"code\":500,\"message\":\"out of memory\"}}\n\n", jobs.CodeEngineFailed, "out of memory"},
		"error event, older":         {chat, token + "error: {\"error\":{\"code\":500,\"message\":\"out of memory\"}}\n\n", jobs.CodeEngineFailed, "out of memory"},
		"error quotes the answer":    {chat, "data: {\"error\":{\"code\":500,\"message\":\"Failed to parse input at pos 3: SECRET\"}}\n\n", jobs.CodeEngineFailed, "does not fit its chat template"},
		"rubbish":                    {chat, "data: rubbish SECRET\n\n", jobs.CodeEngineFailed, "not the JSON"},
		"endless line":               {chat, "data: " + strings.Repeat("a", 2<<20), jobs.CodeEngineFailed, "longer than"},
		"endless event":              {chat, strings.Repeat("data: "+strings.Repeat("a", 1000)+"\n", 2<<10), jobs.CodeEngineFailed, "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := fake(t, map[string]string{tt.path: tt.answer}).Generate(t.Context(), ask("x", 1), ignore)
			if tt.code == "" {
				if err != nil || c.Text != "a" || c.CachedTokens != 0 || c.ComputedTokens != 3 {
					t.Errorf("completion %+v, error %v", c, err)
				}
				return
			}
			if err == nil || jobs.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("error %v (%s), want %s that says %q", err, jobs.CodeOf(err), tt.code, tt.says)
			}
		})
	}
}

// Builds of llama-server refuse schemas for chats of some models; the same prompt is then sent as tokens.
func TestFormatThatTheChatRefuses(t *testing.T) {
	e := fake(t, map[string]string{
		"/v1/chat/completions": "HTTP 400\n{\"error\":{\"message\":\"Failed to initialize samplers: std::exception\"}}",
		"/completion": "data: {\"content\":\"{}\"}\n\n" +
			"data: {\"stop\":true,\"stop_type\":\"eos\",\"timings\":{\"cache_n\":2,\"prompt_n\":1,\"predicted_n\":1}}\n\n",
	})
	for think, warnings := range map[jobs.Think]int{"": 0, jobs.ThinkOff: 0, jobs.ThinkOn: 1, jobs.ThinkHigh: 1} {
		r := ask("x", 1)
		r.Format, r.Think = []byte(`"json"`), think
		if c := generate(t, e, r); c.Text != "{}" || c.FinishReason != "stop" || len(c.Warnings) != warnings {
			t.Errorf("think %q: %+v", think, c)
		}
	}
}

// What the server counts is reported, whatever this side expected of its cache.
func TestSilentMissIsSeen(t *testing.T) {
	e := fake(t, map[string]string{
		"/v1/chat/completions": "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"length\"}],\"timings\":{\"cache_n\":0,\"prompt_n\":4,\"predicted_n\":1}}\n\ndata: [DONE]\n\n",
	})
	c := generate(t, e, ask("x", 1))
	if c.ComputedTokens != 6 || c.CachedTokens != 0 || len(c.Warnings) != 1 {
		t.Errorf("2 tokens computed and then 4, where the prompt has 3, is reported as %+v", c)
	}
}

func TestDescribeWhileLoading(t *testing.T) {
	d, err := fake(t, map[string]string{"/props": "HTTP 503\n{}"}).Describe(t.Context())
	if err != nil || d.Loaded {
		t.Errorf("description %+v, %v; want one that is not loaded", d, err)
	}
}

func TestOptions(t *testing.T) {
	file := write(t, "a.gguf", "")
	for want, o := range map[string]Options{
		"neither":                   {},
		"both":                      {URL: "http://127.0.0.1:1", ModelFile: file},
		"engine URL is":             {URL: "127.0.0.1:8080"},
		"http://127.0.0.1:8080":     {URL: "ftp://127.0.0.1"},
		"slots is -1":               {URL: "http://127.0.0.1:1", Slots: -1},
		"cache type is":             {ModelFile: file, CacheType: "q3"},
		"install llama.cpp":         {ModelFile: file, Binary: "no-such-llama-server"},
		"no such file":              {ModelFile: file + ".not", Binary: "sh"},
		"name the GGUF file itself": {ModelFile: filepath.Dir(file), Binary: "sh"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%+v) gives %v, want an error that says %q", o, err, want)
		}
	}
}
