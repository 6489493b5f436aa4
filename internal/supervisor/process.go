//go:build unix

// Package supervisor starts programs that cannot outlive us.
package supervisor

import (
	"io"
	"os/exec"
	"syscall"
	"time"
)

// script ties a program and its children to us, on any Unix: a subshell in the program's process
// group reads from a pipe that only we hold. When we die, by whatever means, the pipe ends, and the
// subshell kills the group. The program takes the shell's own place. (Linux's parent-death signal would
// reach the program but not its children, and would come when the thread that started it ends.)
const script = `exec 3<&0
(exec >/dev/null 2>&1; read -r _ <&3; kill -s KILL -- -$$) &
exec "$@" </dev/null 3<&-`

// stopLimit is how long a program that was asked to end may take.
const stopLimit = 5 * time.Second

// Process is a started program with all its children, in a process group of its own, so that a Ctrl-C
// meant for us lets it finish what we are waiting for.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // how it ended, set before exited is closed
}

// Start starts a program in dir (ours if empty) with the environment env (ours if nil); both its
// outputs go to output.
func Start(program string, args []string, dir string, env []string, output io.Writer) (*Process, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "sh", program}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second                // for output, if a child outlives the program
	if _, err := cmd.StdinPipe(); err != nil { // our end of the tie; Wait closes it
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	go func() { // ends with the program
		defer close(p.exited)
		p.err = cmd.Wait()
		p.signal(syscall.SIGKILL) // what is left of the group
	}()
	return p, nil
}

// Pid is the program's process id, and that of its group.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Exited is closed when the program has ended and all its output is written.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err says how the program ended, nil if well; it may be called after Exited is closed.
func (p *Process) Err() error { return p.err }

// Stop asks the group to end, gives it some seconds, kills it, and returns when the program is gone.
func (p *Process) Stop() {
	select {
	case <-p.exited: // its number may be another's by now
		return
	default:
	}
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopLimit):
		p.Kill()
	}
}

// Kill ends the group at once and returns when the program is gone.
func (p *Process) Kill() {
	select {
	case <-p.exited:
		return
	default:
	}
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// signal signals the whole group. That nobody is left is no error.
func (p *Process) signal(s syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, s)
}
