//go:build unix

package llamacpp

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// leash runs a program such that it cannot outlive us, on macOS too, where the kernel has nothing for
// that: a subshell in the program's process group waits for the end of a pipe that only we hold, which
// comes when we die by whatever means, and then kills the group. The program itself takes the shell's place.
const leash = `exec 3<&0
(exec >/dev/null 2>&1; read -r _ <&3; kill -s KILL -- -$$) &
exec "$@" </dev/null 3<&-`

// patience is how long a process that was asked to end may take.
const patience = 5 * time.Second

// process is a started program and its process group.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended and its output is read
	err    error         // how, set before
}

// start starts a program on a leash, in a process group of its own, so that a Ctrl-C meant for us lets
// it finish what we are waiting for.
func start(binary string, args, env []string, output io.Writer) (*process, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", leash, "sh", binary}, args...)...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = patience
	if _, err := cmd.StdinPipe(); err != nil { // our end of the leash; Wait closes it
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() { // ends with the process, which stop ends
		defer close(p.exited)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// stop ends the process, if it has not ended, and returns when it has.
func (p *process) stop() {
	select {
	case <-p.exited: // and the leash has killed what was left of its group
		return
	default:
	}
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.signal(syscall.SIGKILL)
		<-p.exited
	}
}

func (p *process) signal(s syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, s) // it may have ended
}

// environment is ours without what would change the server's flags behind our back, and without our
// own settings, some of which are secret.
func environment(key string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LLAMA_") && !strings.HasPrefix(v, "TANDEM_") {
			env = append(env, v)
		}
	}
	if key != "" {
		env = append(env, "LLAMA_API_KEY="+key) // an argument would show in the list of processes
	}
	return env
}
