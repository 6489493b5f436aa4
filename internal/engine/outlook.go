package engine

import (
	"math"
	"slices"

	"tandem/internal/protocol"
	"tandem/internal/schedule"
)

// Times are what a job takes on the machine of a worker. Its KV state has so many bytes; from is the machine that it would be fetched from.
func (p Peer) Times(model, from string, z Size, bytes float64) schedule.Times {
	s := SpeedsOf(model, p.Role, p.Rates)
	there := bytes * float64(min(p.Rows[z.Key], z.Tokens)) / float64(max(1, z.Tokens)) // of it, which need not be moved
	t := schedule.Times{
		Prompt: float64(max(1, z.Tokens-z.Prefix)) / s.Prefill(z.Tokens, z.Prefix).Value,
		Save:   bytes / s.Save().Value, Move: (bytes - there) / s.Link(from).Value,
		Restore: bytes/s.Restore().Value + s.Check(z.Tokens).Value,
	}
	if z.Prefix > 0 {
		t.Prefix = float64(z.Prefix) / s.Prefill(z.Prefix, 0).Value
	}
	for busy := 1; busy <= max(1, p.Slots); busy++ {
		t.Generate = append(t.Generate, float64(z.Generated)/s.DecodeBusy(z.Tokens, busy).Value)
	}
	return t
}

// Outlook looks ahead, over all that the workers of a model have to do.
type Outlook struct {
	Model   string
	Workers []Peer         // live ones
	Sizes   []Size         // of jobs, by their kind
	Intake  []schedule.Lot // jobs that wait, in order
	Relay   int            // jobs that wait for a decode worker and that none has yet
	Typical int            // the kind of jobs of which nobody knows the size: those in the relay and those that run
}

// Scene is the outlook in times.
func (o *Outlook) Scene() *schedule.Scene {
	s := &schedule.Scene{Intake: o.Intake}
	from := o.prefillMachine()
	keys := []string{""}
	states := SpeedsOf(o.Model, protocol.RolePrefill, from.Rates) // who writes them measures how large they are
	for _, z := range o.Sizes {
		key := slices.Index(keys, z.Key)
		if key < 0 {
			key = len(keys)
			keys = append(keys, z.Key)
		}
		s.Kinds = append(s.Kinds, schedule.Kind{Prefix: key, Bytes: states.StateBytes(z.Tokens, o.cacheType()).Value})
	}
	for i, w := range o.Workers {
		m := schedule.Machine{
			Decode: w.Role == protocol.RoleDecode, Takes: w.Role == protocol.RoleDecode && w.NoStates == "", Slots: make([]schedule.Slot, max(1, w.Slots)),
		}
		for kind, z := range o.Sizes {
			m.Times = append(m.Times, w.Times(o.Model, from.Machine, z, s.Kinds[kind].Bytes))
		}
		next, busy := 0, make([]int, len(keys))
		for _, r := range w.Running {
			switch {
			case r.Ahead && r.HandsOver:
				s.Relay = append(s.Relay, schedule.Ready{At: -1, Kind: o.Typical})
			case r.Ahead:
				s.Relay = append(s.Relay, schedule.Ready{At: max(0, r.EndsSeconds), Kind: o.Typical, Machine: i})
			case next < len(m.Slots):
				prefix := max(0, slices.Index(keys, r.Prefix))
				busy[prefix]++
				m.Slots[next] = schedule.Slot{Free: max(r.EndsSeconds, leastLeft), First: r.FirstSeconds, Hand: r.HandsOver, Kind: o.Typical, Prefix: prefix}
				next++
			}
		}
		for i, key := range keys {
			if key == "" || w.Prefixes[key] == 0 {
				continue
			}
			copies := len(m.Slots)
			if w.Copies != nil {
				copies = w.Copies[key]
			}
			for free := copies - busy[i]; free > 0 && next < len(m.Slots); free-- {
				m.Slots[next].Prefix = i
				next++
			}
		}
		s.Machines = append(s.Machines, m)
	}
	for range o.Relay {
		s.Relay = append(s.Relay, schedule.Ready{At: -1, Kind: o.Typical})
	}
	return s
}

// prefillMachine is the first prefill worker, which stands for all when links and KV states are estimated.
func (o *Outlook) prefillMachine() Peer {
	if i := slices.IndexFunc(o.Workers, func(w Peer) bool { return w.Role == protocol.RolePrefill }); i >= 0 {
		return o.Workers[i]
	}
	return Peer{}
}

// cacheType is that of the engines' KV caches, as far as one is known.
func (o *Outlook) cacheType() string {
	for _, w := range o.Workers {
		if w.CacheType != "" {
			return w.CacheType
		}
	}
	return ""
}

// leastLeft is for how many seconds at least a job goes on that has not ended yet.
const leastLeft = 0.01

// Next says what the slot of a worker that is free first should do as soon as it is, and what else it might. ok is false if there is nothing
// that it can do, or the worker is none of them.
func (o *Outlook) Next(worker string) (best schedule.Option, options []schedule.Option, ok bool) {
	s := o.Scene()
	for i, w := range o.Workers {
		if w.Worker != worker {
			continue
		}
		first := 0
		for k, slot := range s.Machines[i].Slots {
			if slot.Free < s.Machines[i].Slots[first].Free {
				first = k
			}
		}
		best, options = s.Decide(i, first)
		return best, options, !math.IsInf(best.End, 1)
	}
	return best, nil, false
}

// Running is what the workers are at, for logs.
func (o *Outlook) Running() map[string][]protocol.Running {
	all := map[string][]protocol.Running{}
	for _, w := range o.Workers {
		all[string(w.Role)+" "+w.Worker] = w.Running
	}
	return all
}
