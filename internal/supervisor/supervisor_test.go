//go:build unix

package supervisor_test

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

	"tandem/internal/supervisor"
)

// kept is a script that is up when there is a file of the name that it is given.
func kept(t *testing.T, script string) (supervisor.Config, string) {
	t.Helper()
	dir := t.TempDir()
	up := filepath.Join(dir, "up")
	return supervisor.Config{
		Name: "program",
		Start: func(_ context.Context, output io.Writer) (*supervisor.Process, error) {
			if err := os.Remove(up); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
			return supervisor.Start("/bin/sh", []string{"-c", script, "sh", up}, dir, nil, output)
		},
		Up: func(context.Context) error {
			_, err := os.Stat(up)
			return err
		},
		LogFile: filepath.Join(dir, "log"),
		Log:     slog.New(slog.DiscardHandler),
	}, up
}

func TestSupervisorStartsAProgramThatDiedAgain(t *testing.T) {
	c, _ := kept(t, `echo here I am; : > "$1"; sleep 600 & wait`)
	k, err := supervisor.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := k.Status()
	if first.Phase != supervisor.Up || first.Problem != nil {
		t.Fatalf("status %+v, want up", first)
	}
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, first.PID)
	// Settled may see the first one up for a moment still.
	second := first
	for second.PID == first.PID || second.Phase != supervisor.Up {
		if err := k.Settled(t.Context()); err != nil {
			t.Fatal(err)
		}
		if second = k.Status(); second.Phase == supervisor.Starting && !strings.Contains(fmt.Sprint(second.Problem), "killed; the last lines of its log: here I am") {
			t.Fatalf("it is started again because %v", second.Problem)
		}
	}
	k.Close()
	k.Close()
	gone(t, second.PID)
	if s := k.Status(); s.Phase != supervisor.Down || k.Settled(t.Context()) == nil {
		t.Errorf("status %+v after the end, want down", s)
	}
	log, err := os.ReadFile(c.LogFile)
	if err != nil || strings.Count(string(log), "here I am\n") != 2 {
		t.Errorf("log %q, %v; want two starts", log, err)
	}
}

func TestSupervisorSaysWhyAProgramDoesNotStart(t *testing.T) {
	failing, _ := kept(t, `echo port is taken; exit 3`)
	missing, _ := kept(t, "")
	missing.Start = func(context.Context, io.Writer) (*supervisor.Process, error) {
		return nil, errors.New("no such program")
	}
	for want, c := range map[string]supervisor.Config{
		"exit status 3; the last lines of its log: port is taken": failing,
		"start program: no such program":                          missing,
	} {
		k, err := supervisor.New(c)
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
	if _, err := supervisor.New(c); err == nil {
		t.Error("a log that cannot be written was taken")
	}
}

func TestSupervisorIsClosedWhileTheProgramStarts(t *testing.T) {
	c, _ := kept(t, `sleep 600 & wait`)
	pids := make(chan int, 1)
	start := c.Start
	c.Start = func(ctx context.Context, output io.Writer) (*supervisor.Process, error) {
		p, err := start(ctx, output)
		if err == nil {
			pids <- p.Pid()
		}
		return p, err
	}
	k, err := supervisor.New(c)
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
