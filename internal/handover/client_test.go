package handover

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem/jobs"
)

func TestFetch(t *testing.T) {
	s := newServer(t, ServerConfig{})
	client := newClient(t, ClientConfig{})
	for _, bytes := range []int64{1, 4095, pieceBytes - 1, pieceBytes, pieceBytes + 1, pieces * pieceBytes, 9<<20 + 7} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			state, content := offer(t, s, "job", bytes)
			dir := t.TempDir()
			steps := 0
			got, err := client.Fetch(t.Context(), &state, dir, "worker-", func() { steps++ })
			wantFetched(t, got, err, content)
			name := filepath.Base(got.Path)
			if filepath.Dir(got.Path) != dir || !strings.HasPrefix(name, "worker-") || !strings.HasSuffix(name, ".kv") || len(name) < 30 {
				t.Errorf("the file is %s", got.Path)
			}
			if steps == 0 || got.Duration <= 0 || got.Resumed != 0 {
				t.Errorf("%d signs of progress, %+v", steps, got)
			}
			info, err := os.Stat(got.Path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v", info.Mode())
			}
			if err := os.Remove(got.Path); err != nil {
				t.Fatal(err)
			}
			wantEmpty(t, dir)
		})
	}
}

// In a folder that two users share, the engine's may read the file too.
func TestFetchIntoSharedFolder(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, content := offer(t, s, "job", 1000)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	got, err := newClient(t, ClientConfig{}).Fetch(t.Context(), &state, dir, "", nil)
	wantFetched(t, got, err, content)
	info, err := os.Stat(got.Path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v", info.Mode())
	}
}

func TestParallelFetches(t *testing.T) {
	s := newServer(t, ServerConfig{})
	client := newClient(t, ClientConfig{})
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 6 {
		state, content := offer(t, s, fmt.Sprint(i), 3<<20+int64(i))
		all.Go(func() {
			got, err := client.Fetch(t.Context(), &state, dir, "x-", func() {})
			wantFetched(t, got, err, content)
			if err := client.Done(t.Context(), &state); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if states, bytes := s.Held(); states != 0 || bytes != 0 {
		t.Errorf("%d states with %d bytes are held", states, bytes)
	}
	if removed, err := Sweep(dir, "x-", time.Now().Add(time.Minute)); removed != 6 || err != nil {
		t.Errorf("%d files were there, %v", removed, err)
	}
	wantEmpty(t, dir)
}

func TestConnectionsAreReused(t *testing.T) {
	s := newServer(t, ServerConfig{})
	l, url := newLine(t, s, false)
	client := newClient(t, ClientConfig{})
	for i := range 3 {
		state, content := offer(t, s, fmt.Sprint(i), 1<<20)
		moved := at(&state, s.URL(), url)
		got, err := client.Fetch(t.Context(), moved, t.TempDir(), "", nil)
		wantFetched(t, got, err, content)
		if err := client.Done(t.Context(), moved); err != nil {
			t.Error(err)
		}
	}
	if n := l.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, _ := offer(t, s, "job", 8<<20)
	client := newClient(t, ClientConfig{})
	cancelled := errors.New("the job was cancelled")

	for name, when := range map[string]func(end func()) func(){
		"before": func(end func()) func() {
			end()
			return func() {}
		},
		"meanwhile": func(end func()) func() { return end },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			dir := t.TempDir()
			_, err := client.Fetch(ctx, &state, dir, "x-", when(func() { cancel(cancelled) }))
			if err != cancelled {
				t.Errorf("error = %v, want the cause", err)
			}
			wantEmpty(t, dir)
		})
	}

	t.Run("between attempts", func(t *testing.T) {
		_, url := newLine(t, s, true, 1<<20)
		ctx, cancel := context.WithCancelCause(t.Context())
		client := newClient(t, ClientConfig{})
		client.log = (&watcher{"the transfer of a KV state broke", func() { cancel(cancelled) }}).log()
		dir := t.TempDir()
		_, err := client.Fetch(ctx, at(&state, s.URL(), url), dir, "x-", nil)
		if err != cancelled {
			t.Errorf("error = %v, want the cause", err)
		}
		wantEmpty(t, dir)
	})
}

func TestDone(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, _ := offer(t, s, "job", 10)
	client := newClient(t, ClientConfig{})
	for range 2 { // what is gone already is fine
		if err := client.Done(t.Context(), &state); err != nil {
			t.Error(err)
		}
	}
	if states, _ := s.Held(); states != 0 {
		t.Errorf("%d states are held", states)
	}
	broken := behind(t, s, &state, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(500) })
	if err := client.Done(t.Context(), broken); err == nil {
		t.Error("an answer of 500 is no error")
	} else {
		wantSecret(t, err.Error(), broken)
	}
	if err := client.Done(t.Context(), &jobs.State{URL: "ftp://x"}); err == nil {
		t.Error("any address is asked")
	}
}

// A worker that was started again does not know the states of the one before.
func TestFetchFromARestartedServer(t *testing.T) {
	first, err := Serve(t.Context(), ServerConfig{Listen: "127.0.0.1:0", Budget: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	state, _ := offer(t, first, "job", 1000)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	client := newClient(t, ClientConfig{})
	dir := t.TempDir()
	_, err = client.Fetch(t.Context(), &state, dir, "x-", nil)
	wantFailure(t, err, jobs.FailUnreachable, &state, dir)

	newServer(t, ServerConfig{Listen: strings.TrimPrefix(first.URL(), "http://")})
	_, err = client.Fetch(t.Context(), &state, dir, "x-", nil)
	wantFailure(t, err, jobs.FailNotFound, &state, dir)
}

// The prefill worker dies, or its lease ends, while the state is on its way.
func TestFetchLosesItsServer(t *testing.T) {
	client := newClient(t, ClientConfig{})
	t.Run("closed", func(t *testing.T) {
		s := newServer(t, ServerConfig{})
		state, _ := offer(t, s, "job", 64<<20)
		dir := t.TempDir()
		_, err := client.Fetch(t.Context(), &state, dir, "x-", sync.OnceFunc(func() { _ = s.Close() }))
		wantFailure(t, err, jobs.FailUnreachable, &state, dir)
	})
	t.Run("released", func(t *testing.T) {
		s := newServer(t, ServerConfig{})
		state, _ := offer(t, s, "job", 8<<20)
		dir := t.TempDir()
		_, err := client.Fetch(t.Context(), &state, dir, "x-", sync.OnceFunc(func() { s.Release("job") }))
		wantFailure(t, err, jobs.FailNotFound, &state, dir)
	})
}

// What is being sent when its lease ends is sent whole, although nobody learns its digest any more.
func TestReleaseWhileSending(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, content := offer(t, s, "job", 32<<20)
	sum := s.leases.find(strings.TrimPrefix(state.URL, s.URL()+statePath), state.Token).digest
	<-sum.ready
	release := sync.OnceFunc(func() { s.Release("job") })
	// Here somebody else answers for the digest.
	moved := behind(t, s, &state, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/digest") {
			_, _ = w.Write([]byte(sum.hex))
			return
		}
		next.ServeHTTP(w, r)
	})
	got, err := newClient(t, ClientConfig{}).Fetch(t.Context(), moved, t.TempDir(), "x-", release)
	wantFetched(t, got, err, content)
	if states, _ := s.Held(); states != 0 {
		t.Errorf("%d states are held", states)
	}
}
