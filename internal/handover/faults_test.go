package handover

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"tandem/jobs"
)

const faultBytes = 5 << 20

// TestFaults has the real server's answers spoilt on their way.
func TestFaults(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	status := func(code int) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(code) }
	}
	digestIs := func(answer func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, "/digest") {
				answer(w)
				return
			}
			next.ServeHTTP(w, r)
		}
	}
	// body has the state's bytes changed, and sent without a length if it is not the same.
	body := func(change func([]byte) []byte, length func(int) int) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, "/digest") {
				next.ServeHTTP(w, r)
				return
			}
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			content := change(rec.Body.Bytes())
			for _, name := range []string{"Content-Range", "Content-Type"} {
				if v := rec.Header().Get(name); v != "" {
					w.Header().Set(name, v)
				}
			}
			if length != nil {
				w.Header().Set("Content-Length", strconv.Itoa(length(rec.Body.Len())))
			}
			w.WriteHeader(rec.Code)
			if length == nil {
				_ = http.NewResponseController(w).Flush()
			}
			_, _ = w.Write(content)
		}
	}
	same := func(n int) int { return n }

	for _, tt := range []struct {
		name  string
		want  jobs.Failure
		spoil func(w http.ResponseWriter, r *http.Request, next http.Handler)
	}{
		{"404", jobs.FailNotFound, status(404)},
		{"410", jobs.FailNotFound, status(410)},
		{"416", jobs.FailTruncated, status(416)},
		{"500", jobs.FailUnreachable, status(500)},
		{"503", jobs.FailUnreachable, status(503)},
		{"401", jobs.FailUnreachable, status(401)},
		{"204", jobs.FailTruncated, status(204)},
		{"206 unasked", jobs.FailTruncated, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			r.Header.Set("Range", fmt.Sprintf("bytes=0-%d", faultBytes-1))
			next.ServeHTTP(w, r)
		}},
		{"redirect", jobs.FailRefusedURL, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		}},
		{"redirect of the digest", jobs.FailRefusedURL, digestIs(func(w http.ResponseWriter) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})},
		{"no HTTP", jobs.FailUnreachable, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { hijack(t, w, "something else\r\n\r\n") }},
		{"no answer", jobs.FailUnreachable, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { hijack(t, w, "") }},
		{"header without end", jobs.FailUnreachable, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			hijack(t, w, "HTTP/1.1 200 OK\r\n"+strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 100))
		}},
		{"smaller file", jobs.FailTruncated, body(func(p []byte) []byte { return p[:len(p)-1] }, func(n int) int { return n - 1 })},
		{"larger file", jobs.FailTruncated, body(func(p []byte) []byte { return append(p, 0) }, func(n int) int { return n + 1 })},
		{"larger file without length", jobs.FailTruncated, body(func(p []byte) []byte { return append(p, 0) }, nil)},
		{"ends early without length", jobs.FailTruncated, body(func(p []byte) []byte { return p[:len(p)-min(len(p), 10)] }, nil)},
		{"ends early", jobs.FailTruncated, body(func(p []byte) []byte { return p[:len(p)-min(len(p), 10)] }, same)},
		{"goes on from the start", jobs.FailTruncated, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			r.Header.Del("Range")
			body(func(p []byte) []byte { return p[:len(p)/2] }, same)(w, r, next)
		}},
		{"goes on from elsewhere", jobs.FailTruncated, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if asked := r.Header.Get("Range"); asked != "" {
				var from int
				if _, err := fmt.Sscanf(asked, "bytes=%d-", &from); err != nil {
					t.Error(err)
				}
				r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from-1, faultBytes-2))
			}
			body(func(p []byte) []byte { return p[:len(p)/2] }, same)(w, r, next)
		}},
		{"first byte differs", jobs.FailDigest, body(flip(0), same)},
		{"some byte differs", jobs.FailDigest, body(flip(faultBytes/2), same)},
		{"last byte differs", jobs.FailDigest, body(flip(faultBytes-1), same)},
		{"another digest", jobs.FailDigest, digestIs(func(w http.ResponseWriter) { _, _ = io.WriteString(w, strings.Repeat("0", 64)) })},
		{"half a digest", jobs.FailDigest, digestIs(func(w http.ResponseWriter) { _, _ = io.WriteString(w, strings.Repeat("0", 32)) })},
		{"endless digest", jobs.FailDigest, digestIs(func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 1<<20)) })},
		{"no digest", jobs.FailNotFound, digestIs(func(w http.ResponseWriter) { w.WriteHeader(404) })},
		{"500 for the digest", jobs.FailUnreachable, digestIs(func(w http.ResponseWriter) { w.WriteHeader(500) })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var book logbook
			s := newServer(t, ServerConfig{Log: book.log()})
			state, _ := offer(t, s, "job", faultBytes)
			moved := behind(t, s, &state, tt.spoil)
			dir := t.TempDir()
			_, err := newClient(t, ClientConfig{Log: book.log()}).Fetch(t.Context(), moved, dir, "x-", func() {})
			wantFailure(t, err, tt.want, moved, dir)
			if err != nil && strings.Contains(err.Error(), "something else") {
				t.Errorf("the error repeats what the other side sent: %v", err)
			}
			wantSecret(t, book.String(), moved)
		})
	}
}

