package ollama

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tandem/internal/engine"
	"tandem/internal/shim"
	"tandem/jobs"
)

// flood repeats a text for ever and counts what was read of it.
type flood struct {
	text string
	read int
}

func (e *flood) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.text[(e.read+n)%len(e.text):])
	}
	e.read += n
	return n, nil
}

func (e *flood) Close() error { return nil }

// pouring answers everything with one body.
type pouring struct {
	status int
	body   io.ReadCloser
}

func (p pouring) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: p.status, Header: http.Header{}, Body: p.body}, nil
}

func asking(t *testing.T, transport http.RoundTripper, url string) *Engine {
	t.Helper()
	o := Options{URL: url, Model: "m"}
	if transport != nil {
		o.HTTP = &http.Client{Transport: transport}
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// Every answer is read through a limit: what goes on for ever is left, and that is said.
func TestAnswersWithoutEnd(t *testing.T) {
	const most = maxAnswer + maxLine + 1<<20
	generate := func(ctx context.Context, e *Engine) error {
		_, err := e.Generate(ctx, engine.Request{Prompt: "x"}, func(jobs.Chunk) error { return nil })
		return err
	}
	describe := func(ctx context.Context, e *Engine) error {
		_, err := e.Describe(ctx)
		return err
	}
	piece := strings.Repeat("a", 100_000)
	for name, tt := range map[string]struct {
		do     func(context.Context, *Engine) error
		status int
		text   string
		want   string
	}{
		"a line":       {generate, 200, piece, "Ollama's answer is too long"},
		"lines":        {generate, 200, `{"response":"` + piece + `"}` + "\n", "Ollama's answer is too long"},
		"empty lines":  {generate, 200, strings.Repeat("\n", 100_000), "Ollama's answer is too long"},
		"about itself": {describe, 200, strings.Repeat(" ", 100_000), "answer of /api/version: it is longer than 67108864 bytes"},
		"an error":     {describe, 500, piece, "reports an error (status 500)"},
	} {
		t.Run(name, func(t *testing.T) {
			body := &flood{text: tt.text}
			err := tt.do(t.Context(), asking(t, pouring{tt.status, body}, "http://127.0.0.1:1"))
			if jobs.CodeOf(err) != jobs.CodeEngineFailed || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v (%s); want %s and %q", err, jobs.CodeOf(err), jobs.CodeEngineFailed, tt.want)
			}
			if body.read > most {
				t.Errorf("%d bytes were read of it", body.read)
			}
		})
	}
}

// A small body that would unpack to gigabytes stays packed: no client of ours asks for compression.
func TestPackedAnswersStayPacked(t *testing.T) {
	var part bytes.Buffer
	z := gzip.NewWriter(&part)
	if _, err := io.WriteString(z, strings.Repeat(" ", 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	packed := bytes.Repeat(part.Bytes(), 256) // parts may follow each other
	var asked atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(asked.Load() || r.Header.Get("Accept-Encoding") != "")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed) // an error is the client's
	}))
	defer s.Close()
	if _, err := asking(t, nil, s.URL).Describe(t.Context()); jobs.CodeOf(err) != jobs.CodeEngineFailed || !strings.Contains(err.Error(), "is no Ollama") {
		t.Errorf("%v; want that it is no Ollama", err)
	}
	if asked.Load() {
		t.Error("the client asked for compression")
	}
}

// No answer leads anywhere else, whatever is asked, and no proxy of the environment sees a prompt.
func TestNothingGoesElsewhere(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"} {
		t.Setenv(name, other.URL)
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.RedirectHandler(other.URL, status))
		e := asking(t, nil, s.URL)
		_, described := e.Describe(t.Context())
		_, generated := e.Generate(t.Context(), engine.Request{Prompt: "x"}, func(jobs.Chunk) error { return nil })
		for _, err := range []error{described, generated, e.Load(t.Context())} {
			if jobs.CodeOf(err) != jobs.CodeEngineFailed || !strings.Contains(err.Error(), fmt.Sprintf("a redirect (status %d), which is not followed; check --engine-url", status)) {
				t.Errorf("status %d: %v", status, err)
			}
		}
		s.Close()
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// A record of the shim whose port is another server's by now gets no prompt.
func TestStrayRecords(t *testing.T) {
	var prompts atomic.Int32
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/props":
			fmt.Fprint(w, `{"build_info":"b1","model_path":"/other.gguf","total_slots":1,"default_generation_settings":{"n_ctx":100}}`)
		case "/lora-adapters":
			fmt.Fprint(w, `[]`)
		default:
			prompts.Add(1)
		}
	}))
	defer stranger.Close()
	_, port, err := net.SplitHostPort(stranger.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ record, want string }{
		"a port of another server": {`"host":"127.0.0.1","port":` + port, `is another server's, with the model file "/other.gguf": restart Ollama`},
		"another machine":          {`"host":"198.51.100.7","port":80`, "keeps no slot folder"},
		"a name":                   {`"host":"ollama.example","port":80`, "keeps no slot folder"},
		"a host with a port":       {`"host":"127.0.0.1:80@198.51.100.7","port":80`, "keeps no slot folder"},
		"no port":                  {`"host":"127.0.0.1","port":70000`, "keeps no slot folder"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			pid := os.Getpid()
			text := fmt.Sprintf(`{"pid":%d,"model":%q,"slot_dir":%q,"started":%q,%s}`, pid, blob, dir, time.Now().Format(time.RFC3339), tt.record)
			if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(pid)+".json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			answers := scripted{bodies: map[string]string{"/api/version": `{"version":"1"}`, "/api/tags": tags, "/api/ps": ps, "/api/show": show}}
			e, err := New(Options{URL: "http://127.0.0.1:1", Model: "m", RunDir: dir, HTTP: &http.Client{Transport: answers}})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			_, err = e.child(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want %q", err, tt.want)
			}
			if list, err := shim.LiveAll(dir); err != nil || len(list) > 1 {
				t.Errorf("%d records live (%v)", len(list), err)
			}
		})
	}
	if n := prompts.Load(); n != 0 {
		t.Errorf("the stranger was asked %d times for more than what it is", n)
	}
}
