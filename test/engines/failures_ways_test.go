package engines

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem/internal/protocol"
)

// link is the way of KV states from a prefill worker to a decode worker, which a test can spoil.
type link struct {
	t      *testing.T
	addr   string // where decode workers ask
	target string // where the prefill worker listens
	client *http.Client

	mu      sync.Mutex
	fault   fault    // of requests for states; nil: none
	deaf    bool     // to the word that a state is done with
	fetched []string // path and range of each request for a state
	close   func()
}

// fault answers a request for a state.
type fault func(l *link, w http.ResponseWriter, r *http.Request)

func newLink(t *testing.T) *link {
	l := &link{t: t, addr: freeAddress(t), target: freeAddress(t), client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	l.open()
	t.Cleanup(func() { l.close() })
	return l
}

// freeAddress is one of the loopback interface on which nobody listens now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// open begins to listen, also after close.
func (l *link) open() {
	l.t.Helper()
	listener, err := net.Listen("tcp", l.addr)
	if err != nil {
		l.t.Fatal(err)
	}
	server := &http.Server{Handler: l, ErrorLog: log.New(io.Discard, "", 0)}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			l.t.Errorf("link: %v", err)
		}
	})
	l.close = sync.OnceFunc(func() {
		server.Close()
		serving.Wait()
	})
}

// spoil sets what happens to all further requests for states.
func (l *link) spoil(f fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault, l.fetched = f, nil
}

// deafen has the word that a state is done with get lost, or not.
func (l *link) deafen(deaf bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf = deaf
}

// requests are those for states since the last spoil.
func (l *link) requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.fetched...)
}

func (l *link) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	f, deaf := l.fault, l.deaf && r.Method == http.MethodDelete
	state := r.Method == http.MethodGet && !strings.HasSuffix(r.URL.Path, "/digest")
	if state {
		l.fetched = append(l.fetched, strings.TrimSpace(r.URL.Path+" "+r.Header.Get("Range")))
	}
	l.mu.Unlock()
	switch {
	case deaf:
		hangUp()
	case state && f != nil:
		f(l, w, r)
	default:
		l.ask(r).send(w)
	}
}

func hangUp() { panic(http.ErrAbortHandler) }

// answer is one of the prefill worker's, whole.
type answer struct {
	*http.Response
	body []byte
}

// ask passes a request on. If nobody answers, the asker gets no answer either.
func (l *link) ask(r *http.Request) answer {
	return l.request(r, r.Method, r.URL.Path)
}

func (l *link) request(r *http.Request, method, path string) answer {
	req, err := http.NewRequestWithContext(r.Context(), method, "http://"+l.target+path, nil)
	if err != nil {
		hangUp()
	}
	for _, name := range []string{"Authorization", "Range"} {
		if v := r.Header.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	resp, err := l.client.Do(req)
	if err != nil {
		hangUp()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		hangUp()
	}
	return answer{resp, body}
}

func (a answer) send(w http.ResponseWriter) { a.begin(w, len(a.body)) }

// begin sends the head and the first n bytes.
func (a answer) begin(w http.ResponseWriter, n int) {
	for _, name := range []string{"Content-Length", "Content-Range", "Content-Type"} {
		if v := a.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(a.StatusCode)
	if _, err := w.Write(a.body[:n]); err != nil {
		hangUp()
	}
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

// The faults of a link.

func flipped(l *link, w http.ResponseWriter, r *http.Request) {
	a := l.ask(r)
	for i := range a.body[len(a.body)/2:][:16] {
		a.body[len(a.body)/2+i] ^= 0xff
	}
	a.send(w)
}

// broken never gets beyond the middle.
func broken(l *link, w http.ResponseWriter, r *http.Request) {
	a, n := l.ask(r), 0
	if r.Header.Get("Range") == "" {
		n = len(a.body) / 2
	}
	a.begin(w, n)
	hangUp()
}

// brokenOnce goes on from the middle when it is asked to.
func brokenOnce(l *link, w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Range") != "" {
		l.ask(r).send(w)
		return
	}
	broken(l, w, r)
}

func stalled(l *link, w http.ResponseWriter, r *http.Request) {
	a := l.ask(r)
	a.begin(w, len(a.body)/2)
	<-r.Context().Done()
}

// slow takes a bit more time than is said without a warning.
func slow(l *link, w http.ResponseWriter, r *http.Request) {
	a := l.ask(r)
	a.begin(w, len(a.body)/2)
	select {
	case <-time.After(protocol.SlowTransferAfter + 50*time.Millisecond):
	case <-r.Context().Done():
	}
	_, _ = w.Write(a.body[len(a.body)/2:])
}

func unknown(_ *link, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }

func silent(*link, http.ResponseWriter, *http.Request) { hangUp() }

// held closes began in the middle of the first transfer, and breaks it when cut is closed. Others are not hindered.
func held(began chan<- struct{}, cut <-chan struct{}) fault {
	var first sync.Once
	return func(l *link, w http.ResponseWriter, r *http.Request) {
		a, now := l.ask(r), false
		first.Do(func() { now = true })
		if now { // a later one, fetched ahead, gets nothing
			a.begin(w, len(a.body)/2)
			close(began)
		}
		select {
		case <-cut:
		case <-r.Context().Done():
		}
		hangUp()
	}
}

// gateway stands between a worker and its engine, and lets a test answer in the engine's place.
type gateway struct {
	*httptest.Server
	forward http.Handler

	mu   sync.Mutex
	hook hook
}

// hook answers a request, itself or by what forward answers.
type hook func(w http.ResponseWriter, r *http.Request, body []byte, forward http.Handler)

func newGateway(t *testing.T, engine string) *gateway {
	t.Helper()
	target, err := url.Parse(engine)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.FlushInterval = -1
	forward.Transport = &http.Transport{DisableKeepAlives: true}
	forward.ErrorLog = log.New(io.Discard, "", 0)
	g := &gateway{forward: forward}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

// set sets what happens to all further requests; nil: nothing.
func (g *gateway) set(h hook) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hook = h
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the worker is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	g.mu.Lock()
	h := g.hook
	g.mu.Unlock()
	if h == nil {
		g.forward.ServeHTTP(w, r)
		return
	}
	h(w, r, body, g.forward)
}

// asksForText reports whether a request to an Ollama is for a text, not for a rendered prompt, and not to load the model.
func asksForText(r *http.Request, body []byte) bool {
	var sent struct {
		Prompt string
		Render bool `json:"_debug_render_only"`
	}
	return r.URL.Path == "/api/generate" && json.Unmarshal(body, &sent) == nil && sent.Prompt != "" && !sent.Render
}
