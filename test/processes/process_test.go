package processes

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// limit is how long anything that a scenario waits for may take on a busy machine.
const limit = 60 * time.Second

// process is a program that was started. It is killed, if need be, when the test ends.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	stdout printed
	stderr printed
	ended  chan struct{}
}

// start starts a program with an environment of nothing but env and what every program needs.
func start(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(name, args...), ended: make(chan struct{})}
	p.stdout.changed, p.stderr.changed = make(chan struct{}), make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0 exitcode=66"}, env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code is looked at where it counts
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		text := p.stderr.String()
		if strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") {
			t.Errorf("%s has a race or a panic", name)
		}
		if t.Failed() {
			t.Logf("%s printed:\n%s%s", strings.Join(p.cmd.Args, " "), p.stdout.String(), text)
		}
	})
	return p
}

// kill ends the process as a crash would: without a chance to say or save anything.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails if it has ended already
	<-p.ended
}

// terminate asks the process to end, as a service manager does.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatalf("terminate %s: %v", p.name, err)
	}
}

// exits waits until the process ends by itself, which must be with this code.
func (p *process) exits(code int) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.t.Fatalf("%s does not end", p.name)
	}
	if have := p.cmd.ProcessState.ExitCode(); have != code {
		p.t.Fatalf("%s: exit code %d, want %d", p.name, have, code)
	}
}

// says waits until the process has printed a text on stderr.
func (p *process) says(text string) {
	p.t.Helper()
	p.await(&p.stderr, text)
}

// await waits until the process has printed a text.
func (p *process) await(on *printed, text string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	for {
		have, changed := on.now()
		if strings.Contains(have, text) {
			return
		}
		select {
		case <-changed:
		case <-p.ended:
			if !strings.Contains(on.String(), text) {
				p.t.Fatalf("%s ended without having printed %q", p.name, text)
			}
		case <-ctx.Done():
			p.t.Fatalf("%s does not print %q", p.name, text)
		}
	}
}

// said fails the test unless the ended process has printed all of these on stderr.
func (p *process) said(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.stderr.String(), text) {
			p.t.Errorf("%s did not say %q", p.name, text)
		}
	}
}

// printed is what a process has printed so far.
type printed struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced when there is more
}

func (o *printed) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(data)
}

func (o *printed) now() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.changed
}

func (o *printed) String() string {
	text, _ := o.now()
	return text
}
