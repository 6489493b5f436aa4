package forecast

import (
	"slices"
	"strings"

	"tandem/internal/engine"
	"tandem/internal/pipeline"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

// Writer is what decides whether KV states of a prefill worker are of use to another one.
type Writer struct {
	Machine     string
	Fingerprint *jobs.Fingerprint // nil if it writes none
	Check       *protocol.Check   // nil if it was not checked yet
	Strict      bool              // its states are for engines that name their builds equally
}

// WriterOf is the worker of a presence as one that writes KV states.
func WriterOf(p queue.Presence) Writer { return Writer{p.Machine, p.Fingerprint, p.Check, p.Strict} }

// FirstWriter is the first prefill worker of some; one that writes nothing if there is none.
func FirstWriter(present []queue.Presence) Writer {
	if i := slices.IndexFunc(present, func(p queue.Presence) bool { return p.Role == protocol.RolePrefill }); i >= 0 {
		return WriterOf(present[i])
	}
	return Writer{}
}

// Peers are the live workers of a model, as its first prefill worker sees them.
func Peers(present []queue.Presence, model string) (peers []engine.Peer) {
	live := slices.DeleteFunc(slices.Clone(present), func(p queue.Presence) bool { return p.Model != model || !p.Live() })
	from := FirstWriter(live)
	for _, p := range live {
		peers = append(peers, DecodePeer(p, from))
	}
	return peers
}

// DecodePeer is a worker as a prefill worker sees it that writes such KV states.
func DecodePeer(p queue.Presence, from Writer) engine.Peer {
	peer := engine.Peer{
		Worker: p.Worker, Role: p.Role, Running: p.Running, Machine: p.Machine, Slots: p.Slots, Busy: p.Busy, Rates: p.Rates, Prefixes: p.Prefixes, Copies: p.Copies, Rows: p.Rows,
	}
	if p.Fingerprint != nil {
		peer.CacheType = p.Fingerprint.CacheK
	}
	peer.NoStates, peer.Failure = refusal(p, from)
	return peer
}

// refusal is why KV states of the writer are of no use to a worker; empty if they are.
func refusal(p queue.Presence, from Writer) (why string, called jobs.Failure) {
	switch {
	case from.Fingerprint == nil:
		return "the prefill engine writes none", jobs.FailNoState
	case p.Fingerprint == nil && p.NoState == "": // it may say more in a moment
		return "the engine of " + p.Machine + " takes none: it does not say why", ""
	case p.Fingerprint == nil:
		return "the engine of " + p.Machine + " takes none: " + p.NoState, jobs.FailNoState
	case slices.Contains(p.StoppedPairs, from.Machine):
		return p.Machine + " takes none from " + from.Machine + " any more, since first predictions differed; " + pipeline.RemedyFor(from.Machine), jobs.FailStopped
	}
	if list := p.Fingerprint.Differences(*from.Fingerprint, p.Strict || from.Strict); len(list) > 0 {
		return "the two engines differ: " + strings.Join(list, "; "), jobs.FailFingerprint
	}
	if from.Check == nil || p.Check == nil { // it is being made, and when a state has come to the decode machine there will be both
		return "", ""
	}
	if why = engine.Differ(from.Machine, from.Check, p.Machine, p.Check); why != "" {
		called = jobs.FailDiffer
	}
	return why, called
}
