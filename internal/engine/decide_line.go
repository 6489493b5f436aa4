package engine

import (
	"fmt"
	"strings"

	"tandem/internal/units"
)

// String is the decision in one line, with the numbers that it rests on, for the result of the job.
func (d Decision) String() string {
	var line string
	link := "link " + units.Bytes(int64(d.Link.Value)) + "/s"
	switch d.Way {
	case WayHandover:
		line = fmt.Sprintf("hand over: saves %s of %s (%s tokens uncached, state %s, %s)",
			units.Seconds(d.Saves), units.Seconds(d.OnDecode.FirstToken), units.Count(d.UncachedDecode), units.Bytes(d.StateBytes), link)
	case WayPrefill:
		line = "whole on the prefill machine: " + units.Seconds(d.OnPrefill.Total)
		if !d.OnDecode.Possible {
			return line + ", since there is no live decode machine"
		}
		best := d.OnDecode.Total
		if d.Handover.Possible && d.Saves > d.Margin {
			best = d.Handover.Total
		}
		line += fmt.Sprintf(", %s less than with the decode machine (%s tokens uncached on it, %s there)",
			units.Seconds(best-d.OnPrefill.Total), units.Count(d.UncachedPrefill), units.Count(d.UncachedDecode))
	default:
		line = fmt.Sprintf("re-prefill: %s tokens uncached, ", units.Count(d.UncachedDecode))
		switch {
		case !d.Handover.Possible:
			return line + "no KV state can be handed over: " + d.NoHandover
		case d.Saves <= 0:
			line += fmt.Sprintf("hand-over would cost %s more (%s)", units.Seconds(-d.Saves), link)
		default:
			line += fmt.Sprintf("hand-over would save no more than %s of %s (%s)", units.Seconds(d.Saves), units.Seconds(d.OnDecode.FirstToken), link)
		}
	}
	if guessed := d.guessed(); len(guessed) > 0 {
		line = strings.TrimSuffix(line, ")") + "; not measured yet: " + strings.Join(guessed, ", ") + ")"
	}
	return line
}

// Figures are what each way takes this one job, in words.
func (d Decision) Figures() string {
	var ways []string
	for _, c := range d.Ways() {
		if c.Possible {
			ways = append(ways, fmt.Sprintf("%s %s", c.Way, units.Seconds(c.Total)))
		}
	}
	return "; this one alone: " + strings.Join(ways, ", ")
}

// guessed names the figures of the comparison that nobody has measured yet.
func (d Decision) guessed() (names []string) {
	for _, s := range []struct {
		name  string
		speed Speed
	}{
		{"prefill machine", d.Question.Prefill.Prefill(d.Tokens, d.Tokens-d.UncachedPrefill)}, {"decode machine", d.Decode.Prefill(d.Tokens, d.Tokens-d.UncachedDecode)}, {"link", d.Link},
	} {
		if !s.speed.Measured {
			names = append(names, s.name)
		}
	}
	return names
}
