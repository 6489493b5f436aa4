package engine

import (
	"fmt"
	"strconv"
	"strings"
)

// String is the decision in one line, with the numbers that it rests on, for the result of the job.
func (d Decision) String() string {
	var line string
	link := "link " + Bytes(d.Link.Value) + "/s"
	switch d.Way {
	case WayHandover:
		line = fmt.Sprintf("hand over: saves %s of %s (%s tokens uncached, state %s, %s)",
			secondsText(d.Saves), secondsText(d.OnDecode.FirstToken), thousands(d.UncachedDecode), Bytes(float64(d.StateBytes)), link)
	case WayPrefill:
		line = "whole on the prefill machine: " + secondsText(d.OnPrefill.Total)
		if !d.OnDecode.Possible {
			return line + ", since there is no live decode machine"
		}
		best := d.OnDecode.Total
		if d.Handover.Possible && d.Saves > d.Margin {
			best = d.Handover.Total
		}
		line += fmt.Sprintf(", %s less than with the decode machine (%s tokens uncached on it, %s there)",
			secondsText(best-d.OnPrefill.Total), thousands(d.UncachedPrefill), thousands(d.UncachedDecode))
	default:
		line = fmt.Sprintf("re-prefill: %s tokens uncached, ", thousands(d.UncachedDecode))
		switch {
		case !d.Handover.Possible:
			return line + "no KV state can be handed over: " + d.NoHandover
		case d.Saves <= 0:
			line += fmt.Sprintf("hand-over would cost %s more (%s)", secondsText(-d.Saves), link)
		default:
			line += fmt.Sprintf("hand-over would save no more than %s of %s (%s)", secondsText(d.Saves), secondsText(d.OnDecode.FirstToken), link)
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
			ways = append(ways, fmt.Sprintf("%s %s", c.Way, secondsText(c.Total)))
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

// thousands writes a number as in 1,204.
func thousands(n int) string {
	s := strconv.Itoa(max(n, 0))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// secondsText writes a time with as many digits as can be believed.
func secondsText(s float64) string {
	switch {
	case s < 0.9995:
		return fmt.Sprintf("%.0f ms", s*1000)
	case s < 99.95:
		return fmt.Sprintf("%.1f s", s)
	}
	return fmt.Sprintf("%.0f s", s)
}

// Bytes writes a size in units of thousands, as links are measured.
func Bytes(b float64) string {
	switch {
	case b < 999.5e3:
		return fmt.Sprintf("%.0f kB", b/1e3)
	case b < 999.5e6:
		return fmt.Sprintf("%.0f MB", b/1e6)
	}
	return fmt.Sprintf("%.1f GB", b/1e9)
}
