package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem/internal/shim/program"
	"tandem/internal/standin/standintest"
)

// place is a folder in which the shim stands in front of a "server" that says how it was started.
type place struct {
	shim, slots, run string
}

// server tells its process id, its umask and its arguments, and leaves a file as a state would be.
const server = `#!/bin/sh
echo $$ $(umask) "$TEST_ENV"
printf '%s\n' "$@"
[ -z "$STATE" ] || : > "$STATE"
exit 7
`

func newPlace(t *testing.T) place {
	t.Helper()
	dir := t.TempDir()
	p := place{shim: filepath.Join(dir, "lib", "llama-server"), slots: filepath.Join(dir, "slots"), run: filepath.Join(dir, "run")}
	if err := os.Mkdir(filepath.Dir(p.shim), 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(standintest.Shim(t))
	if err != nil {
		t.Fatal(err)
	}
	write(t, p.shim, b, 0o755)
	write(t, program.RealName(p.shim), []byte(server), 0o755)
	return p
}

func write(t *testing.T, path string, b []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, b, mode); err != nil {
		t.Fatal(err)
	}
}

func (p place) configure(t *testing.T, c program.Config) {
	t.Helper()
	b, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	write(t, program.ConfigName(p.shim), b, 0o644)
}

// started is what the server said.
type started struct {
	pid    int
	umask  string
	env    string
	args   []string
	stderr string
	status int
}

// start runs the shim with a umask that would let everybody read.
func (p place) start(t *testing.T, args ...string) started {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd := exec.Command("/bin/sh", append([]string{"-c", `umask 022; exec "$@"`, "sh", p.shim}, args...)...)
	cmd.Env = append(os.Environ(), "TEST_ENV=as-it-was", "STATE="+filepath.Join(filepath.Dir(p.shim), "state"))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); !ended && err != nil {
		t.Fatal(err)
	}
	s := started{stderr: stderr.String(), status: cmd.ProcessState.ExitCode()}
	head, rest, _ := strings.Cut(stdout.String(), "\n")
	if _, err := fmt.Sscan(head, &s.pid, &s.umask, &s.env); err == nil {
		s.args = strings.Split(strings.TrimSuffix(rest, "\n"), "\n")
		if s.pid != cmd.ProcessState.Pid() {
			t.Errorf("the server runs as process %d, Ollama started %d", s.pid, cmd.ProcessState.Pid())
		}
	}
	return s
}

// asked is what Ollama 0.34 gives a server.
var asked = []string{"--model", "/models/blobs/sha256-00ff", "--port", "45425", "--host", "127.0.0.1", "--no-webui", "-c", "4096"}

func TestServerIsStartedWithASlotFolderAndRecorded(t *testing.T) {
	for _, tt := range []struct {
		name         string
		shared       bool
		umask        string
		file, folder os.FileMode
	}{
		{"one user", false, "0077", 0o600, 0o700},
		{"two users", true, "0007", 0o660, 0o770},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			p.configure(t, program.Config{SlotDir: p.slots, RunDir: p.run, Flags: []string{"--no-cache-idle-slots", "--no-webui"}, Shared: tt.shared})
			s := p.start(t, asked...)
			want := append(slices.Clone(asked), "--slot-save-path", p.slots, "--no-cache-idle-slots")
			if !slices.Equal(s.args, want) || s.env != "as-it-was" || s.umask != tt.umask || s.status != 7 || s.stderr != "" {
				t.Errorf("server was started as %+v, want the arguments %q, umask %s and no word", s, want, tt.umask)
			}
			for path, mode := range map[string]os.FileMode{
				filepath.Join(filepath.Dir(p.shim), "state"):      tt.file,
				filepath.Join(p.run, strconv.Itoa(s.pid)+".json"): tt.file,
				p.slots: os.ModeDir | tt.folder,
				p.run:   os.ModeDir | tt.folder,
			} {
				if info, err := os.Stat(path); err != nil || info.Mode() != mode {
					t.Errorf("%s has mode %v (%v), want %v", filepath.Base(path), info.Mode(), err, mode)
				}
			}
			list, err := program.Records(p.run)
			if err != nil || len(list) != 1 {
				t.Fatalf("records %+v, %v; want one", list, err)
			}
			r := list[0]
			if r.PID != s.pid || r.Port != 45425 || r.Host != "127.0.0.1" || r.Model != asked[1] || r.SlotDir != p.slots || !slices.Equal(r.Args, want) || r.Started.IsZero() {
				t.Errorf("record %+v", r)
			}
		})
	}
}

