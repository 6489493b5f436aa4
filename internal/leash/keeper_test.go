//go:build unix

package leash_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tandem/internal/leash"
)

// kept is a script that is up when there is a file of the name that it is given.
func kept(t *testing.T, script string) (leash.Kept, string) {
	t.Helper()
	dir := t.TempDir()
	up := filepath.Join(dir, "up")
	return leash.Kept{
		Name: "program",
		Start: func(_ context.Context, output io.Writer) (*leash.Process, error) {
			if err := os.Remove(up); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
			return leash.Start("/bin/sh", []string{"-c", script, "sh", up}, dir, nil, output)
		},
		Up: func(context.Context) error {
			_, err := os.Stat(up)
			return err
		},
		LogFile: filepath.Join(dir, "log"),
		Log:     slog.New(slog.DiscardHandler),
	}, up
}

func TestKeeperStartsAProgramThatDiedAgain(t *testing.T) {
	c, _ := kept(t, `echo here I am; : > "$1"; sleep 600 & wait`)
	k, err := leash.Keep(c)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := k.Status()
	if first.Phase != leash.Up || first.Problem != nil {
		t.Fatalf("status %+v, want up", first)
	}
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, first.PID)
	// Settled may see the first one up for a moment still.
	second := first
	for second.PID == first.PID || second.Phase != leash.Up {
		if err := k.Settled(t.Context()); err != nil {
			t.Fatal(err)
		}
		if second = k.Status(); second.Phase == leash.Starting && !strings.Contains(fmt.Sprint(second.Problem), "killed; the last lines of its log: here I am") {
			t.Fatalf("it is started again because %v", second.Problem)
		}
	}
	k.Close()
	k.Close()
	gone(t, second.PID)
	if s := k.Status(); s.Phase != leash.Down || k.Settled(t.Context()) == nil {
		t.Errorf("status %+v after the end, want down", s)
	}
	log, err := os.ReadFile(c.LogFile)
	if err != nil || strings.Count(string(log), "here I am\n") != 2 {
		t.Errorf("log %q, %v; want two starts", log, err)
	}
}

func TestKeeperSaysWhyAProgramDoesNotStart(t *testing.T) {
	failing, _ := kept(t, `echo port is taken; exit 3`)
	missing, _ := kept(t, "")
	missing.Start = func(context.Context, io.Writer) (*leash.Process, error) { return nil, errors.New("no such program") }
	for want, c := range map[string]leash.Kept{
		"exit status 3; the last lines of its log: port is taken": failing,
		"start program: no such program":                          missing,
	} {
		k, err := leash.Keep(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Settled(t.Context()); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
		k.Close()
	}
	c, _ := kept(t, "")
	c.LogFile = filepath.Join(t.TempDir(), "none", "log")
	if _, err := leash.Keep(c); err == nil {
		t.Error("a log that cannot be written was taken")
	}
}

func TestKeeperIsClosedWhileTheProgramStarts(t *testing.T) {
	c, _ := kept(t, `sleep 600 & wait`)
	pids := make(chan int, 1)
	start := c.Start
	c.Start = func(ctx context.Context, output io.Writer) (*leash.Process, error) {
		p, err := start(ctx, output)
		if err == nil {
			pids <- p.Pid()
		}
		return p, err
	}
	k, err := leash.Keep(c)
	if err != nil {
		t.Fatal(err)
	}
	pid := <-pids
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if err := k.Settled(ctx); !errors.Is(err, cause) {
		t.Errorf("%v, want %v", err, cause)
	}
	k.Close()
	gone(t, pid)
}
