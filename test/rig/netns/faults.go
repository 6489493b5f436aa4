package netns

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// nowhere is a hardware address that nobody has. The hub passes what is sent there to all, and none takes it.
const nowhere = "02:00:00:00:00:01"

// Down pulls the host's cable. Whoever speaks with it is not told: connections hang.
func (h *Host) Down(ctx context.Context) error {
	return h.fault("pull the cable", run(ctx, "ip", "-n", h.network.hub, "link", "set", h.port, "down"))
}

// Up plugs it in again.
func (h *Host) Up(ctx context.Context) error {
	return h.fault("plug in the cable", run(ctx, "ip", "-n", h.network.hub, "link", "set", h.port, "up"))
}

// Unplug has nothing pass between two hosts any more, in either direction. Neither is told, and both reach all others as before.
//
// It needs nothing of the kernel's filters, which not every kernel has: each of the two takes the other to be at a hardware address
// that does not exist. A blackhole route would not be silent, since the sender gets an error.
func (h *Host) Unplug(ctx context.Context, other *Host) error {
	return h.fault("unplug from "+other.name, commands(ctx, [][]string{
		{"ip", "-n", h.space, "neighbour", "replace", other.addr, "lladdr", nowhere, "nud", "permanent", "dev", device},
		{"ip", "-n", other.space, "neighbour", "replace", h.addr, "lladdr", nowhere, "nud", "permanent", "dev", device},
	}))
}

// Plug undoes Unplug.
func (h *Host) Plug(ctx context.Context, other *Host) error {
	return h.fault("plug into "+other.name, commands(ctx, [][]string{
		{"ip", "-n", h.space, "neighbour", "delete", other.addr, "dev", device},
		{"ip", "-n", other.space, "neighbour", "delete", h.addr, "dev", device},
	}))
}

// Rate limits what the host sends, and what it receives, to so many bytes a second each; 0 lifts the limit. A kernel without the token
// bucket filter cannot: then the rate of a wire is limited by a tap (test/rig/tap).
func (h *Host) Rate(ctx context.Context, bytesPerSecond int) error {
	for _, end := range [][2]string{{h.space, device}, {h.network.hub, h.port}} {
		command := []string{"tc", "-n", end[0], "qdisc", "replace", "dev", end[1], "root", "noqueue"}
		if bytesPerSecond > 0 {
			command = append(command[:len(command)-1], "tbf", "rate", strconv.Itoa(bytesPerSecond)+"bps", // in tc that is bytes
				"burst", strconv.Itoa(max(16<<10, bytesPerSecond/100)), "latency", "200ms")
		}
		if err := run(ctx, command...); err != nil {
			if strings.Contains(err.Error(), "unknown") {
				err = fmt.Errorf("%w; this kernel has no token bucket filter (CONFIG_NET_SCH_TBF): limit the wire by a tap", err)
			}
			return h.fault("limit the rate", err)
		}
	}
	return nil
}

// Reset ends all TCP connections between two hosts, as a firewall does that was started again: each side finds its own closed. The
// kernel must allow it (CONFIG_INET_DIAG_DESTROY); else a tap can.
func (h *Host) Reset(ctx context.Context, other *Host) error {
	return h.fault("reset connections with "+other.name, run(ctx, append(h.Wrap(), "ss", "--no-header", "--tcp", "--kill", "dst", other.addr)...))
}

func (h *Host) fault(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s of %s: %w", what, h.name, err)
	}
	return nil
}
