// Package host builds the real programs, runs them as processes, and does to them what happens to processes.
package host

import (
	"time"
)

// Edit is a change to a source file of the module, for a program that is broken on purpose: the build sees the edited file, the tree does not change.
type Edit struct {
	File     string // relative to the module's root, such as internal/queue/settle.go; or std:time/time.go for the standard library
	Old, New string // Old must occur exactly once
}

// BuildOptions say how the programs are built.
type BuildOptions struct {
	Race  bool
	Edits []Edit
	// Clock builds programs whose wall clock can be moved while they run: time.Now adds what [Process.MoveClock] says.
	Clock bool
}

// NATSOptions describe one nats-server process, run from the module's own version.
type NATSOptions struct {
	Name    string        // of the server, and its folder
	Dir     string        // the JetStream store and the configuration file
	Port    int           // on Host; 0 takes a free one, kept over restarts
	Host    string        // 127.0.0.1 if empty
	Sync    time.Duration // 0 is sync_interval: always
	Routes  []string      // of a cluster: the other nodes' cluster addresses, nats://host:port
	Cluster int           // port of this node's cluster address; 0: no cluster
}

// Programs are the built ones: prefill-worker, decode-worker, submitter, llama-server-shim, nats-server, noopengine.
//
//	func Build(ctx context.Context, dir string, o BuildOptions) (*Programs, error)
//	func (p *Programs) Path(name string) string
type Programs struct{}

// Spec is a process to start.
type Spec struct {
	Name    string // for the history, such as "decode-1"
	Program string // path
	Args    []string
	Env     []string // all of it but PATH; HOME should be set
	Dir     string
	Log     string   // file that both outputs are appended to
	Wrap    []string // what the command is started through, such as ip netns exec NAME
}

// Process is a running, or ended, program with its children, in a process group of its own that cannot outlive the rig.
//
//	func Start(s Spec) (*Process, error)
//	func (p *Process) Name() string
//	func (p *Process) Pid() int
//	func (p *Process) Exited() <-chan struct{}
//	func (p *Process) Code() int                              // after Exited; -1 if by a signal
//	func (p *Process) Output() string                         // both outputs so far, at most the last MiB
//	func (p *Process) Says(ctx context.Context, text string) error // waits until the output holds it; an error if the process ends before
//	func (p *Process) Kill()                                  // SIGKILL to the group; returns when it is gone
//	func (p *Process) Terminate() error                       // SIGTERM to the program alone
//	func (p *Process) Freeze() error                          // SIGSTOP to the group
//	func (p *Process) Thaw() error                            // SIGCONT
//	func (p *Process) MoveClock(by time.Duration) error       // of a program built with Clock; by is absolute, not added up
type Process struct{}

// NATS is a nats-server on a port and a store that stay the same over restarts.
//
//	func StartNATS(ctx context.Context, p *Programs, o NATSOptions) (*NATS, error) // returns when JetStream answers (for a node of a cluster: when it listens)
//	func (n *NATS) URL() string
//	func (n *NATS) Addr() string
//	func (n *NATS) Process() *Process
//	func (n *NATS) Start(ctx context.Context) error // again, after it has ended
//	func (n *NATS) Kill()
//	func (n *NATS) Stop(ctx context.Context) error  // SIGTERM, and waits
//
//	func FreePort() (int, error)
type NATS struct{}
