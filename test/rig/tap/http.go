package tap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
)

// maxBody bounds a request's body, in bytes.
const maxBody = 64 << 20

// ListenHTTP opens a tap on plain HTTP/1.1. Each request goes to the target over a connection of its own, so that it reaches whoever listens there now. If nobody
// does, or the target breaks off, the client's connection is closed: the tap never answers in the target's stead.
func ListenHTTP(o HTTPOptions) (*Tap, error) {
	t, err := listen(o.Target)
	if err != nil {
		return nil, err
	}
	silent := log.New(io.Discard, "", 0) // broken connections are what the tap is for
	h := &courier{tap: t, on: o.On, silent: silent, transport: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return t.dial(ctx) },
		DisableKeepAlives:  true,
		DisableCompression: true,
	}}
	server := &http.Server{
		Handler:                      h,
		ErrorLog:                     silent,
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return t.ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, clientKey{}, c)
		},
		ConnState: func(_ net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				t.tasks.Add(1) // by the goroutine of Serve, which Close waits for as well
			case http.StateClosed, http.StateHijacked:
				t.tasks.Done()
			}
		},
	}
	t.stop = func() { _ = server.Close() }            // it only closes what the tap has closed
	t.start(func() { _ = server.Serve(incoming{t}) }) // it ends with the listener
	return t, nil
}

// clientKey is where a request's context has the client's connection.
type clientKey struct{}

// incoming is the tap's listener for a server.
type incoming struct{ tap *Tap }

func (i incoming) Accept() (net.Conn, error) {
	c, err := i.tap.accept()
	if err != nil {
		return nil, err // not a typed nil
	}
	return c, nil
}

func (i incoming) Close() error   { return i.tap.listener.Close() }
func (i incoming) Addr() net.Addr { return i.tap.listener.Addr() }

// courier carries requests.
type courier struct {
	tap       *Tap
	on        func(*Exchange) Answer
	transport *http.Transport
	silent    *log.Logger
}

// ServeHTTP implements http.Handler. It aborts, which closes the connection, wherever the client is to see that.
func (c *courier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { // On or another of the owner's functions; the server would hide it
				c.tap.fail(fmt.Errorf("carry %s %s: panic: %v", r.Method, r.URL.Path, p))
			}
			panic(p)
		}
	}()
	var body []byte
	over := r.ContentLength > maxBody
	if !over {
		var err error
		if body, err = io.ReadAll(io.LimitReader(r.Body, maxBody+1)); err != nil {
			panic(http.ErrAbortHandler)
		}
		over = len(body) > maxBody
	}
	if over {
		c.tap.fail(fmt.Errorf("carry %s %s: its body is over the limit of %d bytes", r.Method, r.URL.Path, maxBody))
		panic(http.ErrAbortHandler)
	}
	client := r.Context().Value(clientKey{}).(*conn)
	late := client.held.Swap(false)
	var a Answer
	if c.on != nil {
		a = c.on(&Exchange{Request: r, Body: body, Late: late, Done: r.Context().Done()})
	}
	if a.Ended != nil {
		defer a.Ended()
	}
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // On waited until the client went away
	}
	switch a.Verdict {
	case Lose:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case Reset:
		_ = client.Reset() // always nil
		panic(http.ErrAbortHandler)
	case Cut:
		panic(http.ErrAbortHandler)
	}
	// What the target did not send the server would add.
	w.Header()["Date"], w.Header()["Content-Type"] = nil, nil
	if a.Status != 0 {
		a.write(w)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c.forward(w, r, a)
}

// write sends the tap's own answer.
func (a *Answer) write(w http.ResponseWriter) {
	if a.Answered != nil {
		a.Answered()
	}
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Text) // it fails only if the client is gone
}

// forward asks the target, and passes its answer on as far as a says.
func (c *courier) forward(w http.ResponseWriter, r *http.Request, a Answer) {
	proxy := httputil.ReverseProxy{
		Transport:     c.transport,
		FlushInterval: -1,
		ErrorLog:      c.silent,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", c.tap.Addr() // the Host header stays what the client sent
			p.Out.URL.RawQuery = r.URL.RawQuery                     // also what is no proper query
		},
		ModifyResponse: func(res *http.Response) error {
			if a.Answered != nil {
				a.Answered()
			}
			if a.Append != "" {
				res.Header.Del("Content-Length")
				res.ContentLength = -1
			}
			res.Body = &spoilt{ReadCloser: res.Body, ctx: r.Context(), answer: a, rest: a.Append}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	proxy.ServeHTTP(w, r)
}

// errBroken is how a body ends that is cut off.
var errBroken = errors.New("cut off by the tap")

// spoilt is a target's body as an [Answer] wants it.
type spoilt struct {
	io.ReadCloser
	ctx    context.Context // of the client
	answer Answer
	at     int    // bytes read
	ended  bool   // only rest follows
	rest   string // of Append
}

// Read implements io.Reader.
func (s *spoilt) Read(b []byte) (int, error) {
	a := &s.answer
	if a.Hang > 0 && s.at >= a.Hang {
		<-s.ctx.Done()
		return 0, context.Cause(s.ctx)
	}
	if a.Cut > 0 && s.at >= a.Cut {
		if a.Append == "" {
			return 0, errBroken
		}
		s.ended = true
	}
	if s.ended {
		n := copy(b, s.rest)
		if s.rest = s.rest[n:]; n == 0 && len(b) > 0 {
			return 0, io.EOF
		}
		return n, nil
	}
	for _, end := range []int{a.Hang, a.Cut} {
		if end > 0 {
			b = b[:min(len(b), end-s.at)]
		}
	}
	n, err := s.ReadCloser.Read(b)
	if a.Alter != nil && n > 0 {
		a.Alter(s.at, b[:n])
	}
	s.at += n
	if errors.Is(err, io.EOF) && (a.Append != "" || a.Hang > 0 && s.at >= a.Hang || a.Cut > 0 && s.at >= a.Cut) {
		s.ended, err = true, nil // what a says comes first
	}
	return n, err
}
