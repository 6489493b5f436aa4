package netns

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// limit is how long anything that a test waits for may take on a busy machine.
const limit = 30 * time.Second

// serveAt has the test's own program be a server on a host, at the address that it names.
const serveAt = "NETNS_TEST_SERVE_AT"

func TestMain(m *testing.M) {
	if addr := os.Getenv(serveAt); addr != "" {
		fmt.Fprintln(os.Stderr, serve(addr))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// serve sends back whatever comes, until the process ends. It says where it listens.
func serve(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() { // as long as the process
			defer conn.Close()
			_, _ = io.Copy(conn, conn) // the other side may be cut off
		}()
	}
}

// newNetwork is a network that ends with the test. A machine that cannot have one skips the test.
func newNetwork(t *testing.T) *Network {
	t.Helper()
	if err := Possible(); err != nil {
		t.Skip(err)
	}
	n, err := New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func host(t *testing.T, n *Network, name string) *Host {
	t.Helper()
	h, err := n.Host(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// server starts a server on a host and returns where it listens.
func server(t *testing.T, h *Host, addr string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := append(h.Wrap(), self)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), serveAt+"="+addr)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server on %s did not start: %v", h.Name(), err)
	}
	return line[:len(line)-1]
}

// dial connects from a host.
func dial(t *testing.T, from *Host, addr string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	conn, err := from.Dial(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// send writes a word, which the server will send back.
func send(t *testing.T, conn net.Conn, word string) {
	t.Helper()
	if _, err := io.WriteString(conn, word); err != nil {
		t.Fatal(err)
	}
}

// comes waits until a word was sent back.
func comes(t *testing.T, conn net.Conn, word string) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	have := make([]byte, len(word))
	if _, err := io.ReadFull(conn, have); err != nil || string(have) != word {
		t.Fatalf("%q came back, want %q: %v", have, word, err)
	}
}

// silence fails the test unless nothing comes, and the connection does not end either.
func silence(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(make([]byte, 1))
	if timeout, ok := err.(net.Error); n != 0 || !ok || !timeout.Timeout() {
		t.Fatalf("%d bytes and %v; want that nothing comes", n, err)
	}
}
