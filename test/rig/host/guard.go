package host

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
)

// guard takes the place of the shell that ties a process to us while it is frozen: the shell is of the group, and is frozen with it, so that it
// could not end the group if we died.
type guard struct {
	cmd *exec.Cmd
}

// newGuard starts a process that kills the group when we die, by whatever means: it reads from a pipe that only we hold.
func newGuard(group int) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", `read -r _; kill -s KILL -- "-$1"`, "sh", strconv.Itoa(group))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C meant for us is not meant for it
	if _, err := cmd.StdinPipe(); err != nil {            // Wait closes our end
		return nil, fmt.Errorf("guard group %d: %w", group, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard group %d: %w", group, err)
	}
	return &guard{cmd: cmd}, nil
}

// dismiss ends the guard, the group left as it is.
func (g *guard) dismiss() {
	if g != nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait() // killed, as it was to be
	}
}
