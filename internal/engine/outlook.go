package engine

import (
	"math"

	"tandem/internal/jobs"
	"tandem/internal/schedule"
)

// Size is what is known of a job before it runs. Tokens are of the prompt, of its part that is shared with others, and of the answer.
type Size struct {
	Tokens, Prefix, Generated int
	There                     int // tokens whose part of the KV state need not be moved
}

// Times are what a job takes on the machine of a worker. from is the machine whose KV states it would fetch.
func (p Peer) Times(model, from string, z Size) schedule.Times {
	s := SpeedsOf(model, p.Role, p.Rates)
	bytes := s.StateBytes(z.Tokens, p.CacheType).Value
	t := schedule.Times{
		Prompt: float64(max(1, z.Tokens-z.Prefix)) / s.Prefill(z.Tokens).Value,
		Save:   bytes / s.Save().Value, Move: s.StateBytes(z.Tokens-min(z.There, z.Tokens), p.CacheType).Value / s.Link(from).Value,
		Restore: bytes/s.Restore().Value + s.Check(z.Tokens).Value,
	}
	if z.Prefix > 0 {
		t.Prefix = float64(z.Prefix) / s.Prefill(z.Prefix).Value
	}
	for busy := 1; busy <= max(1, p.Slots); busy++ {
		t.Generate = append(t.Generate, float64(z.Generated)/s.DecodeBusy(z.Tokens, busy).Value)
	}
	return t
}

// Outlook looks ahead, over all that the workers of a model have to do.
type Outlook struct {
	Model   string
	Workers []Peer // live ones
	Prefix  string // PrefixKey of what waits
	Head    Size   // of the next job of the intake
	Others  Size   // of those behind it, and of those in the relay, on average
	Intake  int    // jobs that wait, with the head
	Relay   int
}

// Scene is the outlook in times.
func (o *Outlook) Scene() *schedule.Scene {
	s := &schedule.Scene{}
	from := ""
	for _, w := range o.Workers {
		if w.Role == jobs.RolePrefill {
			from = w.Machine
			break
		}
	}
	if o.Intake > 0 {
		s.Intake = []schedule.Lot{{Kind: 0, Count: 1}, {Kind: 1, Count: o.Intake - 1}}
	}
	move := 0.0
	for _, w := range o.Workers {
		head, others := o.Head, o.Others
		head.There, others.There = w.Rows[o.Prefix], w.Rows[o.Prefix]
		m := schedule.Machine{
			Decode: w.Role == jobs.RoleDecode, Takes: w.Role == jobs.RoleDecode && w.NoStates == "",
			Times: []schedule.Times{w.Times(o.Model, from, head), w.Times(o.Model, from, others)},
			Slots: make([]schedule.Slot, max(1, w.Slots)),
		}
		if m.Takes {
			move = m.Times[1].Move
		}
		next := 0
		for _, r := range w.Running {
			switch ends := max(r.EndsSeconds, leastLeft); {
			case r.Ahead:
				s.Relay = append(s.Relay, schedule.Ready{At: max(0, r.EndsSeconds), Kind: 1})
			case next < len(m.Slots):
				m.Slots[next] = schedule.Slot{Free: ends, Hand: r.HandsOver}
				next++
			}
		}
		for i := range m.Slots {
			m.Slots[i].Warm = o.Prefix == "" || w.Prefixes[o.Prefix] > 0
		}
		s.Machines = append(s.Machines, m)
	}
	for i := range o.Relay {
		s.Relay = append(s.Relay, schedule.Ready{At: move * float64(i+1), Kind: 1})
	}
	return s
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
func (o *Outlook) Running() map[string][]jobs.Running {
	all := map[string][]jobs.Running{}
	for _, w := range o.Workers {
		all[string(w.Role)+" "+w.Worker] = w.Running
	}
	return all
}
