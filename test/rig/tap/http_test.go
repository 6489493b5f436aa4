package tap

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// target is a server that says what it was asked, in two pieces, and one answer without an end.
func target(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("X-Host", r.Host)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body)
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header()["X-Query"] = []string{r.URL.RawQuery}
		for i := range 10 {
			_, _ = fmt.Fprintf(w, "line %d\n", i)
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("X-Sum", "70")
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "state.bin", time.Time{}, strings.NewReader("0123456789"))
	})
	mux.HandleFunc("/half", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/plain", func(http.ResponseWriter, *http.Request) {})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func listenHTTP(t *testing.T, target string, on func(*Exchange) Answer) (*Tap, *http.Client) {
	t.Helper()
	tp, err := ListenHTTP(HTTPOptions{Target: target, On: on})
	open(t, tp, err)
	c := &http.Client{Transport: &http.Transport{}, Timeout: testTimeout}
	t.Cleanup(c.CloseIdleConnections)
	return tp, c
}

// get asks, and returns the answer with as much of its body as came.
func get(t *testing.T, c *http.Client, method, url, body string, header ...string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	return res, string(got), err
}

const lines = "line 0\nline 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\nline 9\n"

func TestHTTPPasses(t *testing.T) {
	for name, weather := range map[string]Conditions{"fair": {}, "slow": {Delay: 5 * time.Millisecond}, "narrow": {BytesPerSecond: 1 << 20}} {
		t.Run(name, func(t *testing.T) {
			s := target(t)
			var bodies []string
			tp, c := listenHTTP(t, s.Listener.Addr().String(), func(x *Exchange) Answer {
				bodies = append(bodies, string(x.Body))
				return Answer{}
			})
			tp.Set(weather)
			url := "http://" + tp.Addr()
			large := strings.Repeat("0123456789abcdef", 10<<10)
			res, got, err := get(t, c, "POST", url+"/echo", large)
			if err != nil || got != large || res.ContentLength != int64(len(large)) || res.Header.Get("X-Host") != tp.Addr() {
				t.Errorf("echo: %d bytes, %v, %v", len(got), res, err)
			}
			res, got, err = get(t, c, "GET", url+"/stream?a=1;b", "")
			if err != nil || got != lines || res.Trailer.Get("X-Sum") != "70" || res.Header.Get("X-Query") != "a=1;b" {
				t.Errorf("stream: %q, %v, %v", got, res, err)
			}
			res, got, err = get(t, c, "GET", url+"/file", "", "Range", "bytes=3-5")
			if err != nil || got != "345" || res.StatusCode != http.StatusPartialContent || res.Header.Get("Content-Range") != "bytes 3-5/10" {
				t.Errorf("range: %q, %v, %v", got, res, err)
			}
			if res, _, err = get(t, c, "HEAD", url+"/file", ""); err != nil || res.ContentLength != 10 {
				t.Errorf("head: %v, %v", res, err)
			}
			if len(bodies) != 4 || bodies[0] != large || bodies[1] != "" {
				t.Errorf("%d requests were seen, want 4", len(bodies))
			}
			if _, got, err = get(t, c, "GET", url+"/half", ""); got != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("what the target cut off came as %q, %v", got, err)
			}
			if res, _, err = get(t, c, "GET", url+"/plain", ""); err != nil || len(res.Header["Content-Type"]) != 0 {
				t.Errorf("plain: %v, %v", res, err)
			}
			if err := tp.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHTTPFaults(t *testing.T) {
	s := target(t)
	for _, tt := range []struct {
		name   string
		path   string
		answer Answer
		status int // 0: no answer at all
		body   string
		err    error // of reading the body; nil: it ends regularly
	}{
		{"cut in mid stream", "/stream", Answer{Cut: 10}, 200, lines[:10], io.ErrUnexpectedEOF},
		{"cut at the end", "/stream", Answer{Cut: 70}, 200, lines, io.ErrUnexpectedEOF},
		{"cut a known length", "/file", Answer{Cut: 4}, 200, "0123", io.ErrUnexpectedEOF},
		{"cut later than the end", "/stream", Answer{Cut: 71}, 200, lines, nil},
		{"append in mid stream", "/stream", Answer{Cut: 7, Append: `{"error":"x"}`}, 200, "line 0\n" + `{"error":"x"}`, nil},
		{"append to a known length", "/file", Answer{Append: "ab"}, 200, "0123456789ab", nil},
		{"append to all", "/stream", Answer{Cut: 1000, Append: "more"}, 200, lines + "more", nil},
		{"flip", "/file", Answer{Alter: flip(10)}, 200, "0123456788", nil},
		{"flip late in a stream", "/stream", Answer{Alter: flip(69)}, 200, lines[:68] + "8\n", nil},
		{"flip beyond the end", "/file", Answer{Alter: flip(11)}, 200, "0123456789", nil},
		{"status", "/file", Answer{Status: 503, Text: "loading"}, 503, "loading", nil},
		{"rubbish", "/file", Answer{Status: 200, Text: "\x00{{{"}, 200, "\x00{{{", nil},
		{"no answer", "/file", Answer{Verdict: Cut}, 0, "", nil},
		{"reset", "/file", Answer{Verdict: Reset}, 0, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answered, ended := 0, make(chan struct{})
			tt.answer.Answered = func() { answered++ }
			tt.answer.Ended = func() { close(ended) }
			tp, c := listenHTTP(t, s.Listener.Addr().String(), func(*Exchange) Answer { return tt.answer })
			res, got, err := get(t, c, "POST", "http://"+tp.Addr()+tt.path, "a body is not sent again")
			<-ended
			if tt.status == 0 {
				want := io.EOF
				if tt.answer.Verdict == Reset {
					want = syscall.ECONNRESET
				}
				if !errors.Is(err, want) || answered != 0 {
					t.Errorf("got %v, %v, answered %d times; want no answer and %v", res, err, answered, want)
				}
				return
			}
			if res == nil {
				t.Fatal(err)
			}
			if res.StatusCode != tt.status || got != tt.body || !errors.Is(err, tt.err) {
				t.Errorf("got %d, %q, %v; want %d, %q, %v", res.StatusCode, got, err, tt.status, tt.body, tt.err)
			}
			if answered != 1 {
				t.Errorf("answered %d times, want once", answered)
			}
		})
	}
}

// TestHTTPNeverEnds has answers that only end when the client goes away or the tap closes.
func TestHTTPNeverEnds(t *testing.T) {
	s := target(t)
	held := func(x *Exchange) Answer { <-x.Done; return Answer{} }
	for _, tt := range []struct {
		name string
		on   func(*Exchange) Answer
		body string // that comes before
	}{
		{"lose", func(*Exchange) Answer { return Answer{Verdict: Lose} }, ""},
		{"hang", func(*Exchange) Answer { return Answer{Hang: 10} }, lines[:10]},
		{"hang at the end", func(*Exchange) Answer { return Answer{Hang: 70} }, lines},
		{"held", held, ""},
	} {
		for _, end := range []string{"client", "cut", "tap"} {
			t.Run(tt.name+" until "+end, func(t *testing.T) {
				asked, ended := make(chan struct{}), make(chan struct{})
				tp, c := listenHTTP(t, s.Listener.Addr().String(), func(x *Exchange) Answer {
					close(asked)
					a := tt.on(x)
					a.Ended = func() { close(ended) }
					return a
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				came, over := make(chan struct{}), make(chan struct{})
				if tt.body == "" {
					close(came)
				}
				go func() {
					defer close(over)
					r, err := http.NewRequestWithContext(ctx, "POST", "http://"+tp.Addr()+"/stream", strings.NewReader("body"))
					if err != nil {
						t.Error(err)
						return
					}
					res, err := c.Do(r)
					if tt.body == "" {
						if err == nil {
							_ = res.Body.Close()
							t.Error("there was an answer")
						}
						return
					}
					if err != nil {
						t.Error(err)
						close(came)
						return
					}
					defer func() { _ = res.Body.Close() }()
					got := make([]byte, len(tt.body))
					if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != tt.body {
						t.Errorf("got %q, %v", got, err)
					}
					close(came)
					if n, err := io.Copy(io.Discard, res.Body); n > 0 || err == nil {
						t.Errorf("%d more bytes came, %v", n, err)
					}
				}()
				<-asked
				<-came
				switch end {
				case "client":
					cancel()
				case "cut":
					tp.Cut()
				case "tap":
					if err := tp.Close(); err != nil {
						t.Error(err)
					}
				}
				<-ended
				<-over
			})
		}
	}
}

func TestHTTPClientLeaves(t *testing.T) {
	began, left := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	}))
	defer s.Close()
	tp, c := listenHTTP(t, s.Listener.Addr().String(), func(*Exchange) Answer { return Answer{Answered: func() { close(began) }} })
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+tp.Addr(), strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r) // the status comes although no byte of the body does
	if err != nil {
		t.Fatal(err)
	}
	<-began
	cancel()
	_ = res.Body.Close()
	<-left
}

