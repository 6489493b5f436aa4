package netns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
)

// device is what every host calls its end of the cable.
const device = "eth0"

// Host is one of the hosts: a network namespace with a cable to the hub. It has its own loopback, so ports of 127.0.0.1 are its own too.
type Host struct {
	network *Network
	name    string
	space   string // its namespace
	port    string // the hub's end of the cable
	addr    string
}

// Host adds a host, whose name is for people: letters, digits and hyphens.
func (n *Network) Host(ctx context.Context, name string) (*Host, error) {
	n.mu.Lock()
	n.hosts++
	number := n.hosts
	n.mu.Unlock()
	if number > maxHosts {
		return nil, fmt.Errorf("add host %s: the network has %d hosts, and no more addresses; close it and make another", name, maxHosts)
	}
	h := &Host{network: n, name: name, port: "port" + strconv.Itoa(number), addr: subnet + strconv.Itoa(number)}
	h.space = n.prefix + strconv.Itoa(number) + "-" + name
	if err := n.namespace(ctx, h.space); err != nil {
		return nil, fmt.Errorf("add host %s: %w", name, err)
	}
	err := commands(ctx, [][]string{
		{"ip", "-n", n.hub, "link", "add", h.port, "type", "veth", "peer", "name", device, "netns", h.space},
		{"ip", "-n", n.hub, "link", "set", h.port, "master", "hub", "up"},
		{"ip", "-n", h.space, "address", "add", h.addr + "/24", "dev", device},
		{"ip", "-n", h.space, "link", "set", "lo", "up"},
		{"ip", "-n", h.space, "link", "set", device, "up"},
	})
	if err != nil {
		return nil, fmt.Errorf("add host %s: %w", name, err)
	}
	return h, nil
}

// Name is what it was called.
func (h *Host) Name() string { return h.name }

// Addr is its IP address.
func (h *Host) Addr() string { return h.addr }

// Wrap is what a command is started through to run on the host: the first words of the command line. The process that is started is
// the program itself. It stays in the namespace of mounts that it is in: ip netns exec would give it a copy, in which a disk that somebody else
// unmounts meanwhile stays mounted.
func (h *Host) Wrap() []string { return []string{"nsenter", "--net=" + names + "/" + h.space} }

// Dial connects from this host to an address of the network, or of the host's own loopback, on behalf of this process. The address must
// be an IP with a port: names would be looked up on the machine's own network. It fits http.Transport.DialContext.
func (h *Host) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if _, err := netip.ParseAddrPort(addr); err != nil {
		return nil, fmt.Errorf("dial from %s: %w; give an IP address and a port", h.name, err)
	}
	var conn net.Conn
	err := inside(filepath.Join(names, h.space), func() (err error) {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, addr)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dial from %s: %w", h.name, err)
	}
	return conn, nil
}