func flip(i int) func([]byte) []byte {
	return func(p []byte) []byte {
		p = bytes.Clone(p)
		p[i] ^= 1
		return p
	}
}

// hijack answers with anything, and ends the connection.
func hijack(t *testing.T, w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.WriteString(conn, text)
	_ = conn.Close()
}

func TestBrokenTransferGoesOn(t *testing.T) {
	s := newServer(t, ServerConfig{})
	for _, tt := range []struct {
		name    string
		cuts    []int64
		resumed int
	}{
		{"once", []int64{2 << 20}, 1},
		{"often, with progress", []int64{2 << 20, 2 << 20, 2 << 20, 2 << 20, 2 << 20, 2 << 20}, 6},
		{"a few times without any", []int64{2 << 20, 0, 10, 0}, 1},
		{"in the digest's answer", []int64{16<<20 + 200}, 0}, // beyond the first answer, with its header
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			state, content := offer(t, s, "job", 16<<20)
			l, url := newLine(t, s, false, tt.cuts...)
			got, err := newClient(t, ClientConfig{}).Fetch(t.Context(), at(&state, s.URL(), url), t.TempDir(), "x-", nil)
			wantFetched(t, got, err, content)
			if got.Resumed != tt.resumed {
				t.Errorf("resumed %d times, over %d connections", got.Resumed, l.connections())
			}
		})
	}
}

func TestBrokenTransferIsGivenUp(t *testing.T) {
	s := newServer(t, ServerConfig{})
	nothing := make([]int64, 20)
	little := append([]int64{2 << 20}, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000)
	for _, tt := range []struct {
		name string
		cuts []int64
		dead bool
		want jobs.Failure
		most int // connections
	}{
		{"never a byte", nothing, false, jobs.FailUnreachable, 1},
		{"no answer any more", append([]int64{2 << 20}, nothing...), false, jobs.FailUnreachable, 1 + maxBroken + 1},
		{"hardly a byte any more", little, false, jobs.FailTruncated, 1 + maxBroken + 1},
		{"nobody there any more", []int64{2 << 20}, true, jobs.FailUnreachable, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			state, _ := offer(t, s, "job", 8<<20)
			l, url := newLine(t, s, tt.dead, tt.cuts...)
			moved := at(&state, s.URL(), url)
			dir := t.TempDir()
			_, err := newClient(t, ClientConfig{}).Fetch(t.Context(), moved, dir, "x-", nil)
			wantFailure(t, err, tt.want, moved, dir)
			if n := l.connections(); n > tt.most {
				t.Errorf("%d connections were tried", n)
			}
		})
	}
}

// watcher calls a function when something is logged.
type watcher struct {
	text string
	call func()
}

func (w *watcher) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.text)) {
		w.call()
	}
	return len(p), nil
}

func (w *watcher) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
