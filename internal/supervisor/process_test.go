//go:build unix

package supervisor_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem/internal/supervisor"
)

// parent makes this test program start a child of a child and tell their group; then it waits to be killed.
const parent = "TANDEM_TEST_LEASH_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parent) == "" {
		os.Exit(m.Run())
	}
	p, err := supervisor.Start("/bin/sh", []string{"-c", "sleep 600 & wait"}, "", nil, io.Discard)
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(strconv.Itoa(p.Pid()) + "\n")
	select {}
}

// gone waits until no process of the group is left.
func gone(t *testing.T, group int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); syscall.Kill(-group, 0) != syscall.ESRCH; {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("process group %d is still there", group)
		}
	}
}

func TestProgramAndItsChildrenDieWithUs(t *testing.T) {
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
	if err := syscall.Kill(-group, 0); err != nil {
		t.Fatalf("process group %d: %v", group, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	gone(t, group)
}

func TestStopAndKill(t *testing.T) {
	for name, end := range map[string]func(*supervisor.Process){"stop": (*supervisor.Process).Stop, "kill": (*supervisor.Process).Kill} {
		t.Run(name, func(t *testing.T) {
			p, err := supervisor.Start("/bin/sh", []string{"-c", "sleep 600 & wait"}, t.TempDir(), nil, t.Output())
			if err != nil {
				t.Fatal(err)
			}
			end(p)
			end(p)
			if p.Err() == nil {
				t.Error("a program that was ended says that it ended well")
			}
			gone(t, p.Pid())
		})
	}
	p, err := supervisor.Start("/bin/true", nil, "", nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	if p.Err() != nil {
		t.Errorf("true ended with %v", p.Err())
	}
}
