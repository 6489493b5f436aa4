package engine

import (
	"maps"
	"math"
	"sync"
	"time"

	"tandem/internal/jobs"
)

// Rates are the measured speeds of one worker, as moving averages. They are safe for concurrent use. The zero value
// has measured nothing.
type Rates struct {
	mu      sync.Mutex
	now     jobs.Rates
	changed bool   // since they were last kept
	digest  string // of the model that they are of; empty as long as it is not known
}

// What is less than this measures latency rather than speed, and is not counted.
const (
	leastComputed = 64      // prompt tokens
	leastMoved    = 1 << 16 // bytes of a KV state
)

// share is by how much a moving average follows a new value; one that is more than so many times the average counts as that
// many. A speed that was measured too high, as of a prompt that was cached unsaid, would spoil the average for dozens of jobs,
// and with it the patience with the engine; one that is too low cannot.
const (
	share    = 0.2
	mostJump = 4
)

// blend brings a moving average up to date. Values that are none (0, infinite) are left out.
func blend(average, value float64) float64 {
	switch {
	case !usable(value):
		return average
	case average == 0:
		return value
	}
	return average + (min(value, mostJump*average)-average)*share
}

// usable reports whether v can be a rate, whatever it is of.
func usable(v float64) bool { return v >= 1e-6 && v <= 1e15 } // not NaN, then

// ObservePrefill takes a measurement of prompt processing: computed is the part of the prompt's tokens that was not
// cached.
func (r *Rates) ObservePrefill(promptBytes, tokens, computed int, d time.Duration) {
	r.observe(func(now *jobs.Rates) {
		if tokens > 0 && promptBytes > 0 {
			now.PromptBytesPerToken = blend(now.PromptBytesPerToken, float64(promptBytes)/float64(tokens))
		}
		if computed >= leastComputed && d > 0 {
			perSecond := float64(computed) / d.Seconds()
			now.PrefillTokensPerSecond = blend(now.PrefillTokensPerSecond, perSecond)
			now.PrefillByLength = blendLength(now.PrefillByLength, tokens, perSecond)
		}
	})
}

// ObserveDecode takes a measurement of text generation after a prompt of so many tokens.
func (r *Rates) ObserveDecode(promptTokens, generated int, d time.Duration) {
	r.observe(func(now *jobs.Rates) {
		now.GeneratedTokens = blend(now.GeneratedTokens, float64(generated))
		if generated >= 2 && d > 0 {
			perSecond := float64(generated) / d.Seconds()
			now.DecodeTokensPerSecond = blend(now.DecodeTokensPerSecond, perSecond)
			now.DecodeByLength = blendLength(now.DecodeByLength, promptTokens, perSecond)
		}
	})
}

// ObserveJob takes the time that a job kept a slot of the engine.
func (r *Rates) ObserveJob(d time.Duration) {
	r.observe(func(now *jobs.Rates) { now.JobSeconds = blend(now.JobSeconds, d.Seconds()) })
}

// ObserveSave takes a KV state that the engine wrote. Of its bytes, fixed are there whatever its length.
func (r *Rates) ObserveSave(tokens int, bytes, fixed int64, d time.Duration) {
	r.observe(func(now *jobs.Rates) {
		now.SaveBytesPerSecond = blend(now.SaveBytesPerSecond, moved(bytes, d))
		if tokens >= leastComputed && bytes > fixed && fixed >= 0 {
			now.StateBytesPerToken = blend(now.StateBytesPerToken, float64(bytes-fixed)/float64(tokens))
			now.StateFixedBytes = float64(fixed)
		}
	})
}

// ObserveLink takes a KV state that was fetched from another machine.
func (r *Rates) ObserveLink(machine string, bytes int64, d time.Duration) {
	r.observe(func(now *jobs.Rates) {
		if v := moved(bytes, d); v > 0 {
			now.LinkBytesPerSecond = maps.Clone(now.LinkBytesPerSecond)
			if now.LinkBytesPerSecond == nil {
				now.LinkBytesPerSecond = map[string]float64{}
			}
			now.LinkBytesPerSecond[machine] = blend(now.LinkBytesPerSecond[machine], v)
		}
	})
}

// ObserveRestore takes a KV state that the engine read, and the time until its first prediction was compared.
func (r *Rates) ObserveRestore(bytes int64, restored, checked time.Duration) {
	r.observe(func(now *jobs.Rates) {
		now.RestoreBytesPerSecond = blend(now.RestoreBytesPerSecond, moved(bytes, restored))
		now.CheckSeconds = blend(now.CheckSeconds, checked.Seconds())
	})
}

func (r *Rates) observe(change func(now *jobs.Rates)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.now)
	r.changed = true
}

// Snapshot returns what was measured so far. Its maps are not changed any more.
func (r *Rates) Snapshot() jobs.Rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// With returns what was measured so far, and the size of KV states as a model's header says it, as long as none was seen. m may
// be nil.
func (r *Rates) With(m *Mover) jobs.Rates {
	now := r.Snapshot()
	if now.StateBytesPerToken == 0 && m != nil && m.BytesPerToken > 0 {
		now.StateBytesPerToken, now.StateFixedBytes = float64(m.BytesPerToken), float64(m.FixedBytes)
	}
	return now
}

// moved is a rate in bytes per second, 0 if too little was moved to tell.
func moved(bytes int64, d time.Duration) float64 {
	if bytes < leastMoved || d <= 0 {
		return 0
	}
	return float64(bytes) / d.Seconds()
}

// blendLength brings the average of a prompt's length up to date, in a copy, since others may be reading the map.
func blendLength(by map[string]float64, tokens int, value float64) map[string]float64 {
	by = maps.Clone(by)
	if by == nil {
		by = map[string]float64{}
	}
	key := jobs.RateLengths[lengthOf(tokens)]
	by[key] = blend(by[key], value)
	return by
}

// lengthOf is the index in jobs.RateLengths of a prompt's length.
func lengthOf(tokens int) int {
	i := 0
	for limit := shortest; tokens > limit && i < len(jobs.RateLengths)-1; limit *= 2 {
		i++
	}
	return i
}

// shortest is the greatest length of the first of jobs.RateLengths; each of the others is twice as long.
const shortest = 512

// Cautious values for how long an engine may be silent: code has three to four bytes per token, and a big model on a
// CPU computes some tens of tokens per second.
const (
	coldBytesPerToken    = 3.0
	coldTokensPerSecond  = 25.0
	shortestExpectedTime = 10 * time.Second
	longestExpectedTime  = 24 * time.Hour
)

// Tokens estimates how many tokens so many bytes of prompt are.
func (r *Rates) Tokens(promptBytes int) int {
	perToken := r.Snapshot().PromptBytesPerToken
	if perToken == 0 {
		perToken = coldBytesPerToken
	}
	return int(math.Ceil(float64(promptBytes) / perToken))
}

// PrefillTime is how long this worker needs for a prompt of so many bytes with nothing cached, at least ten seconds. It
// rests on nothing but what was measured here, and is cautious until then: work that takes longer than a multiple of it
// is given up.
func (r *Rates) PrefillTime(promptBytes int) time.Duration {
	tokens := r.Tokens(promptBytes)
	perSecond, measured := along(r.Snapshot().PrefillByLength, float64(tokens), func(float64) float64 { return 1 })
	if !measured {
		perSecond = coldTokensPerSecond
	}
	seconds := min(float64(tokens)/perSecond, longestExpectedTime.Seconds())
	return max(time.Duration(seconds*float64(time.Second)), shortestExpectedTime)
}
