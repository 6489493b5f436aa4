package pipeline

import (
	"sync"
	"time"
)

// Rates are the measured speeds of one worker, as moving averages, with cautious values until
// something was measured. They are safe for concurrent use.
type Rates struct {
	mu            sync.Mutex
	prefill       average // computed prompt tokens per second
	decode        average // generated tokens per second
	bytesPerToken average
}

// average moves a fifth of the way to each new value.
type average struct{ value float64 }

func (a *average) observe(v float64) {
	if a.value == 0 {
		a.value = v
		return
	}
	a.value += (v - a.value) / 5
}

func (a *average) or(otherwise float64) float64 {
	if a.value == 0 {
		return otherwise
	}
	return a.value
}

// Cautious values: code has three to four bytes per token, and a big model on a CPU computes some
// tens of tokens per second.
const (
	coldBytesPerToken    = 3.0
	coldTokensPerSecond  = 25.0
	shortestExpectedTime = 10 * time.Second
)

// PrefillTime is how long this worker needs for a prompt of so many bytes with nothing cached, at
// least ten seconds.
func (r *Rates) PrefillTime(promptBytes int) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	tokens := float64(promptBytes) / r.bytesPerToken.or(coldBytesPerToken)
	return max(seconds(tokens/r.prefill.or(coldTokensPerSecond)), shortestExpectedTime)
}

// ObservePrefill takes a measurement of prompt processing; computed is the part of tokens that was
// not cached. Too small a part measures latency rather than speed and is not counted.
func (r *Rates) ObservePrefill(promptBytes, tokens, computed int, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if tokens > 0 && promptBytes > 0 {
		r.bytesPerToken.observe(float64(promptBytes) / float64(tokens))
	}
	if computed >= 64 && d > 0 {
		r.prefill.observe(float64(computed) / d.Seconds())
	}
}

// ObserveDecode takes a measurement of text generation.
func (r *Rates) ObserveDecode(tokens int, d time.Duration) {
	if tokens < 2 || d <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decode.observe(float64(tokens) / d.Seconds())
}

// Snapshot returns prefill and decode in tokens per second, 0 where nothing was measured yet.
func (r *Rates) Snapshot() (prefill, decode float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.prefill.value, r.decode.value
}
