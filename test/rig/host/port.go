package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Free ports are taken from below those that systems give to outgoing connections (from 32768 on Linux, from 49152
// elsewhere). Otherwise the port of a server that is down may become the near end of somebody's connection, even of one
// that looks for that very server, and the server could not start again.
const (
	firstPort = 15000
	lastPort  = 31999
)

// FreePort is a TCP port of the loopback address that nobody listens on. Another may take it before it is used.
func FreePort() (int, error) {
	ports, err := freePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// onFreePorts starts what takes free ports, again on others if somebody was faster.
func onFreePorts[T any](start func() (T, error)) (started T, err error) {
	for range 3 {
		if started, err = start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	return started, err
}

// freePorts are n different ones.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 { // tries
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find free port: %w", err)
		}
		defer l.Close() // held until all are found
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("find free port: too many of those from %d to %d are taken", firstPort, lastPort)
}
