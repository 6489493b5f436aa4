package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"tandem/internal/supervisor"
)

// lastWords is how much of a process's output an error quotes, in bytes.
const lastWords = 500

// Spec is a process to start.
type Spec struct {
	Name    string // for the history, such as "decode-1"
	Program string // path
	Args    []string
	Env     []string // all of it but PATH; HOME should be set
	Dir     string   // ours if empty
	Log     string   // file that both outputs are appended to; nowhere if empty
	Wrap    []string // what the command is started through, such as nsenter --net=FILE; it must become the program, as exec does

	Clock time.Duration // by which its clock is moved from the start on; only with [BuildOptions.Clock]
}

// Process is a running, or ended, program with its children, in a process group of its own that cannot outlive the rig.
// All its methods may be called at any time and from any goroutine.
type Process struct {
	name    string
	process *supervisor.Process
	output  *output
	exited  chan struct{}

	mu    sync.Mutex
	clock *clock // nil: it cannot be moved
	guard *guard // while it is frozen
}

// Start starts a process. That it does its work already is not said; see [Process.Says].
func Start(s Spec) (*Process, error) {
	command := slices.Concat(s.Wrap, []string{s.Program}, s.Args)
	for _, program := range []string{s.Program, command[0]} { // its shell would only say it in the output
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("start %s: %w", s.Name, err)
		}
	}
	out, err := openOutput(s.Log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	clock, err := newClock(s.Program, s.Clock)
	if err != nil {
		out.close()
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	env := slices.Concat([]string{"PATH=" + os.Getenv("PATH")}, s.Env, clock.env())
	started, err := supervisor.Start(command[0], command[1:], s.Dir, env, out)
	if err != nil {
		out.close()
		clock.close()
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	p := &Process{name: s.Name, process: started, output: out, exited: make(chan struct{}), clock: clock}
	go p.tidy() // ends with the program; Kill and all who wait for Exited wait for it
	return p, nil
}

// tidy waits for the end and clears away what stood beside the process.
func (p *Process) tidy() {
	defer close(p.exited)
	<-p.process.Exited()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.guard.dismiss()
	p.guard = nil
	p.clock.close()
	p.output.close()
}

// Name is the one that it was started with.
func (p *Process) Name() string { return p.name }

// Pid is the program's process id, and that of its group.
func (p *Process) Pid() int { return p.process.Pid() }

// Exited is closed when the program has ended, of itself or not, and all its output is known.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Code is the exit status, once Exited is closed: -1 if a signal ended it. Before, it is -1 as well.
func (p *Process) Code() int {
	select {
	case <-p.exited:
	default:
		return -1
	}
	err := p.process.Err()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return exit.ExitCode()
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) { // a child that keeps the output open is not the program's fault
		return -1
	}
	return 0
}

// Output is both outputs so far, mixed as they came, at most the last MiB.
func (p *Process) Output() string { return p.output.last(maxOutput) }

// Says waits until the output holds text, which may have been said before the call. It is an error if the process ends
// without, or the context does.
func (p *Process) Says(ctx context.Context, text string) error {
	for from := 0; ; {
		ended := p.ended() // asked first: what it said last is there by then
		found, next, grown := p.output.find(text, from)
		switch {
		case found:
			return nil
		case ended:
			return fmt.Errorf("wait for %q of %s: it ended with exit status %d; its last words: %s", text, p.name, p.Code(), p.lastWords())
		}
		from = next
		select {
		case <-grown:
		case <-p.exited:
		case <-ctx.Done():
			return fmt.Errorf("wait for %q of %s: %w; its last words: %s", text, p.name, context.Cause(ctx), p.lastWords())
		}
	}
}

func (p *Process) lastWords() string { return strings.TrimSpace(p.output.last(lastWords)) }

func (p *Process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Kill sends SIGKILL to the group, frozen or not, and returns when it is gone: the program, and those children that write
// to its output. A process that has ended may be killed again.
func (p *Process) Kill() {
	p.process.Kill()
	<-p.exited
}

// Terminate sends SIGTERM to the program alone, whose task it is to end its children.
func (p *Process) Terminate() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.signal(p.Pid(), syscall.SIGTERM)
}

// Freeze sends SIGSTOP to the group. Connections stay open, and nothing answers.
func (p *Process) Freeze() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.guard == nil && !p.over() {
		g, err := newGuard(p.Pid())
		if err != nil {
			return fmt.Errorf("freeze %s: %w", p.name, err)
		}
		p.guard = g
	}
	return p.signal(-p.Pid(), syscall.SIGSTOP)
}

// Thaw sends SIGCONT to the group: it goes on where it was.
func (p *Process) Thaw() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.signal(-p.Pid(), syscall.SIGCONT); err != nil {
		return err
	}
	p.guard.dismiss()
	p.guard = nil
	return nil
}

// MoveClock moves the wall clock of a program built with [BuildOptions.Clock], from the program's next look at it on. by
// is how far it is from the machine's, not from where it was. Durations, timers and timeouts go on as before. A program
// that is started again starts with the machine's time, or as [Spec.Clock] says.
func (p *Process) MoveClock(by time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.clock.move(by); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// over reports whether the program has ended; p.mu is held.
func (p *Process) over() bool {
	select {
	case <-p.process.Exited():
		return true
	default:
		return false
	}
}

// signal signals a process, or a group by its negative number; p.mu is held.
func (p *Process) signal(pid int, s syscall.Signal) error {
	if p.over() { // its number may be another's by now
		return fmt.Errorf("send %v to %s: %w", s, p.name, os.ErrProcessDone)
	}
	if err := syscall.Kill(pid, s); err != nil {
		return fmt.Errorf("send %v to %s: %w", s, p.name, err)
	}
	return nil
}
