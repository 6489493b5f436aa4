package handover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// defaultAllow is where states are fetched from if nothing else is said: addresses that cannot belong to a
// stranger. A decode message must not make a worker ask just any machine.
func defaultAllow() []netip.Prefix {
	var list []netip.Prefix
	for _, s := range []string{
		"127.0.0.0/8", "::1/128", // this machine
		"169.254.0.0/16", "fe80::/10", // link-local, as of two machines on one cable
		"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", // private
		"100.64.0.0/10", // shared address space, which tailnets use
	} {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}

// metadata are addresses at which clouds tell a machine its secrets. They are among those that are allowed.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("169.254.170.2"), netip.MustParseAddr("169.254.170.23"),
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd00:ec2::23"), netip.MustParseAddr("fd20:ce::254"),
}

// statePattern is the end of a state's address, below that of its server.
var statePattern = regexp.MustCompile(`/state/[0-9a-f]{32}$`)

// addressError is an address to which no connection is made.
type addressError struct{ addr netip.Addr }

func (e *addressError) Error() string {
	return fmt.Sprintf("%s is no address from which states may be fetched", e.addr)
}

// guard returns the check of every connection: it sees the very address that is about to be dialled, after
// names were resolved, so that no name can lead elsewhere in between.
func guard(allow []netip.Prefix) func(ctx context.Context, network, address string, _ syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		addr := at.Addr().Unmap().WithZone("") // no prefix contains an address with a zone
		for _, p := range allow {
			if p.Contains(addr) && !slices.Contains(metadata, addr) {
				return nil
			}
		}
		return &addressError{addr}
	}
}

// address reads the address in a state, and checks that a prefill worker offers states there.
func (c *Client) address(ctx context.Context, s *jobs.State) (*url.URL, error) {
	u, err := checkURL(s)
	if err != nil {
		return nil, err
	}
	if c.strict && u.Scheme != "https" {
		return nil, protocol.HandoverErrorf(jobs.FailRefusedURL, "the KV state is offered over http, and --handover-ca asks for https; give the prefill worker --handover-cert and --handover-key")
	}
	if _, ok := c.server(ctx, statePattern.ReplaceAllLiteralString(s.URL, "")); !ok {
		return nil, protocol.HandoverErrorf(jobs.FailUnreachable, "the KV state is at %.100q, where no prefill worker of the model offers any: it has ended, or its --handover-url is another one", u.Host)
	}
	return u, nil
}

// checkURL reads the address in a state, which came in a message.
func checkURL(s *jobs.State) (*url.URL, error) {
	refuse := func(why string) error {
		return protocol.HandoverErrorf(jobs.FailRefusedURL, "the KV state's address %s; check the prefill worker's --handover-url", why)
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil: // whose words hold the whole URL
		return nil, refuse("is no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, refuse("begins neither with http nor with https")
	case u.Hostname() == "" || u.Opaque != "":
		return nil, refuse("names no host")
	case u.User != nil || u.Fragment != "" || u.RawQuery != "":
		return nil, refuse("holds more than scheme, host and path")
	case !statePattern.MatchString(u.EscapedPath()):
		return nil, refuse("is not that of a state")
	case s.Token == "" || strings.ContainsFunc(s.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, refuse("has no valid token")
	case s.Bytes <= 0:
		return nil, protocol.HandoverErrorf(jobs.FailTruncated, "the KV state is said to have %d bytes; update the prefill worker", s.Bytes)
	}
	return u, nil
}

// refused is the failure of a dial that the guard did not allow, or nil.
func refused(err error, host string) error {
	a, ok := errors.AsType[*addressError](err)
	if !ok {
		return nil
	}
	return protocol.HandoverErrorf(jobs.FailRefusedURL, "the KV state is at %s, and no states are fetched from %s; if the prefill machine has that address, allow it with --handover-allow", hostOnly(host), a.addr)
}

// hostOnly is a host without its port.
func hostOnly(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return host
}
