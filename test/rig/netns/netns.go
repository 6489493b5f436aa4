// Package netns makes separate hosts of one machine, by Linux network namespaces: each host has its own address and cable, all are
// plugged into one hub, and what fails in a network can be made to fail between exactly these two.
//
// The machine's own network is left as it is: not an interface, route or rule is added to it. The commands ip and tc (iproute2) do the
// work. A program is run on a host through [Host.Wrap], and this process speaks to it through [Host.Dial].
package netns

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// names is where ip keeps the namespaces that have a name.
const names = "/run/netns"

// subnet is what hosts get their addresses of: kept free for tests of networks (RFC 2544), so no real machine has one.
const subnet = "198.18.0."

// maxHosts are the addresses of that network.
const maxHosts = 254

// closing bounds how long what was made may take to be removed.
const closing = 30 * time.Second

// remedy is what to do when the machine does not allow namespaces.
const remedy = "run as root, or as a root of your own: unshare --map-root-user --mount --net sh -c 'mount -t tmpfs none /run && COMMAND'"

// Possible says why this machine cannot have hosts of its own, and what to do about it; nil if it can. It tries.
func Possible() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("make network namespaces: this is %s, and only Linux has them", runtime.GOOS)
	}
	for _, program := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("make network namespaces: %w; install iproute2 (apt-get install iproute2)", err)
		}
	}
	if _, err := setnsNumber(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	n, err := New(ctx)
	if err != nil {
		return err
	}
	_, err = n.Host(ctx, "probe")
	return errors.Join(err, n.Close())
}

// Network is some hosts around a hub. Its methods may be called from several goroutines.
type Network struct {
	prefix string // of the names of its namespaces
	hub    string // namespace with the bridge

	mu    sync.Mutex
	made  []string // namespaces, to be removed
	hosts int
}

// New makes a network without hosts. What a run that was killed has left behind is removed: namespaces named after processes that are
// no more.
func New(ctx context.Context) (*Network, error) {
	if err := sweep(ctx); err != nil {
		return nil, err
	}
	n := &Network{prefix: fmt.Sprintf("rig-%d-%s-", os.Getpid(), strings.ToLower(rand.Text()[:6]))}
	n.hub = n.prefix + "hub"
	err := n.namespace(ctx, n.hub)
	if err == nil {
		err = commands(ctx, [][]string{
			{"ip", "-n", n.hub, "link", "add", "hub", "type", "bridge", "forward_delay", "0"},
			{"ip", "-n", n.hub, "link", "set", "hub", "up"},
		})
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// namespace makes one that Close removes.
func (n *Network) namespace(ctx context.Context, name string) error {
	if err := run(ctx, "ip", "netns", "add", name); err != nil {
		return fmt.Errorf("%w; %s", err, remedy)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.made = append(n.made, name)
	return nil
}

// Close removes the hosts and the hub. A program that still runs on a host goes on without a network.
func (n *Network) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	n.mu.Lock()
	made := n.made
	n.made = nil
	n.mu.Unlock()
	var errs []error
	for _, name := range made {
		errs = append(errs, run(ctx, "ip", "netns", "delete", name))
	}
	return errors.Join(errs...)
}

// sweep removes the namespaces of processes that are no more.
func sweep(ctx context.Context) error {
	entries, err := os.ReadDir(names)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read network namespaces: %w", err)
	}
	for _, e := range entries {
		if !abandoned(e.Name()) {
			continue
		}
		err := run(ctx, "ip", "netns", "delete", e.Name())
		if _, there := os.Lstat(filepath.Join(names, e.Name())); err != nil && there == nil { // another run may have been quicker
			return err
		}
	}
	return nil
}

// abandoned reports whether a namespace has a name of ours and its process has ended.
func abandoned(name string) bool {
	rest, ours := strings.CutPrefix(name, "rig-")
	number, _, whole := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(number)
	return ours && whole && err == nil && pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// commands runs programs one after another, until one fails.
func commands(ctx context.Context, list [][]string) error {
	for _, c := range list {
		if err := run(ctx, c...); err != nil {
			return err
		}
	}
	return nil
}

// run runs a program to its end.
func run(ctx context.Context, command ...string) error {
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
