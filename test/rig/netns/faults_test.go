package netns

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestUnplug: two hosts are cut off from each other, silently, and a third reaches both.
func TestUnplug(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a, b, c := host(t, n, "a"), host(t, n, "b"), host(t, n, "c")
	atB, atC := server(t, b, b.Addr()+":7000"), server(t, c, c.Addr()+":7000")
	ab, ac, bc, cb := dial(t, a, atB), dial(t, a, atC), dial(t, b, atC), dial(t, c, atB)
	all := []net.Conn{ab, ac, bc, cb}
	for _, conn := range all {
		send(t, conn, "before")
		comes(t, conn, "before")
	}

	if err := a.Unplug(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for _, conn := range all {
		send(t, conn, "meanwhile")
	}
	for _, conn := range all[1:] {
		comes(t, conn, "meanwhile")
	}
	silence(t, ab)
	hangs(t, a, atB)

	if err := a.Plug(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	comes(t, ab, "meanwhile")
	again := dial(t, a, atB)
	send(t, again, "after")
	comes(t, again, "after")
}

// TestCable: a host whose cable is pulled is reached by nobody, and by all when it is back.
func TestCable(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a, b, c := host(t, n, "a"), host(t, n, "b"), host(t, n, "c")
	atB, atC := server(t, b, b.Addr()+":7000"), server(t, c, c.Addr()+":7000")
	ab, bc, ac := dial(t, a, atB), dial(t, b, atC), dial(t, a, atC)
	for range 2 {
		if err := b.Down(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, conn := range []net.Conn{ab, bc, ac} {
			send(t, conn, "meanwhile")
		}
		comes(t, ac, "meanwhile")
		silence(t, ab)
		silence(t, bc)
		hangs(t, c, atB)
		if err := b.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		comes(t, ab, "meanwhile")
		comes(t, bc, "meanwhile")
	}
}

// TestRate: a limit makes a transfer take as long as it must, in either direction, and it can be lifted.
func TestRate(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a, b := host(t, n, "a"), host(t, n, "b")
	conn := dial(t, a, server(t, b, b.Addr()+":7000"))
	const size, rate = 300_000, 200_000
	transfer := func() time.Duration {
		began := time.Now()
		sent := make(chan error, 1)
		go func() {
			_, err := conn.Write(make([]byte, size))
			sent <- err
		}()
		if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		_, err := io.CopyN(io.Discard, conn, size)
		if err := errors.Join(err, <-sent); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	transfer()
	for _, limited := range []*Host{a, b} {
		if err := limited.Rate(t.Context(), rate); err != nil {
			t.Fatal(err)
		}
		slow := transfer()
		if err := limited.Rate(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		fast := transfer()
		t.Logf("%d bytes there and back at %d bytes a second took %v, without a limit %v", size, rate, slow, fast)
		if least := (size - 64<<10) * time.Second / rate; slow < least || fast > slow { // what the bucket holds is free
			t.Errorf("it took %v with the limit and %v without; want at least %v, and less", slow, fast, least)
		}
	}
}

// TestReset: a connection that is reset ends at once, on both sides, and others go on.
func TestReset(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a, b, c := host(t, n, "a"), host(t, n, "b"), host(t, n, "c")
	atB := server(t, b, b.Addr()+":7000")
	ab, cb := dial(t, a, atB), dial(t, c, atB)
	for _, conn := range []net.Conn{ab, cb} {
		send(t, conn, "before")
		comes(t, conn, "before")
	}
	if err := b.Reset(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := ab.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := ab.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection ended with %v; want a reset", err)
	}
	send(t, cb, "after")
	comes(t, cb, "after")
}

// TestFaultsNameTheHost: what cannot be done says to whom.
func TestFaultsNameTheHost(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a, b := host(t, n, "a"), host(t, n, "b")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"pull the cable of a": a.Down(t.Context()), "plug in the cable of a": a.Up(t.Context()),
		"unplug from b of a": a.Unplug(t.Context(), b), "plug into b of a": a.Plug(t.Context(), b),
		"limit the rate of a": a.Rate(t.Context(), 1000), "reset connections with b of a": a.Reset(t.Context(), b),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v, want one that says %q", err, what)
		}
	}
}

// hangs fails the test unless a connection cannot be made, and nobody says why.
func hangs(t *testing.T, from *Host, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	conn, err := from.Dial(ctx, "tcp", addr)
	if err == nil {
		conn.Close()
	}
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
		t.Fatalf("dial %s: %v; want that nothing comes", addr, err)
	}
}
