package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// tap passes on what an engine answers, and notes when each line of a stream came.
type tap struct {
	url    string
	server *http.Server

	mu sync.Mutex
	at []time.Time
}

func newTap(engine string) (*tap, error) {
	to, err := url.Parse(engine)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &tap{url: "http://" + listener.Addr().String()}
	proxy := &httputil.ReverseProxy{
		FlushInterval:  -1,
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: t.listen,
	}
	t.server = &http.Server{Handler: proxy}
	go func() { _ = t.server.Serve(listener) }() // until it is closed
	return t, nil
}

func (t *tap) listen(answer *http.Response) error {
	if strings.Contains(answer.Header.Get("Content-Type"), "ndjson") {
		answer.Body = &heard{answer.Body, t}
	}
	return nil
}

func (t *tap) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = nil
}

func (t *tap) times() []time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at
}

// heard is a body whose lines are noted.
type heard struct {
	io.ReadCloser
	t *tap
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	now := time.Now()
	h.t.mu.Lock()
	defer h.t.mu.Unlock()
	for range bytes.Count(p[:n], []byte("\n")) {
		h.t.at = append(h.t.at, now)
	}
	return n, err
}
