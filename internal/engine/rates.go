package engine

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"tandem/internal/protocol"
)

// Rates are the measured speeds of one worker, as moving averages. They are safe for concurrent use. The zero value
// has measured nothing.
type Rates struct {
	mu      sync.Mutex
	now     protocol.Rates
	trends  map[string]*trend
	limits  map[string]*limited // by kind of job
	changed bool                // since they were last kept
	of      Subject             // empty as long as it is not known
}

// What is less than this measures latency rather than speed, and is not counted.
const (
	leastComputed = 64      // prompt tokens
	leastMoved    = 1 << 16 // bytes of a KV state
)

// ObservePrefill takes a measurement of prompt processing: computed is the part of the prompt's tokens that was not
// cached, busy how many slots of the engine were taken meanwhile, on average.
func (r *Rates) ObservePrefill(promptBytes, tokens, computed int, busy float64, d time.Duration) {
	r.observe(func(now *protocol.Rates) {
		if tokens > 0 && promptBytes > 0 {
			now.PromptBytesPerToken = blend(now.PromptBytesPerToken, float64(promptBytes)/float64(tokens))
		}
		if computed < leastComputed || d <= 0 {
			return
		}
		perSecond, length := float64(computed)/d.Seconds(), lengthOf(2*tokens-computed)
		now.PrefillTokensPerSecond = blend(now.PrefillTokensPerSecond, perSecond)
		if busy > alone && len(now.PrefillByLength) > 0 {
			// The others took up to their share of the engine, so that alone it is as fast as this or up to busy times as fast.
			known := now.PrefillByLength[length]
			if perSecond = min(max(known, perSecond), perSecond*busy); perSecond == known || known == 0 {
				return
			}
		}
		now.PrefillByLength = r.followLength("prefill", now.PrefillByLength, length, perSecond)
		now.PrefillTokensByLength = noteLength(now.PrefillTokensByLength, length, 2*tokens-computed)
	})
}

// ObserveDecode takes a measurement of text generation after a prompt of so many tokens; busy is how many slots of the engine
// were taken meanwhile, on average. Generated are the tokens that took the time: all but the first, which is there when the prompt is computed.
func (r *Rates) ObserveDecode(promptTokens, generated int, busy float64, d time.Duration) {
	r.observe(func(now *protocol.Rates) {
		if generated < 2 || d <= 0 {
			return
		}
		perSecond, length, key := float64(generated)/d.Seconds(), lengthOf(promptTokens), busyOf(busy)
		now.TokensByLength = noteLength(now.TokensByLength, length, promptTokens)
		now.DecodeTokensPerSecond = blend(now.DecodeTokensPerSecond, perSecond)
		known := now.DecodeByLength[length]
		switch {
		case key == "":
			now.DecodeByLength = r.followLength("decode", now.DecodeByLength, length, perSecond)
		case known > 0:
			now.DecodeByBusy = maps.Clone(now.DecodeByBusy)
			if now.DecodeByBusy == nil {
				now.DecodeByBusy = map[string]float64{}
			}
			now.DecodeByBusy[key] = r.follow("decode "+key, now.DecodeByBusy[key], perSecond/known)
		default: // one request alone would have been faster by as much as is known, or assumed
			now.DecodeByLength = r.followLength("decode", now.DecodeByLength, length, perSecond/cmp.Or(now.DecodeByBusy[key], assumedShare(busy)))
		}
	})
}

// ObserveAnswer takes the length of a job's answer; kind is the job's, as of [KindOf], limit what it may have at most, below 0 if the job says nothing of it.
func (r *Rates) ObserveAnswer(kind string, limit, generated int) {
	r.observe(func(now *protocol.Rates) {
		now.GeneratedTokens, now.GeneratedShare = r.answer("", now.GeneratedTokens, now.GeneratedShare, limit, generated)
		if kind == "" || generated <= 0 {
			return
		}
		k := protocol.KindTokens{Kind: kind}
		if i := slices.IndexFunc(now.GeneratedByKind, func(o protocol.KindTokens) bool { return o.Kind == kind }); i >= 0 {
			k = now.GeneratedByKind[i]
		}
		k.Tokens, k.Share = r.answer(kind, k.Tokens, k.Share, limit, generated)
		now.GeneratedByKind = mergeKinds([]protocol.KindTokens{k}, now.GeneratedByKind) // a copy, since others may be reading the list
	})
}

