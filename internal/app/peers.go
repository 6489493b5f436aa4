package app

import (
	"cmp"
	"slices"
	"strings"

	"tandem/internal/engine"
	"tandem/internal/jobs"
	"tandem/internal/queue"
)

// peers lists the decode workers that this prefill worker may hand jobs to.
func (w *Worker) peers() []engine.Peer {
	var ours *jobs.Fingerprint
	if m := w.monitor.Health().Description.Mover; m != nil {
		ours = &m.Fingerprint
	}
	var peers []engine.Peer
	for _, p := range w.queue.Peers() {
		if p.Role == jobs.RoleDecode {
			peers = append(peers, DecodePeer(p, w.flags.Machine, ours))
		}
	}
	return peers
}

// DecodePeer is a decode worker as a prefill worker on a machine sees it, whose KV states have the fingerprint ours, or nil
// if it writes none.
func DecodePeer(p queue.Presence, machine string, ours *jobs.Fingerprint) engine.Peer {
	peer := engine.Peer{Machine: p.Machine, Slots: p.Slots, Busy: p.Busy, Rates: p.Rates, Prefixes: p.Prefixes}
	if p.Fingerprint != nil {
		peer.CacheType = p.Fingerprint.CacheK
	}
	switch {
	case ours == nil:
		peer.NoStates = "the prefill engine writes none"
	case p.Fingerprint == nil:
		peer.NoStates = "the engine of " + p.Machine + " takes none: " + cmp.Or(p.NoState, "it does not say why")
	case slices.Contains(p.StoppedPairs, machine):
		peer.NoStates = p.Machine + " takes none from " + machine + " any more, since first predictions differed"
	default:
		if list := p.Fingerprint.Differences(*ours); len(list) > 0 {
			peer.NoStates = "the two engines differ: " + strings.Join(list, "; ")
		}
	}
	return peer
}