func TestHTTPTargetDownAndElsewhere(t *testing.T) {
	first, second := target(t), target(t)
	tp, c := listenHTTP(t, first.Listener.Addr().String(), nil)
	url := "http://" + tp.Addr() + "/file"
	if _, got, err := get(t, c, "GET", url, ""); err != nil || got != "0123456789" {
		t.Fatalf("got %q, %v", got, err)
	}
	first.Close()
	if res, _, err := get(t, c, "POST", url, "body"); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("without a target: %v, %v; want no answer", res, err)
	}
	tp.SetTarget(second.Listener.Addr().String())
	if _, got, err := get(t, c, "POST", url, "body"); err != nil || got != "0123456789" {
		t.Errorf("from the new target: %q, %v", got, err)
	}
}

func TestHTTPDropHoldsRequestAndAnswer(t *testing.T) {
	s := target(t)
	var tp *Tap
	seen := make(chan struct{})
	var once sync.Once
	late := make(chan bool, 3)
	tp, c := listenHTTP(t, s.Listener.Addr().String(), func(x *Exchange) Answer {
		late <- x.Late
		return Answer{Answered: func() {
			once.Do(func() {
				tp.Set(Conditions{Drop: true})
				close(seen)
			})
		}}
	})
	done := make(chan error, 1)
	go func() {
		_, got, err := get(t, c, "GET", "http://"+tp.Addr()+"/file", "")
		if err == nil && got != "0123456789" {
			err = fmt.Errorf("got %q", got)
		}
		done <- err
	}()
	<-seen
	raw := dial(t, tp)
	if _, err := io.WriteString(raw, "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	silence(t, raw)
	select {
	case err := <-done:
		t.Errorf("an answer passed a wire that drops: %v", err)
	default:
	}
	tp.Set(Conditions{})
	if err := <-done; err != nil {
		t.Error(err)
	}
	if <-late || !<-late {
		t.Error("want only the request late that the wire held back")
	}
	if _, err := io.WriteString(raw, "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if <-late {
		t.Error("the next request of the connection is late as well")
	}
}

func TestHTTPBodyOverLimit(t *testing.T) {
	s := target(t)
	tp, c := listenHTTP(t, s.Listener.Addr().String(), nil)
	res, err := c.Post("http://"+tp.Addr()+"/echo", "", bytes.NewReader(make([]byte, maxBody+1)))
	if err == nil {
		_ = res.Body.Close()
		t.Errorf("a request over the limit was answered with %d", res.StatusCode)
	}
	if err := tp.Err(); err == nil || !strings.Contains(err.Error(), "over the limit") {
		t.Errorf("Err = %v, want the limit", err)
	}
}

// TestHTTPStreamsAtOnce makes sure that each piece passes when it comes.
func TestHTTPStreamsAtOnce(t *testing.T) {
	heard := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 5 {
			_, _ = io.WriteString(w, "token\n")
			_ = http.NewResponseController(w).Flush()
			<-heard
		}
	}))
	defer s.Close()
	tp, c := listenHTTP(t, s.Listener.Addr().String(), nil)
	res, err := c.Get("http://" + tp.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	r := bufio.NewReader(res.Body)
	for range 5 {
		if line, err := r.ReadString('\n'); err != nil || line != "token\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		heard <- struct{}{}
	}
}

func TestHTTPPanicIsKept(t *testing.T) {
	s := target(t)
	tp, c := listenHTTP(t, s.Listener.Addr().String(), func(*Exchange) Answer { panic("a mistake in On") })
	if res, _, err := get(t, c, "POST", "http://"+tp.Addr()+"/file", "body"); err == nil {
		t.Errorf("answered with %d", res.StatusCode)
	}
	if err := tp.Err(); err == nil || !strings.Contains(err.Error(), "a mistake in On") {
		t.Errorf("Err = %v, want the panic", err)
	}
}

// flip changes the lowest bit of the nth byte of a body, from 1.
func flip(n int) func(int, []byte) {
	return func(at int, piece []byte) {
		if i := n - 1 - at; i >= 0 && i < len(piece) {
			piece[i] ^= 1
		}
	}
}