// ObserveJob takes the time that a job kept a slot of the engine.
func (r *Rates) ObserveJob(d time.Duration) {
	r.observe(func(now *protocol.Rates) { now.JobSeconds = blend(now.JobSeconds, d.Seconds()) })
}

// ObserveSave takes a KV state that the engine wrote. Of its bytes, fixed are there whatever its length.
func (r *Rates) ObserveSave(tokens int, bytes, fixed int64, d time.Duration) {
	r.observe(func(now *protocol.Rates) {
		now.SaveBytesPerSecond = r.follow("save", now.SaveBytesPerSecond, moved(bytes, d))
		if tokens >= leastComputed && bytes > fixed && fixed >= 0 {
			now.StateBytesPerToken = blend(now.StateBytesPerToken, float64(bytes-fixed)/float64(tokens))
			now.StateFixedBytes = float64(fixed)
		}
	})
}

// ObserveLink takes a KV state that was fetched from another machine. By a first one that is too small to tell how fast the link is, it counts as
// measured all the same, at what is taken for granted: else machines with small states would never know it. The first that can tell replaces that.
func (r *Rates) ObserveLink(machine string, bytes int64, d time.Duration) {
	r.observe(func(now *protocol.Rates) {
		value, known := moved(bytes, d), now.LinkBytesPerSecond[machine]
		switch {
		case value > 0 && known == coldLink:
			known = 0
		case value == 0 && known == 0 && bytes > 0:
			value = coldLink
		}
		if value > 0 {
			now.LinkBytesPerSecond = maps.Clone(now.LinkBytesPerSecond)
			if now.LinkBytesPerSecond == nil {
				now.LinkBytesPerSecond = map[string]float64{}
			}
			now.LinkBytesPerSecond[machine] = r.follow("link "+machine, known, value)
		}
	})
}

// ObserveRestore takes a KV state that the engine read, and the time until its first prediction was compared.
func (r *Rates) ObserveRestore(bytes int64, restored, checked time.Duration) {
	r.observe(func(now *protocol.Rates) {
		now.RestoreBytesPerSecond = r.follow("restore", now.RestoreBytesPerSecond, moved(bytes, restored))
		now.CheckSeconds = r.follow("check", now.CheckSeconds, checked.Seconds())
	})
}

func (r *Rates) observe(change func(now *protocol.Rates)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.now)
	r.changed = true
}

// Snapshot returns what was measured so far. Its maps are not changed any more.
func (r *Rates) Snapshot() protocol.Rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// With returns what was measured so far, and the size of KV states as a model's header says it, as long as none was seen. m may
// be nil.
func (r *Rates) With(m *KVTransfer) protocol.Rates {
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
// rests on nothing but what was measured here, and is cautious until then, and for prompts longer than those measured: work that takes longer
// than a multiple of it is given up.
func (r *Rates) PrefillTime(promptBytes int) time.Duration {
	tokens, now := r.Tokens(promptBytes), r.Snapshot()
	perSecond, measured := alongLengths(now.PrefillByLength, now.PrefillTokensByLength, float64(tokens), slowing)
	if !measured {
		perSecond = coldTokensPerSecond
	}
	seconds := min(float64(tokens)/perSecond, longestExpectedTime.Seconds())
	return max(time.Duration(seconds*float64(time.Second)), shortestExpectedTime)
}

// slowing is how the speed of computing a prompt falls with its length: faster than in all that was published ([published]), where a prompt of 32k
// tokens has at least 0.31 times the speed of one of 2k, here 0.25 times.
func slowing(tokens float64) float64 { return 1 / (1 + tokens/8192) }