func TestArgumentsThatAreThereAreKept(t *testing.T) {
	p := newPlace(t)
	p.configure(t, program.Config{SlotDir: p.slots, RunDir: p.run, Flags: []string{"--swa-full"}})
	other := t.TempDir()
	given := append(slices.Clone(asked), "--slot-save-path", other, "--swa-full")
	if s := p.start(t, given...); !slices.Equal(s.args, given) {
		t.Errorf("server got %q, want %q", s.args, given)
	}
	if list, _ := program.Records(p.run); len(list) != 1 || list[0].SlotDir != other {
		t.Errorf("records %+v, want one with the slot folder %s", list, other)
	}
}

// Ollama must never stop working because of us.
func TestServerIsStartedUnchanged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a file")
	write(t, file, nil, 0o600)
	noPort := slices.Concat(asked[:2], asked[4:])
	for name, tt := range map[string]struct {
		config func(p place) string
		args   []string
		says   string
	}{
		"no model":               {func(p place) string { return "" }, []string{"--list-devices"}, ""},
		"model without a value":  {func(p place) string { return "" }, []string{"--list-devices", "--model"}, ""},
		"no configuration":       {func(p place) string { return "" }, asked, "no such file"},
		"configuration broken":   {func(p place) string { return "{" }, asked, "unexpected EOF"},
		"configuration unknown":  {func(p place) string { return `{"slots": "/tmp"}` }, asked, `unknown field "slots"`},
		"relative folder":        {func(p place) string { return `{"slot_dir": "slots", "run_dir": "/tmp"}` }, asked, "absolute"},
		"slot folder impossible": {func(p place) string { return fmt.Sprintf(`{"slot_dir": %q, "run_dir": %q}`, file, p.run) }, asked, "make slot folder"},
		"slot folder not ours":   {func(p place) string { return fmt.Sprintf(`{"slot_dir": "/proc", "run_dir": %q}`, p.run) }, asked, "slot folder"},
		"run folder impossible":  {func(p place) string { return fmt.Sprintf(`{"slot_dir": %q, "run_dir": %q}`, p.slots, file) }, asked, "make run folder"},
		"no port":                {func(p place) string { return fmt.Sprintf(`{"slot_dir": %q, "run_dir": %q}`, p.slots, p.run) }, noPort, "no port"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			if c := tt.config(p); c != "" {
				write(t, program.ConfigName(p.shim), []byte(c), 0o644)
			}
			s := p.start(t, tt.args...)
			if !slices.Equal(s.args, tt.args) || s.status != 7 || s.umask != "0022" || s.env != "as-it-was" {
				t.Errorf("server was started as %+v, want just as Ollama meant it", s)
			}
			if !strings.Contains(s.stderr, tt.says) || (tt.says == "") != (s.stderr == "") {
				t.Errorf("it says %q, want it to contain %q", s.stderr, tt.says)
			}
			if list, _ := program.Records(p.run); len(list) != 0 {
				t.Errorf("records %+v, want none", list)
			}
		})
	}
}

