package handover

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// More is asked for than any disk has.
func TestFetchAsksForRoomFirst(t *testing.T) {
	asked := false
	s := newServer(t, ServerConfig{})
	state, _ := offer(t, s, "job", 10)
	state.Bytes = 1 << 60
	dir := t.TempDir()
	_, err := newClient(t, ClientConfig{}).Fetch(t.Context(), &state, dir, "x-", func() { asked = true })
	wantFailure(t, err, jobs.FailDisk, &state, dir)
	if asked {
		t.Error("it was fetched all the same")
	}
	if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "GB left") {
		t.Errorf("%q does not say where and how much", err)
	}
}

func TestDiskThatFails(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, _ := offer(t, s, "job", 3<<20)
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO} {
		t.Run(errno.Error(), func(t *testing.T) {
			client := newClient(t, ClientConfig{})
			room := 1 << 20
			client.write = func(f *os.File, p []byte) (int, error) {
				if len(p) <= room {
					room -= len(p)
					return f.Write(p)
				}
				n, err := f.Write(p[:room])
				room = 0
				return n, errors.Join(err, &os.PathError{Op: "write", Path: f.Name(), Err: errno})
			}
			dir := t.TempDir()
			_, err := client.Fetch(t.Context(), &state, dir, "x-", nil)
			wantFailure(t, err, jobs.FailDisk, &state, dir)
			if !errors.Is(err, errno) {
				t.Errorf("the cause of %v is lost", err)
			}
		})
	}
}

// The same with a file system that refuses: a process whose files may have 1 MB.
func TestFileThatMayNotGrow(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, _ := offer(t, s, "job", 3<<20)
	dir := t.TempDir()
	out := child(t, "file-size", childInput{State: state, Dir: dir, Bytes: 1 << 20})
	if out.Failure != jobs.FailDisk || !strings.Contains(out.Message, "ulimit -f") {
		t.Errorf("failure %q: %s", out.Failure, out.Message)
	}
	wantEmpty(t, dir)
}

func fetchWithLimitedFiles(in childInput) (out childOutput, err error) {
	limit := syscall.Rlimit{Cur: uint64(in.Bytes), Max: uint64(in.Bytes)}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return out, err
	}
	client, err := NewClient(ClientConfig{})
	if err != nil {
		return out, err
	}
	defer client.Close()
	_, err = client.Fetch(context.Background(), &in.State, in.Dir, "x-", nil)
	h, ok := errors.AsType[*protocol.HandoverError](err)
	if !ok {
		return out, errors.Join(errors.New("no failure"), err)
	}
	return childOutput{Failure: h.Failure, Message: h.Error()}, nil
}

func TestFetchIntoNoFolder(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, _ := offer(t, s, "job", 10)
	client := newClient(t, ClientConfig{})
	dir := t.TempDir()
	for name, target := range map[string]struct{ dir, prefix string }{
		"missing":        {filepath.Join(dir, "missing"), "x-"},
		"prefix outside": {dir, "../x-"},
		"prefix below":   {dir, "sub/x-"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.Fetch(t.Context(), &state, target.dir, target.prefix, nil)
			wantFailure(t, err, jobs.FailDisk, &state, dir)
		})
	}
}

// A folder that is taken away while a state arrives is an error, not a state.
func TestFetchLosesItsFile(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, _ := offer(t, s, "job", 1<<20)
	dir := t.TempDir()
	_, err := newClient(t, ClientConfig{}).Fetch(t.Context(), &state, dir, "x-", func() {
		parts, err := filepath.Glob(filepath.Join(dir, "x-*.part"))
		if err != nil {
			t.Error(err)
		}
		for _, p := range parts {
			if err := os.Remove(p); err != nil {
				t.Error(err)
			}
		}
	})
	wantFailure(t, err, jobs.FailDisk, &state, dir)
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	swept := []string{"w1-a.part", "w1-b.kv", "w1-.kv"}
	kept := []string{"w2-a.part", "w1-a.kvx", "w1-a", "aw1-a.kv", "notes.txt", ".kv"}
	for _, name := range append(swept, kept...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "w1-folder.kv"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "w1-link.kv")); err != nil {
		t.Fatal(err)
	}

	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(filepath.Join(dir, "w1-a.part"), later, later); err != nil {
		t.Fatal(err)
	}
	if removed, err := Sweep(dir, "w1-", time.Now().Add(-time.Minute)); removed != 0 || err != nil {
		t.Errorf("Sweep of files of this run = %d, %v", removed, err)
	}
	removed, err := Sweep(dir, "w1-", later.Add(time.Second))
	if removed != len(swept) || err != nil {
		t.Errorf("Sweep = %d, %v", removed, err)
	}
	for _, name := range swept {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was left", name)
		}
	}
	for _, name := range append(kept, "w1-folder.kv", "w1-link.kv") {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s was removed", name)
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error("a file outside was removed")
	}

	if removed, err := Sweep(filepath.Join(dir, "missing"), "w1-", later); removed != 0 || err != nil {
		t.Errorf("Sweep of a missing folder = %d, %v", removed, err)
	}
	for _, prefix := range []string{"", "../", "a/b", `a\b`} {
		if _, err := Sweep(dir, prefix, later); err == nil {
			t.Errorf("Sweep with prefix %q is no error", prefix)
		}
	}
	if _, err := Sweep(outside, "w1-", later); err == nil {
		t.Error("Sweep of a file is no error")
	}
}
