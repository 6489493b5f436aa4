package shim_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"tandem/internal/shim"
)

// process starts a process that lives until the test ends or kills it.
func process(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(t, cmd) })
	return cmd
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}
}

func recordName(dir string, pid int) string { return filepath.Join(dir, fmt.Sprintf("%d.json", pid)) }

func leave(t *testing.T, dir string, r shim.Record) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recordName(dir, r.PID), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// port listens for the length of the test, and returns its port and how to end it.
func port(t *testing.T) (int, func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port, func() { l.Close() }
}

func TestLiveFindsTheYoungestThatLives(t *testing.T) {
	dir, now := t.TempDir(), time.Now().UTC()
	open, _ := port(t)
	older, younger := process(t), process(t)
	leave(t, dir, shim.Record{PID: older.Process.Pid, Host: "127.0.0.1", Port: open, Model: "/m/a", Started: now.Add(-time.Hour)})
	leave(t, dir, shim.Record{PID: younger.Process.Pid, Host: "127.0.0.1", Port: open, Model: "/m/a", Started: now.Add(-time.Minute)})
	leave(t, dir, shim.Record{PID: os.Getpid(), Host: "127.0.0.1", Port: open, Model: "/m/b", Started: now})

	live := func(model string, want int) {
		t.Helper()
		r, err := shim.Live(dir, model)
		if err != nil || (r == nil) != (want == 0) || r != nil && r.PID != want {
			t.Fatalf("live for %s: %+v, %v; want process %d", model, r, err, want)
		}
	}
	live("/m/a", younger.Process.Pid)
	live("/m/x/../a", younger.Process.Pid)
	live("/m/b", os.Getpid())
	live("/m/c", 0)
	if all, err := shim.LiveAll(dir); err != nil || len(all) != 3 || all[0].PID != os.Getpid() || all[2].PID != older.Process.Pid {
		t.Errorf("all: %+v, %v; want the youngest first", all, err)
	}
	kill(t, younger)
	live("/m/a", older.Process.Pid)
	if _, err := os.Stat(recordName(dir, younger.Process.Pid)); !os.IsNotExist(err) {
		t.Errorf("the record of a process that is gone is still there: %v", err)
	}
	kill(t, older)
	live("/m/a", 0)
}

func TestLiveInAFolderThatIsNone(t *testing.T) {
	if r, err := shim.Live(filepath.Join(t.TempDir(), "none"), "m"); r != nil || err != nil {
		t.Errorf("%+v, %v; want nothing, without an error", r, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := shim.Live(file, "m"); err == nil {
		t.Error("a file was read as a run folder")
	}
}

// A process id says little where the system does not tell whose it is: then the port decides.
func TestLiveAsksThePortWhereTheProcessIsNotKnown(t *testing.T) {
	open, closeIt := port(t)
	unknown := func(age time.Duration) (string, shim.Record) {
		dir := t.TempDir()
		r := shim.Record{PID: os.Getpid(), Host: "127.0.0.1", Port: open, Model: "m", Started: time.Now().Add(-age)}
		leave(t, dir, r)
		return dir, r
	}
	dir, _ := unknown(time.Hour)
	if r, err := shim.Live(dir, "m"); r == nil || err != nil {
		t.Errorf("%+v, %v; want the server whose port answers", r, err)
	}
	closeIt()
	for age, kept := range map[time.Duration]bool{time.Second: true, time.Hour: false} {
		dir, was := unknown(age)
		if r, err := shim.Live(dir, "m"); r != nil || err != nil {
			t.Errorf("%+v, %v; want none, since nobody listens", r, err)
		}
		// One that was started just now may not listen yet.
		if _, err := os.Stat(recordName(dir, was.PID)); (err == nil) != kept {
			t.Errorf("record of a server started %v ago: %v; want it kept: %t", age, err, kept)
		}
	}
}
