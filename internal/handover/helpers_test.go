package handover

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tandem/internal/protocol"
	"tandem/jobs"
)

func newServer(tb testing.TB, c ServerConfig) *Server {
	tb.Helper()
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Budget == 0 {
		c.Budget = 1 << 30
	}
	s, err := Serve(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func newClient(tb testing.TB, c ClientConfig) *Client {
	tb.Helper()
	client, err := NewClient(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}

// offer offers a new file of noise and returns what is in it.
func offer(tb testing.TB, s *Server, job string, bytes int64) (jobs.State, []byte) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "state")
	writeNoise(tb, path, bytes)
	content, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	state, err := s.Offer(job, path)
	if err != nil {
		tb.Fatal(err)
	}
	return state, content
}

// wantFetched checks that a state has arrived, and only that is in its folder.
func wantFetched(t *testing.T, got Fetched, err error, content []byte) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(got.Path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file, content) || got.Bytes != int64(len(content)) {
		t.Errorf("%d bytes of %d arrived, said to be %d; or they differ", len(file), len(content), got.Bytes)
	}
}

// wantFailure checks that an error is a failure of this kind, tells nothing that is secret, and left no file.
func wantFailure(t *testing.T, err error, want jobs.Failure, s *jobs.State, dir string) {
	t.Helper()
	h, ok := errors.AsType[*protocol.HandoverError](err)
	if !ok || h.Failure != want {
		t.Errorf("error = %v, want a failure %s", err, want)
	}
	wantSecret(t, err.Error(), s)
	wantEmpty(t, dir)
}

// wantSecret checks that a text holds neither token nor path.
func wantSecret(t *testing.T, text string, s *jobs.State) {
	t.Helper()
	_, id, _ := strings.Cut(s.URL, statePath)
	for _, secret := range []string{s.Token, id, strings.TrimSpace(s.URL)} {
		if secret != "" && strings.Contains(text, secret) {
			t.Errorf("%q is told to whoever reads %q", secret, text)
		}
	}
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("%s was left behind", e.Name())
	}
}

// logbook collects what is logged, at any level.
type logbook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logbook) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// behind serves a state through a handler that may spoil it: next is the real server's.
func behind(t *testing.T, s *Server, state *jobs.State, spoil func(w http.ResponseWriter, r *http.Request, next http.Handler)) *jobs.State {
	t.Helper()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { spoil(w, r, s.http.Handler) }))
	t.Cleanup(front.Close)
	return at(state, s.URL(), front.URL)
}

// at is the state under another address.
func at(state *jobs.State, from, to string) *jobs.State {
	moved := *state
	moved.URL = to + strings.TrimPrefix(state.URL, from)
	return &moved
}

// line is a network line to a server. It breaks each connection after so many bytes of its answers, and those
// without a number never; after the last number nobody answers any more, if it is dead.
type line struct {
	listener net.Listener
	to       string
	cuts     []int64
	dead     bool
	work     sync.WaitGroup

	mu    sync.Mutex
	conns int
}

func newLine(t *testing.T, s *Server, dead bool, cuts ...int64) (l *line, url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = &line{listener: listener, to: strings.TrimPrefix(s.URL(), "http://"), cuts: cuts, dead: dead}
	l.work.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.work.Wait()
	})
	return l, "http://" + listener.Addr().String()
}

func (l *line) accept() {
	for i := 0; ; i++ {
		conn, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		l.conns++
		l.mu.Unlock()
		cut := int64(1) << 62
		if i < len(l.cuts) {
			cut = l.cuts[i]
		}
		if l.dead && i == len(l.cuts)-1 {
			_ = l.listener.Close()
		}
		l.work.Go(func() { l.carry(conn, cut) })
	}
}

func (l *line) carry(near net.Conn, cut int64) {
	defer near.Close()
	far, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	})
	_, _ = io.CopyN(near, far, cut)
	_ = near.Close()
	_ = far.Close()
	back.Wait()
}

func (l *line) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conns
}

const childVariable = "HANDOVER_TEST_CHILD"

// children are what tests run in processes of their own, since it is about a whole process.
var children = map[string]func(in childInput) (childOutput, error){
	"memory":    moveInOneProcess,
	"file-size": fetchWithLimitedFiles,
}

type childInput struct {
	State jobs.State
	Dir   string
	Bytes int64
}

type childOutput struct {
	Failure jobs.Failure
	Message string
	Bytes   int64 // most memory, or written
}

// child runs one of children in a new process.
func child(t *testing.T, name string, in childInput) childOutput {
	t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+name)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(data), os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		t.Fatalf("child %s: %v", name, err)
	}
	var out childOutput
	if err := json.Unmarshal(answer, &out); err != nil {
		t.Fatalf("child %s: %v: %s", name, err, answer)
	}
	return out
}

func runChild(name string) (status int) {
	var in childInput
	err := json.NewDecoder(os.Stdin).Decode(&in)
	if err == nil {
		var out childOutput
		if out, err = children[name](in); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(out)
		}
	}
	if err != nil {
		_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
		return 1
	}
	return 0
}
