package app

import (
	"cmp"
	"slices"
	"strings"

	"tandem/internal/engine"
	"tandem/internal/jobs"
	"tandem/internal/queue"
)

// peers lists the other live workers of the model.
func (w *Worker) peers() []engine.Peer {
	var writes *jobs.Fingerprint // of the states that prefill hands over
	if m := w.monitor.Health().Description.Mover; m != nil {
		writes = &m.Fingerprint
	}
	machine := w.flags.Machine
	present := w.queue.Peers()
	if w.role == jobs.RoleDecode {
		writes = nil
		if i := slices.IndexFunc(present, func(p queue.Presence) bool { return p.Role == jobs.RolePrefill }); i >= 0 {
			writes, machine = present[i].Fingerprint, present[i].Machine
		}
	}
	var peers []engine.Peer
	for _, p := range present {
		peers = append(peers, DecodePeer(p, machine, writes))
	}
	return peers
}

// takesNone is why this decode worker takes no KV states of the prefill workers that live; empty if it takes those of one.
func (w *Worker) takesNone() (why string) {
	why = "there is no live prefill worker"
	self := w.presence()
	for _, p := range w.queue.Peers() {
		if p.Role == jobs.RolePrefill {
			if why = DecodePeer(self, p.Machine, p.Fingerprint).NoStates; why == "" {
				break
			}
		}
	}
	return why
}

// Peers are the live workers of a model, as its first prefill worker sees them.
func Peers(present []queue.Presence, model string) (peers []engine.Peer) {
	live := slices.DeleteFunc(slices.Clone(present), func(p queue.Presence) bool { return p.Model != model || !p.Live() })
	machine, writes := "", (*jobs.Fingerprint)(nil)
	if i := slices.IndexFunc(live, func(p queue.Presence) bool { return p.Role == jobs.RolePrefill }); i >= 0 {
		machine, writes = live[i].Machine, live[i].Fingerprint
	}
	for _, p := range live {
		peers = append(peers, DecodePeer(p, machine, writes))
	}
	return peers
}

// DecodePeer is a worker as a prefill worker on a machine sees it, whose KV states have the fingerprint ours, or nil
// if it writes none.
func DecodePeer(p queue.Presence, machine string, ours *jobs.Fingerprint) engine.Peer {
	peer := engine.Peer{
		Worker: p.Worker, Role: p.Role, Running: p.Running, Machine: p.Machine, Slots: p.Slots, Busy: p.Busy, Rates: p.Rates, Prefixes: p.Prefixes, Copies: p.Copies, Rows: p.Rows,
	}
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
