package engine

import (
	"slices"

	"tandem/internal/protocol"
)

// Guessed names what the outlook rests on and nobody has measured yet, so that published figures of other machines stand for it.
func (o *Outlook) Guessed() (names []string) {
	add := func(name string, s Speed) {
		if !s.Measured && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	add("how many tokens a text has", BytesPerToken(o.Workers))
	add("how long answers are", Answer(o.Model, "", -1, o.Workers))
	from := o.prefillMachine()
	tokens := 1
	for _, z := range o.Sizes {
		tokens = max(tokens, z.Tokens)
	}
	for _, w := range o.Workers {
		s := SpeedsOf(o.Model, w.Role, w.Rates)
		add("prompts on "+w.Machine, s.Prefill(tokens, 0))
		add("answers on "+w.Machine, s.Decode(tokens))
		switch {
		case from.Worker == "" || o.takes() == 0:
		case w.Role == protocol.RolePrefill:
			add("KV states", s.StateBytes(tokens, w.CacheType))
			add("writing them on "+w.Machine, s.Save())
		case w.NoStates == "":
			add("the link from "+from.Machine+" to "+w.Machine, s.Link(from.Machine))
			add("reading them on "+w.Machine, s.Restore())
		}
	}
	return names
}

// takes is how many decode workers take KV states.
func (o *Outlook) takes() (n int) {
	for _, w := range o.Workers {
		if w.Role == protocol.RoleDecode && w.NoStates == "" {
			n++
		}
	}
	return n
}

// With is the outlook with one more worker, which is idle.
func (o *Outlook) With(like Peer) *Outlook {
	more := *o
	like.Running, like.Busy, like.Prefixes, like.Copies = nil, 0, nil, nil
	more.Workers = append(slices.Clip(o.Workers), like)
	return &more
}
