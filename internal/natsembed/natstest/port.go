package natstest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// The ports of test servers are below those that systems give to outgoing connections and to whoever asks for any (from
// 32768 on Linux, from 49152 elsewhere). Otherwise the port of a server that is down may become that of another test, or the
// near end of a client's connection, even of one that looks for that very server, and it could not start again.
const (
	firstPort = 15000
	lastPort  = 31999
)

// freePorts are n different TCP ports of the loopback address that nobody listens on.
func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // held until all are found, so that they differ
		if ports = append(ports, port); len(ports) == n {
			return ports
		}
	}
	t.Fatalf("too many of the ports from %d to %d are taken", firstPort, lastPort)
	return nil
}
