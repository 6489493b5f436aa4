package netns

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestHostsReachEachOther(t *testing.T) {
	t.Parallel()
	before := interfaces(t)
	n := newNetwork(t)
	a, b := host(t, n, "a"), host(t, n, "b")
	if a.Addr() == b.Addr() || !strings.HasPrefix(a.Addr(), "198.18.0.") {
		t.Errorf("addresses %s and %s", a.Addr(), b.Addr())
	}
	for _, addr := range []string{server(t, a, a.Addr()+":7000"), server(t, b, b.Addr()+":7000")} {
		for _, from := range []*Host{a, b} {
			conn := dial(t, from, addr)
			send(t, conn, "hello")
			comes(t, conn, "hello")
			if at, _, _ := net.SplitHostPort(conn.LocalAddr().String()); at != from.Addr() {
				t.Errorf("a connection from %s comes from %s", from.Addr(), at)
			}
		}
	}
	if after := interfaces(t); !slices.Equal(before, after) {
		t.Errorf("the machine's own interfaces were %q and are %q", before, after)
	}
}

// TestLoopbackIsTheHostsOwn: the same port of 127.0.0.1 is another one on each host.
func TestLoopbackIsTheHostsOwn(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a, b := host(t, n, "a"), host(t, n, "b")
	addr := server(t, a, "127.0.0.1:7000")
	server(t, b, addr)
	comesBack := dial(t, a, addr)
	send(t, comesBack, "hello")
	comes(t, comesBack, "hello")
	var d net.Dialer
	if conn, err := d.DialContext(t.Context(), "tcp", addr); err == nil {
		conn.Close()
		t.Errorf("the machine itself reaches %s", addr)
	}
}

func TestDialWantsAnAddress(t *testing.T) {
	if _, err := new(Host).Dial(t.Context(), "tcp", "localhost:7000"); err == nil || !strings.Contains(err.Error(), "give an IP address and a port") {
		t.Errorf("error %v", err)
	}
}

func TestDialGivesUp(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a, b := host(t, n, "a"), host(t, n, "b")
	if _, err := a.Dial(t.Context(), "tcp", b.Addr()+":7000"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("where nobody listens: %v", err)
	}
	if err := b.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := a.Dial(ctx, "tcp", b.Addr()+":7000"); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with the cable pulled: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Dial(t.Context(), "tcp", a.Addr()+":7000"); err == nil || !strings.Contains(err.Error(), "enter network namespace") {
		t.Errorf("of a closed network: %v", err)
	}
}

func TestPossibleNamesTheRemedy(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := Possible(); err == nil || !strings.Contains(err.Error(), "apt-get install iproute2") {
		t.Errorf("error %v", err)
	}
}

// TestNewRemovesWhatACrashLeft, and nothing of a process that lives.
func TestNewRemovesWhatACrashLeft(t *testing.T) {
	newNetwork(t)
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	left, living := "rig-"+strconv.Itoa(ended.Process.Pid)+"-test-1-a", "rig-1-test-1-a"
	for _, name := range []string{left, living} {
		if err := run(t.Context(), "ip", "netns", "add", name); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := run(context.Background(), "ip", "netns", "delete", living); err != nil {
			t.Error(err)
		}
	})
	newNetwork(t)
	if _, err := os.Stat(filepath.Join(names, left)); err == nil {
		t.Errorf("%s is still there", left)
	}
	if _, err := os.Stat(filepath.Join(names, living)); err != nil {
		t.Error(err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	n := newNetwork(t)
	host(t, n, "a")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(names, n.prefix+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q are left (%v)", left, err)
	}
}

func TestAbandoned(t *testing.T) {
	for _, name := range []string{"", "rig", "rig-", "rig-0-x", "rig--1-x", "rig-x-y", "rig-99999999", "other-99999999-x", "rig-1-x"} {
		if abandoned(name) {
			t.Errorf("%q is taken for left behind", name)
		}
	}
	if name := "rig-99999999-x-hub"; !abandoned(name) { // more than the largest pid there is
		t.Errorf("%q is not taken for left behind", name)
	}
}

// interfaces are the machine's own, with their addresses.
func interfaces(t *testing.T) (all []string) {
	t.Helper()
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		addrs, err := i.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			all = append(all, i.Name+" "+a.String())
		}
	}
	return all
}
