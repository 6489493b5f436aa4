package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// start starts a shell script that is killed when the test ends.
func start(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(shell("script", script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(20 * time.Second); !so(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("20 seconds later: %s", what)
		}
	}
}

// states is the state letter of each process of a group, as ps tells them: T is stopped.
func states(t *testing.T, group int) string {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "pgid=,stat=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == strconv.Itoa(group) {
			all.WriteString(f[1][:1])
		}
	}
	return all.String()
}

func gone(group int) func() bool {
	return func() bool { return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) }
}

func TestProcessEndsByItself(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	if err := os.WriteFile(log, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Start(Spec{
		Name: "decode-1", Program: "/bin/sh", Args: []string{"-c", `echo "$A-$HOME-$1" from "${PWD##*/}"; echo worse >&2; exit 7`, "sh", "an argument"},
		Env: []string{"A=b c"}, Dir: dir, Log: log, Wrap: []string{"env", "A=d"},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	want := "d--an argument from " + filepath.Base(dir) + "\nworse\n"
	if p.Output() != want || p.Code() != 7 || p.Name() != "decode-1" {
		t.Errorf("%s ended with %d and said %q, want 7 and %q", p.Name(), p.Code(), p.Output(), want)
	}
	if b, err := os.ReadFile(log); err != nil || string(b) != "before\n"+want {
		t.Errorf("log %q, %v", b, err)
	}
	for what, err := range map[string]error{"terminated": p.Terminate(), "frozen": p.Freeze(), "thawed": p.Thaw()} {
		if !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("a process that has ended was %s: %v", what, err)
		}
	}
	p.Kill()
}

func TestStartSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	for _, s := range []Spec{
		{Program: filepath.Join(dir, "none")},
		{Program: "/bin/true", Wrap: []string{filepath.Join(dir, "none")}},
		{Program: "/bin/true", Log: filepath.Join(dir, "none", "log")},
		{Program: "/bin/true", Dir: filepath.Join(dir, "none")},
	} {
		s.Name = "script"
		if _, err := Start(s); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "start script: ") {
			t.Errorf("%+v: error %v", s, err)
		}
	}
}

func TestSaysWaitsForTheText(t *testing.T) {
	p := start(t, `echo first; read -r _ < "$0" ; echo sec; echo ond`)
	<-p.Exited()
	if err := p.Says(t.Context(), "first\n"); err != nil {
		t.Error(err)
	}
	if err := p.Says(t.Context(), "sec\nond\n"); err != nil {
		t.Error(err)
	}
	if err := p.Says(t.Context(), "third"); err == nil || !strings.Contains(err.Error(), "exit status 0") || !strings.Contains(err.Error(), "ond") {
		t.Errorf("error %v, want one with the exit status and the last words", err)
	}

	quiet := start(t, `trap 'echo caught; exit 0' TERM; echo ready; sleep 600 & wait`)
	if err := quiet.Says(t.Context(), "ready"); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if err := quiet.Says(ctx, "caught"); !errors.Is(err, enough) {
		t.Errorf("%v, want %v", err, enough)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- quiet.Says(t.Context(), "caught") }()
	if err := quiet.Terminate(); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

func TestOutputKeepsTheEnd(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	o, err := openOutput(log)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4_000 {
		fmt.Fprintf(o, "line %05d of %s\n", i, strings.Repeat("x", 800))
		if i == 100 {
			if found, _, _ := o.find("line 00099", 0); !found {
				t.Error("an early line is not found")
			}
		}
	}
	if got := o.last(maxOutput); len(got) != maxOutput || !strings.Contains(got[maxOutput-1000:], "line 03999") {
		t.Errorf("%d bytes remembered, want %d with the last line", len(got), maxOutput)
	}
	found, next, grown := o.find("line 40000", 0)
	if found {
		t.Error("a line that was not said is found")
	}
	fmt.Fprint(o, "line 4")
	<-grown
	_, next, _ = o.find("line 40000", next)
	fmt.Fprint(o, "0000")
	if found, _, _ := o.find("line 40000", next); !found {
		t.Error("a line that came in two pieces is not found")
	}
	o.close()
	fmt.Fprint(o, "afterwards")
	if info, err := os.Stat(log); err != nil || info.Size() < 4_000*800 {
		t.Errorf("log file %v, %v; want all of it", info, err)
	}
}

func TestTerminateReachesTheProgramAlone(t *testing.T) {
	p := start(t, `trap 'echo program told; exit 3' TERM; (trap 'echo child told' TERM; echo ready; while :; do sleep 0.01; done) & wait`)
	if err := p.Says(t.Context(), "ready"); err != nil {
		t.Fatal(err)
	}
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	if p.Code() != 3 || p.Output() != "ready\nprogram told\n" {
		t.Errorf("it ended with %d and said %q", p.Code(), p.Output())
	}
	eventually(t, "the child is still there", gone(p.Pid()))
}

func TestKillEndsTheGroup(t *testing.T) {
	for name, frozen := range map[string]bool{"running": false, "frozen": true} {
		t.Run(name, func(t *testing.T) {
			p := start(t, `trap '' TERM; echo ready; sleep 600 & wait`)
			if err := p.Says(t.Context(), "ready"); err != nil {
				t.Fatal(err)
			}
			if frozen {
				if err := p.Freeze(); err != nil {
					t.Fatal(err)
				}
			}
			if p.Code() != -1 {
				t.Errorf("exit status %d while it runs", p.Code())
			}
			p.Kill()
			if p.Code() != -1 {
				t.Errorf("exit status %d, want -1", p.Code())
			}
			p.Kill()
			eventually(t, "the group is still there", gone(p.Pid()))
		})
	}
}

func TestFrozenProcessGoesOnWhenThawed(t *testing.T) {
	// All have started their children by then: who waits for a stopped child to become another program looks busy to ps.
	p := start(t, `trap 'echo told; exit 0' TERM; sleep 600 & (sleep 600 & echo ready; wait) & wait`)
	if err := p.Says(t.Context(), "ready"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second time does no harm
		if err := p.Freeze(); err != nil {
			t.Fatal(err)
		}
	}
	stopped := func() bool { s := states(t, p.Pid()); return s != "" && strings.Trim(s, "TZ") == "" }
	eventually(t, "the group is not stopped", stopped)
	if err := p.Terminate(); err != nil { // it is told, but cannot hear
		t.Fatal(err)
	}
	if p.Output() != "ready\n" || !stopped() {
		t.Errorf("states %q, output %q", states(t, p.Pid()), p.Output())
	}
	if err := p.Thaw(); err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	if p.Code() != 0 || p.Output() != "ready\ntold\n" {
		t.Errorf("it ended with %d and said %q", p.Code(), p.Output())
	}
}

func TestFrozenProcessDiesWithUs(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parent+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	group, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the group is not stopped", func() bool { return strings.Contains(states(t, group), "T") })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	eventually(t, "the group is still there", gone(group))
}
