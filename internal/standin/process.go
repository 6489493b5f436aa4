package standin

import (
	"io"
	"os/exec"
	"syscall"
	"time"
)

// leash runs a program such that neither it nor its children outlive us, on any Unix: a subshell in the program's
// process group reads from a pipe that only we hold. When we die, by whatever means, the pipe ends, and the subshell
// kills the group. The program takes the shell's own place. (Linux's parent-death signal would reach the program but
// not its children, and would come when the thread that started it ends.)
const leash = `exec 3<&0
(exec >/dev/null 2>&1; read -r _ <&3; kill -s KILL -- -$$) &
exec "$@" </dev/null 3<&-`

// process is a started program with all its children.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the program has ended and all its output is written
}

// startProcess starts program in dir with the given environment, in a process group of its own.
func startProcess(program string, args []string, dir string, env []string, output io.Writer) (*process, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", leash, "sh", program}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // for output, if a child outlives the program
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() { // ends with the program
		defer close(p.exited)
		_ = cmd.Wait() // an end of its own accord shows to whoever uses the program
		p.signal(syscall.SIGKILL)
	}()
	return p, nil
}

// stop asks the group to end, gives it some seconds, kills it, and returns when the program is gone.
func (p *process) stop() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited: // and its goroutine has killed what was left of the group
	case <-time.After(5 * time.Second):
		p.kill()
	}
}

// kill ends the group at once and returns when the program is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// signal signals the whole group. That nobody is left is no error.
func (p *process) signal(s syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, s)
}
