package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// clusterName is the same in all nodes, or they would not speak to one another.
	clusterName = "tandem"
	// askEvery is how often a server is asked for what it does not tell by itself.
	askEvery = 50 * time.Millisecond
	// answerWithin is how long a server that works may take to say how it is; a frozen one never does.
	answerWithin = time.Second
	// nowhere is where a node tells the others of a cluster to look for it: they are to take the routes that they are given, and port 1 refuses at once.
	nowhere = "127.0.0.1:1"
)

// NATSOptions describe one nats-server process, run from the module's own version.
type NATSOptions struct {
	Name    string        // of the server
	Dir     string        // the JetStream store, the configuration file and the log; made if it is missing
	Port    int           // on Host; 0 takes a free one, kept over restarts
	Host    string        // 127.0.0.1 if empty
	Sync    time.Duration // 0 is sync_interval: always
	Routes  []string      // of a cluster: the other nodes' cluster addresses, nats://host:port
	Cluster int           // port of this node's cluster address; 0: no cluster
	Log     string        // nats.log in Dir if empty
	Wrap    []string      // as in Spec; Host must be reachable from here all the same
	Include string        // file with TLS, accounts and users, by its absolute path, which the configuration includes; empty: everybody may do all
}

// NATS is a nats-server on a port and a store that stay the same over restarts.
type NATS struct {
	program string
	o       NATSOptions
	monitor int // port on Host where it tells how it is
	client  *http.Client

	mu      sync.Mutex
	process *Process
	clock   time.Duration // by which it is moved
}

// StartNATS starts a server and returns when its JetStream answers, a node of a cluster when it takes connections: it may
// still be without a leader then. The error holds what the server said last.
func StartNATS(ctx context.Context, p *Programs, o NATSOptions) (*NATS, error) {
	dir, err := filepath.Abs(o.Dir) // the server runs in it
	if err != nil {
		return nil, fmt.Errorf("start NATS server %s: %w", o.Name, err)
	}
	o.Dir = dir
	o.Host = cmp.Or(o.Host, "127.0.0.1")
	o.Log = cmp.Or(o.Log, filepath.Join(o.Dir, "nats.log"))
	return onFreePorts(func() (*NATS, error) { return startNATS(ctx, p, o) })
}

func startNATS(ctx context.Context, p *Programs, o NATSOptions) (*NATS, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, fmt.Errorf("start NATS server %s: %w", o.Name, err)
	}
	o.Port = cmp.Or(o.Port, ports[0])
	n := &NATS{
		program: p.Path("nats-server"),
		o:       o,
		monitor: ports[1],
		// A connection for each question: none is left over when the server ends.
		client: &http.Client{Timeout: answerWithin, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	if err := n.Start(ctx); err != nil {
		return nil, err
	}
	return n, nil
}

// Name is the server's.
func (n *NATS) Name() string { return n.o.Name }

// Addr is host:port for clients.
func (n *NATS) Addr() string { return net.JoinHostPort(n.o.Host, strconv.Itoa(n.o.Port)) }

// URL is Addr with its scheme.
func (n *NATS) URL() string { return "nats://" + n.Addr() }

// Process is the one that runs, or ran last.
func (n *NATS) Process() *Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// Start starts the server again, after it has ended, and returns when StartNATS does. Its configuration is written anew:
// the disk may have lost it.
func (n *NATS) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil && !n.process.ended() {
		return fmt.Errorf("start NATS server %s: it runs already, as process %d", n.o.Name, n.process.Pid())
	}
	config, err := n.configure()
	if err != nil {
		return fmt.Errorf("start NATS server %s: %w", n.o.Name, err)
	}
	p, err := Start(Spec{
		Name: n.o.Name, Program: n.program, Args: []string{"-c", config}, Env: []string{"HOME=" + n.o.Dir},
		Dir: n.o.Dir, Log: n.o.Log, Wrap: n.o.Wrap, Clock: n.clock,
	})
	if err != nil {
		return err
	}
	if err := n.ready(ctx, p); err != nil {
		p.Kill()
		return fmt.Errorf("start NATS server %s: %w", n.o.Name, n.portTaken(p, err))
	}
	n.process = p
	return nil
}

// errPortTaken is that of a server that has lost a port between its choice and its start.
var errPortTaken = errors.New("another process has taken a port of it")

// portTaken says so of an error, if it was the cause.
func (n *NATS) portTaken(p *Process, err error) error {
	if !strings.Contains(p.Output(), "address already in use") {
		return err
	}
	return fmt.Errorf("%w (%d, %d for monitoring, or %d of the cluster), give others: %w", errPortTaken, n.o.Port, n.monitor, n.o.Cluster, err)
}

// ready waits until the server takes connections and, if it stands alone, JetStream answers.
func (n *NATS) ready(ctx context.Context, p *Process) error {
	if err := p.Says(ctx, "Server is ready"); err != nil {
		return err
	}
	if n.o.Cluster != 0 {
		return nil
	}
	return n.answers(ctx, p)
}

// MoveClock moves the server's clock as [Process.MoveClock] does, and it stays so over restarts, as that of a machine does.
func (n *NATS) MoveClock(by time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.process.MoveClock(by); err != nil {
		return err
	}
	n.clock = by
	return nil
}

// Kill ends the server as a crash does.
func (n *NATS) Kill() { n.Process().Kill() }

// Stop asks the server to end and waits until it has.
func (n *NATS) Stop(ctx context.Context) error {
	p := n.Process()
	if err := p.Terminate(); err != nil {
		return err
	}
	select {
	case <-p.Exited():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop NATS server %s: %w", n.o.Name, context.Cause(ctx))
	}
}

// configure writes the configuration file and returns its path.
func (n *NATS) configure() (string, error) {
	if err := os.MkdirAll(n.o.Dir, 0o700); err != nil {
		return "", err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "server_name: %q\nlisten: %q\nhttp: %q\nmax_payload: 8MB\n",
		n.o.Name, n.Addr(), net.JoinHostPort(n.o.Host, strconv.Itoa(n.monitor)))
	flush := `"always"`
	if n.o.Sync > 0 {
		flush = strconv.Quote(n.o.Sync.String())
	}
	fmt.Fprintf(&b, "jetstream {\n  store_dir: %q\n  sync_interval: %s\n}\n", filepath.Join(n.o.Dir, "store"), flush)
	if n.o.Cluster != 0 {
		quoted := slices.Clone(n.o.Routes)
		for i, route := range quoted {
			quoted[i] = strconv.Quote(route)
		}
		fmt.Fprintf(&b, "cluster {\n  name: %q\n  listen: %q\n  advertise: %q\n  routes: [%s]\n  no_advertise: true\n}\n",
			clusterName, net.JoinHostPort(n.o.Host, strconv.Itoa(n.o.Cluster)), nowhere, strings.Join(quoted, ", "))
	}
	if n.o.Include != "" {
		include, err := filepath.Rel(n.o.Dir, n.o.Include) // NATS takes no absolute path
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "include %q\n", include)
	}
	path := filepath.Join(n.o.Dir, "nats.conf")
	return path, os.WriteFile(path, b.Bytes(), 0o600)
}
