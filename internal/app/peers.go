package app

import (
	"tandem/internal/engine"
	"tandem/internal/forecast"
	"tandem/internal/protocol"
)

// peers lists the other live workers of the model.
func (w *Worker) peers() []engine.Peer {
	present := w.queue.Peers()
	from := forecast.FirstWriter(present)
	if w.role == protocol.RolePrefill {
		d := w.monitor.Health().Description
		from = forecast.Writer{Machine: w.flags.Machine, Strict: w.flags.HandoverStrict}
		if d.KVTransfer != nil {
			from.Fingerprint = &d.KVTransfer.Fingerprint
		}
		from.Check, _ = w.checks.current(d)
	}
	var peers []engine.Peer
	for _, p := range present {
		peers = append(peers, forecast.DecodePeer(p, from))
	}
	return peers
}

// takesNone is why this decode worker takes no KV states of the prefill workers that live; empty if it takes those of one.
func (w *Worker) takesNone() (why string) {
	why = "there is no live prefill worker"
	self := w.presence()
	for _, p := range w.queue.Peers() {
		if p.Role == protocol.RolePrefill {
			if why = forecast.DecodePeer(self, forecast.WriterOf(p)).NoStates; why == "" {
				break
			}
		}
	}
	return why
}
