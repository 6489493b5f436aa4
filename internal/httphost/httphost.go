// Package httphost tells requests for a server by its own names from those of a page that had a name of its own lead here (DNS rebinding).
package httphost

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Ours reports whether a request's Host, with or without a port, is an IP address or one of these names.
func Ours(host string, names ...string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	name = strings.TrimSuffix(name, ".")
	return name != "" && slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}
