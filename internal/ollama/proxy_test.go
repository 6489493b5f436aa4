package ollama_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between an engine and its Ollama, and lets a test do something at the moment at which the
// engine's request for text arrives.
type proxy struct {
	*httptest.Server

	mu    sync.Mutex
	hook  func(http.ResponseWriter) // for the next request for text, once; it may answer itself
	order []string                  // prompts of the requests for text, as they came
}

// between returns a proxy to a server.
func between(t testing.TB, server string) *proxy {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.FlushInterval = -1
	forward.Transport = &http.Transport{DisableKeepAlives: true}
	forward.ErrorLog = log.New(io.Discard, "", 0)
	p := &proxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the engine is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		answered := &watched{ResponseWriter: w}
		if hook := p.arrived(body); hook != nil {
			hook(answered)
		}
		if !answered.began {
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// arrived returns the hook for a request, nil if there is none.
func (p *proxy) arrived(body []byte) func(http.ResponseWriter) {
	var sent struct {
		Prompt   string
		Messages []any
		Render   bool `json:"_debug_render_only"`
	}
	if json.Unmarshal(body, &sent) != nil || sent.Render || sent.Prompt == "" && len(sent.Messages) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order = append(p.order, sent.Prompt)
	hook := p.hook
	p.hook = nil
	return hook
}

// next sets what happens when the next request for text arrives.
func (p *proxy) next(hook func(http.ResponseWriter)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

// arrivals are the prompts of the requests for text, in the order of their arrival.
func (p *proxy) arrivals() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.order...)
}

// watched notes whether an answer was begun.
type watched struct {
	http.ResponseWriter
	began bool
}

func (w *watched) WriteHeader(status int) {
	w.began = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Write(b []byte) (int, error) {
	w.began = true
	return w.ResponseWriter.Write(b)
}
