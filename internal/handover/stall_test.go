package handover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// wire is a network within a synctest bubble, where hours of silence take no time.
type wire struct {
	conns chan net.Conn
	close func()
	ended chan struct{}
}

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.ended:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error {
	w.close()
	return nil
}

func (w *wire) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// overWire fetches a state of five bytes from a handler, in a bubble, and says how long that took.
func overWire(t *testing.T, handle http.HandlerFunc) (took time.Duration, steps int, err error) {
	t.Helper()
	w := &wire{conns: make(chan net.Conn), ended: make(chan struct{})}
	w.close = sync.OnceFunc(func() { close(w.ended) })
	server := &http.Server{Handler: handle, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(w) })
	defer serving.Wait()
	defer server.Close()

	client, err := NewClient(ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		select {
		case w.conns <- far:
			return near, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	state := &jobs.State{URL: "http://127.0.0.1:1/state/0123456789abcdef0123456789abcdef", Token: "t", Bytes: 5}
	dir := t.TempDir()
	start := time.Now()
	_, err = client.Fetch(t.Context(), state, dir, "x-", func() { steps++ })
	took = time.Since(start)
	if err != nil {
		wantEmpty(t, dir)
	}
	return took, steps, err
}

func TestSilence(t *testing.T) {
	const shy = defaultStall - time.Second
	digest := func(w http.ResponseWriter) {
		sum := sha256.Sum256([]byte("state"))
		_, _ = io.WriteString(w, hex.EncodeToString(sum[:]))
	}
	slowly := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Length", "5")
		for _, b := range []byte(text) {
			<-time.After(shy)
			_, _ = w.Write([]byte{b})
			_ = http.NewResponseController(w).Flush()
		}
	}
	asked := 0
	for _, tt := range []struct {
		name   string
		want   jobs.Failure // empty: none
		least  time.Duration
		most   time.Duration
		handle func(w http.ResponseWriter, r *http.Request, digest bool)
	}{
		{"no header", jobs.FailTooSlow, defaultStall, defaultStall, func(_ http.ResponseWriter, r *http.Request, _ bool) {
			<-r.Context().Done()
		}},
		{"slow", "", 5 * shy, 5 * shy, func(w http.ResponseWriter, _ *http.Request, isDigest bool) {
			if isDigest {
				digest(w)
				return
			}
			slowly(w, "state")
		}},
		{"stalls", jobs.FailTooSlow, 3*shy + defaultStall, 3*shy + defaultStall, func(w http.ResponseWriter, r *http.Request, _ bool) {
			slowly(w, "sta")
			<-r.Context().Done()
		}},
		{"stalls when all is there", "", defaultStall, defaultStall, func(w http.ResponseWriter, r *http.Request, isDigest bool) {
			if isDigest {
				digest(w)
				return
			}
			_ = http.NewResponseController(w).Flush() // no length, so that the end must be waited for
			_, _ = io.WriteString(w, "state")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}},
		{"slow digest", "", 28 * time.Second, 32 * time.Second, func(w http.ResponseWriter, _ *http.Request, isDigest bool) {
			if !isDigest {
				_, _ = io.WriteString(w, "state")
				return
			}
			<-time.After(defaultStall + digestWait - time.Second)
			if asked++; asked == 2 {
				digest(w)
				return
			}
			w.WriteHeader(http.StatusAccepted)
		}},
		{"no digest for ever", jobs.FailTooSlow, 30 * time.Second, 40*time.Second + digestPause*4, func(w http.ResponseWriter, _ *http.Request, isDigest bool) {
			if !isDigest {
				_, _ = io.WriteString(w, "state")
				return
			}
			<-time.After(digestWait)
			w.WriteHeader(http.StatusAccepted)
		}},
		{"no digest at once, for ever", jobs.FailTooSlow, 30 * time.Second, 31 * time.Second, func(w http.ResponseWriter, _ *http.Request, isDigest bool) {
			if !isDigest {
				_, _ = io.WriteString(w, "state")
				return
			}
			w.WriteHeader(http.StatusAccepted)
		}},
		{"digest stalls", jobs.FailTooSlow, digestWait + defaultStall, digestWait + defaultStall, func(w http.ResponseWriter, r *http.Request, isDigest bool) {
			if !isDigest {
				_, _ = io.WriteString(w, "state")
				return
			}
			_, _ = io.WriteString(w, "0123")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took, steps, err := overWire(t, func(w http.ResponseWriter, r *http.Request) {
					tt.handle(w, r, strings.HasSuffix(r.URL.Path, "/digest"))
				})
				h, _ := errors.AsType[*protocol.HandoverError](err)
				if tt.want == "" && err != nil || tt.want != "" && (h == nil || h.Failure != tt.want) {
					t.Errorf("error = %v, want a failure %q", err, tt.want)
				}
				if took < tt.least || took > tt.most {
					t.Errorf("it took %v, want %v to %v", took, tt.least, tt.most)
				}
				if tt.want == "" && steps < 2 {
					t.Errorf("%d signs of progress", steps)
				}
			})
		})
	}
}
