package engine

import (
	"math"
	"slices"

	"tandem/internal/jobs"
	"tandem/internal/schedule"
)

// Size is what is known of a job before it runs.
type Size struct {
	Tokens    int    // of the prompt
	Prefix    int    // of these, shared with others
	Generated int    // tokens of the answer
	Key       string // of the shared prefix, as of [PrefixKey]; empty if there is none
}

// SizeOf estimates the size of a job whose text is so many bytes. answer is how many tokens answers of its kind have.
func SizeOf(j *jobs.Job, promptBytes int, bytesPerToken, answer float64) Size {
	req := RequestOf(j)
	z := Size{Tokens: max(1, int(math.Ceil(float64(promptBytes)/bytesPerToken))), Generated: int(answer)}
	if z.Key = PrefixKey(req); z.Key != "" {
		z.Prefix = min(PrefixTokens(req, z.Tokens), z.Tokens)
	}
	if limit := j.Options.NumPredict; limit != nil && *limit >= 0 {
		z.Generated = min(z.Generated, *limit)
	}
	return z
}

// Answer is how many tokens the answers of a model's jobs of a kind have, as far as any of its workers has measured that; the first one's figure counts.
func Answer(model, kind string, workers []Peer) Speed {
	var first Speed
	for i, w := range workers {
		if s := SpeedsOf(model, w.Role, w.Rates).Generated(kind); s.Measured || i == 0 {
			if first = s; s.Measured {
				break
			}
		}
	}
	if first.Value == 0 {
		first = SpeedsOf(model, jobs.RoleDecode, jobs.Rates{}).Generated(kind)
	}
	return first
}

// BytesPerToken is how much text a token of a model is, as far as any of its workers has measured that.
func BytesPerToken(workers []Peer) Speed {
	for _, w := range workers {
		if v := w.Rates.PromptBytesPerToken; v > 0 {
			return Speed{v, true}
		}
	}
	return Speed{coldBytesPerToken, false}
}

// Times are what a job takes on the machine of a worker. from is the machine whose KV states it would fetch.
func (p Peer) Times(model, from string, z Size) schedule.Times {
	s := SpeedsOf(model, p.Role, p.Rates)
	bytes := s.StateBytes(z.Tokens, p.CacheType).Value
	t := schedule.Times{
		Prompt: float64(max(1, z.Tokens-z.Prefix)) / s.Prefill(z.Tokens).Value,
		Save:   bytes / s.Save().Value, Move: s.StateBytes(z.Tokens-min(p.Rows[z.Key], z.Tokens), p.CacheType).Value / s.Link(from).Value,
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
	bytes := SpeedsOf(o.Model, jobs.RolePrefill, from.Rates)
	for _, z := range o.Sizes {
		key := slices.Index(keys, z.Key)
		if key < 0 {
			key = len(keys)
			keys = append(keys, z.Key)
		}
		s.Kinds = append(s.Kinds, schedule.Kind{Prefix: key, Bytes: bytes.StateBytes(z.Tokens, o.cacheType()).Value})
	}
	for _, w := range o.Workers {
		m := schedule.Machine{
			Decode: w.Role == jobs.RoleDecode, Takes: w.Role == jobs.RoleDecode && w.NoStates == "", Slots: make([]schedule.Slot, max(1, w.Slots)),
		}
		for _, z := range o.Sizes {
			m.Times = append(m.Times, w.Times(o.Model, from.Machine, z))
		}
		next := 0
		for _, r := range w.Running {
			switch {
			case r.Ahead:
				s.Relay = append(s.Relay, schedule.Ready{At: max(0, r.EndsSeconds), Kind: o.Typical})
			case next < len(m.Slots):
				m.Slots[next] = schedule.Slot{Free: max(r.EndsSeconds, leastLeft), First: r.FirstSeconds, Hand: r.HandsOver, Kind: o.Typical}
				next++
			}
		}
		var held []int
		for i, key := range keys {
			if key != "" && w.Prefixes[key] > 0 {
				held = append(held, i)
			}
		}
		for i := range m.Slots {
			if len(held) > 0 {
				m.Slots[i].Prefix = held[i%len(held)]
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
	if i := slices.IndexFunc(o.Workers, func(w Peer) bool { return w.Role == jobs.RolePrefill }); i >= 0 {
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
func (o *Outlook) Running() map[string][]jobs.Running {
	all := map[string][]jobs.Running{}
	for _, w := range o.Workers {
		all[string(w.Role)+" "+w.Worker] = w.Running
	}
	return all
}