func TestNoRealServerIsAClearError(t *testing.T) {
	p := newPlace(t)
	real := program.RealName(p.shim)
	for name, make := range map[string]func() error{
		"missing":        func() error { return nil },
		"the shim again": func() error { return os.Link(p.shim, real) },
		"a link to it":   func() error { return os.Symlink(p.shim, real) },
		"no program":     func() error { return os.WriteFile(real, []byte("no program"), 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(os.Remove(real), make()); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			s := p.start(t, asked...)
			if s.status != 1 || !strings.Contains(s.stderr, p.shim) || !strings.Contains(s.stderr, "llama-server") {
				t.Errorf("status %d, says %q; want 1 and the path", s.status, s.stderr)
			}
		})
	}
}

// The group may write the run folder, too: its members must neither have the shim write elsewhere nor hold it up.
func TestLinksAndPipesInTheRunFolderAreNotFollowed(t *testing.T) {
	p := newPlace(t)
	p.configure(t, program.Config{SlotDir: p.slots, RunDir: p.run, Shared: true})
	if err := os.Mkdir(p.run, 0o770); err != nil {
		t.Fatal(err)
	}
	victim, record := filepath.Join(t.TempDir(), "victim"), filepath.Join(t.TempDir(), "4711.json")
	write(t, victim, []byte("as it was"), 0o600)
	leave(t, filepath.Dir(record), program.Record{PID: 4711, Host: "127.0.0.1", Port: 1, Model: "m"})
	if err := errors.Join(os.Symlink(record, filepath.Join(p.run, "4711.json")), syscall.Mkfifo(filepath.Join(p.run, "1.json"), 0o666)); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-c", `ln -s "$1" "$2/$$.json.tmp"; shift 2; exec "$@"`, "sh", victim, p.run, p.shim}, asked...)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/bin/sh", args...).Output()
	if e, ended := errors.AsType[*exec.ExitError](err); !ended || e.ExitCode() != 7 || !strings.Contains(string(out), p.slots) {
		t.Fatalf("%v, the server said %q; want it started with the slot folder", err, out)
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "as it was" {
		t.Errorf("the file that the link leads to is %q, %v", b, err)
	}
	if list, err := program.Records(p.run); err != nil || len(list) != 1 || list[0].PID == 4711 {
		t.Errorf("records %+v, %v; want that of the server", list, err)
	}
}

func TestSweepRemovesOnlyWhoIsGone(t *testing.T) {
	dir := t.TempDir()
	ended := exec.Command("/bin/true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	leave(t, dir, program.Record{PID: ended.ProcessState.Pid(), Host: "127.0.0.1", Port: 1, Model: "m"})
	leave(t, dir, program.Record{PID: os.Getpid(), Host: "127.0.0.1", Port: 1, Model: "m"})
	write(t, filepath.Join(dir, "installed.json"), []byte("{}"), 0o644)
	write(t, filepath.Join(dir, "12.json"), []byte("no record"), 0o644)
	program.Sweep(dir)
	if list, err := program.Records(dir); err != nil || len(list) != 1 || list[0].PID != os.Getpid() {
		t.Errorf("records %+v, %v; want that of this process", list, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "installed.json")); err != nil {
		t.Error(err)
	}
}

// The record lives as long as the server that the shim became.
func TestStateFollowsTheServer(t *testing.T) {
	p := newPlace(t)
	p.configure(t, program.Config{SlotDir: p.slots, RunDir: p.run})
	write(t, program.RealName(p.shim), []byte("#!/bin/sh\necho up\nread -r _\n"), 0o755)
	cmd := exec.Command(p.shim, asked...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, readErr := io.ReadFull(out, make([]byte, len("up\n")))
	list, err := program.Records(p.run)
	if readErr != nil || err != nil || len(list) != 1 || list[0].State() == program.Gone {
		t.Errorf("records %+v, %v, %v; want one that is not gone", list, err, readErr)
	}
	in.Close()
	_ = cmd.Wait() // its status is that of read
	if len(list) == 1 && list[0].State() != program.Gone {
		t.Errorf("state %v of a process that is gone", list[0].State())
	}
}

func leave(t *testing.T, dir string, r program.Record) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, strconv.Itoa(r.PID)+".json"), b, 0o600)
}
