package engine

import (
	"maps"

	"tandem/internal/protocol"
)

// share is by how much a moving average follows a new value; one that is more than so many times the average counts as that
// many. A speed that was measured too high, as of a prompt that was cached unsaid, would spoil the average for dozens of jobs,
// and with it the time the engine is given; one that is too low cannot.
const (
	share    = 0.2
	mostJump = 4
)

// A machine that has changed is believed at the second value that says so: two in a row that differ from the average by more than
// farFrom, both above it or both below. From then on the average follows by shareChanged, until a value comes near to it.
const (
	farFrom      = 1.4
	nearTo       = 1.1
	shareChanged = 0.7
)

// trend is what the last values of an average, or of several that change together, have in common.
type trend struct {
	up     bool    // they are above it; else below
	count  int     // how many in a row are far from it
	from   float64 // the average before the first of them
	length string  // of the first of them
	wide   bool    // they are of more than one length
}

// blend brings a moving average up to date. Values that are none (0, infinite) are left out.
func (t *trend) blend(average, value float64, length string) float64 {
	switch {
	case !usable(value):
		return average
	case average == 0:
		return value
	}
	value = min(value, mostJump*average)
	reference, far := average, farFrom
	switch {
	case t.count > 1:
		far = nearTo
	case t.count == 1 && t.length == length:
		reference = t.from
	}
	up := value > reference*far
	switch {
	case !up && value*far >= reference:
		*t = trend{}
	case t.count == 0 || t.up != up:
		*t = trend{up: up, count: 1, from: average, length: length}
	default:
		t.count++
		t.wide = t.wide || t.length != length
	}
	if t.count > 1 {
		return average + (value-average)*shareChanged
	}
	return average + (value-average)*share
}

// blend is the average of what varies from job to job, and so shows no change of a machine.
func blend(average, value float64) float64 { return new(trend).blend(average, value, "") }

// usable reports whether v can be a rate, whatever it is of.
func usable(v float64) bool { return v >= 1e-6 && v <= 1e15 } // not NaN, then

// follow brings the average of a speed up to date, whose name is key.
func (r *Rates) follow(key string, average, value float64) float64 {
	return r.trend(key).blend(average, value, "")
}

func (r *Rates) trend(key string) *trend {
	if r.trends == nil {
		r.trends = map[string]*trend{}
	}
	t := r.trends[key]
	if t == nil {
		t = &trend{}
		r.trends[key] = t
	}
	return t
}

// followLength brings the average of a prompt's length up to date, in a copy, since others may be reading the map. If values of
// more than one length say that the machine has changed, the averages of the others change with it.
func (r *Rates) followLength(key string, by map[string]float64, length string, value float64) map[string]float64 {
	by = maps.Clone(by)
	if by == nil {
		by = map[string]float64{}
	}
	before, t := by[length], r.trend(key)
	by[length] = t.blend(before, value, length)
	if before > 0 && t.count > 1 && t.wide {
		for other := range by {
			if other != length {
				by[other] *= by[length] / before
			}
		}
	}
	return by
}

// noteLength brings up to date how long the prompts of a length are, in a copy, since others may be reading the map.
func noteLength(by map[string]float64, length string, tokens int) map[string]float64 {
	by = maps.Clone(by)
	if by == nil {
		by = map[string]float64{}
	}
	by[length] = blend(by[length], float64(tokens))
	return by
}

// lengthOf is the one of protocol.RateLengths in which a prompt of so many tokens is.
func lengthOf(tokens int) string {
	i := 0
	for limit := shortest; tokens > limit && i < len(protocol.RateLengths)-1; limit *= 2 {
		i++
	}
	return protocol.RateLengths[i]
}

// shortest is the greatest length of the first of protocol.RateLengths; each of the others is twice as long.
const shortest = 512
