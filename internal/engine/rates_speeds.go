package engine

import (
	"math"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Speeds are what a machine is believed to do with a model: what its worker has measured, and where it has measured
// nothing yet, the published figures of the machine that has its role in the installation that this system is made for.
type Speeds struct {
	rates     protocol.Rates
	published published
	hardware  hardware
}

// SpeedsOf returns the speeds of a worker of a role, for a model.
func SpeedsOf(model string, role jobs.Stage, measured protocol.Rates) Speeds {
	p := publishedOf(model)
	return Speeds{rates: believable(measured), published: p, hardware: p.of(role)}
}

// Speed is a rate, or another figure, and whether it was measured.
type Speed struct {
	Value    float64 `json:"value"`
	Measured bool    `json:"measured"`
}

// Prefill is in computed tokens per second, of a prompt of so many of which so many are cached. Each token takes the longer the more are before it, so that
// what is behind a cached part is computed at the speed of a whole prompt that is longer by as much.
func (s Speeds) Prefill(tokens, cached int) Speed {
	return speed(alongLengths(s.rates.PrefillByLength, s.rates.PrefillTokensByLength, float64(tokens+cached), s.hardware.prefillRate))
}

// Decode is in generated tokens per second of one request alone, after a prompt of so many.
func (s Speeds) Decode(tokens int) Speed {
	return speed(alongLengths(s.rates.DecodeByLength, s.rates.TokensByLength, float64(tokens), s.hardware.decodeRate))
}

// DecodeBusy is in generated tokens per second of each request, after a prompt of so many, while so many requests generate at once.
func (s Speeds) DecodeBusy(tokens, busy int) Speed {
	one := s.Decode(tokens)
	if busy <= 1 {
		return one
	}
	part, measured := along(protocol.RateBusy[:], s.rates.DecodeByBusy, nil, math.Log2(float64(busy))-1, func(place float64) float64 {
		return assumedShare(math.Exp2(place + 1))
	})
	return Speed{one.Value * min(part, 1), one.Measured && measured}
}

// Save is in bytes per second.
func (s Speeds) Save() Speed { return or(s.rates.SaveBytesPerSecond, coldSave) }

// Restore is in bytes per second.
func (s Speeds) Restore() Speed { return or(s.rates.RestoreBytesPerSecond, coldRestore) }

// Check is in seconds: a token of the prompt is computed, after so many others.
func (s Speeds) Check(tokens int) Speed {
	return or(s.rates.CheckSeconds, 1/s.Decode(tokens).Value)
}

// Link is in bytes per second, from a machine to this one.
func (s Speeds) Link(from string) Speed { return or(s.rates.LinkBytesPerSecond[from], coldLink) }

// Generated is how many tokens the answer of a job has whose kind is as of [KindOf], and which has at most so many, or any number if the limit is below 0. It
// is as long as answers of the kind were, or the same share of the limit, whichever told them better so far; of an unknown kind, as those of all jobs.
func (s Speeds) Generated(kind string, limit int) Speed {
	answer, share := or(s.rates.GeneratedTokens, coldGenerated), s.rates.GeneratedShare
	for _, k := range s.rates.GeneratedByKind {
		if k.Kind == kind {
			answer, share = Speed{k.Tokens, true}, k.Share
		}
	}
	if limit < 0 {
		return answer
	}
	if share > 0 {
		answer.Value = share * float64(limit)
	}
	answer.Value = min(answer.Value, float64(limit))
	return answer
}

// Job is how many seconds a job keeps a slot, if its prompt has so many tokens.
func (s Speeds) Job(tokens int) Speed {
	return or(s.rates.JobSeconds, s.Generated("", -1).Value/s.Decode(tokens).Value)
}

// StateBytes is the size of the KV state of so many tokens. cacheType is that of the engine, as in f16; it counts as
// long as no state was seen.
func (s Speeds) StateBytes(tokens int, cacheType string) Speed {
	perToken, fixed := s.published.stateBytes(cacheType)
	measured := s.rates.StateBytesPerToken > 0
	if measured {
		perToken, fixed = s.rates.StateBytesPerToken, s.rates.StateFixedBytes
	}
	return Speed{math.Ceil(perToken*float64(tokens) + fixed), measured}
}

func speed(value float64, measured bool) Speed { return Speed{value, measured} }

func or(measured, otherwise float64) Speed {
	if measured > 0 {
		return Speed{measured, true}
	}
	return Speed{otherwise, false}
}

// alongLengths is a rate for a prompt of so many tokens. Prompts of each length had so many on average; where that is not known, as many as its middle.
func alongLengths(measured, lengths map[string]float64, tokens float64, base func(tokens float64) float64) (rate float64, any bool) {
	place := func(tokens float64) float64 { return math.Log2(max(tokens, 1)/shortest) + 0.5 } // 0 in the middle of the first length, 1 in that of the second
	places := make(map[string]float64, len(lengths))
	for key, mean := range lengths {
		places[key] = place(mean)
	}
	return along(protocol.RateLengths[:], measured, places, place(tokens), func(place float64) float64 { return base(shortest * math.Exp2(place-0.5)) })
}

// along is a rate at a place on a scale that has a key at 0, 1, 2 and so on, or nearby, where places say: what was measured at the keys on either side of
// it. Beyond them it goes on as the base does, and so does all of it as long as nothing was measured.
func along(keys []string, measured, places map[string]float64, place float64, base func(place float64) float64) (rate float64, any bool) {
	type point struct{ place, value float64 }
	var below, above point // of what was measured on either side
	for i, key := range keys {
		p := point{float64(i), measured[key]}
		if nearby, known := places[key]; known {
			p.place = nearby
		}
		switch {
		case !(p.value > 0):
		case p.place <= place:
			below = p
		case above.value == 0:
			above = p
		}
	}
	switch {
	case below.value == 0 && above.value == 0:
		return base(place), false
	case below.value == 0:
		return above.value * base(place) / base(above.place), true
	case above.value == 0:
		return below.value * base(place) / base(below.place), true
	}
	return below.value + (above.value-below.value)*(place-below.place)/(above.place-below.place), true
}
