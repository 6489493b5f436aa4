package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math"
	"slices"
	"sync"

	"tandem/internal/jobs"
)

// Peer is a live worker of the model, as another one sees it.
type Peer struct {
	Worker    string // its id
	Role      jobs.Stage
	Machine   string
	Slots     int
	Busy      int
	Rates     jobs.Rates
	NoStates  string         // why a KV state of ours would be of no use to it; empty if one is
	CacheType string         // of its engine's KV cache, as in f16
	Running   []jobs.Running // what it does, as of now
	Prefixes  map[string]int // tokens of the shared prefixes in its engine's cache, by PrefixKey
	Rows      map[string]int // likewise tokens whose part of a KV state need not be sent to it
}

// PrefixKey names the prefix that a request shares with others: a part of the hash of its text, from which nobody learns
// the text. It is empty if the request shares none.
func PrefixKey(req Request) string {
	if req.SharedPrefix <= 0 {
		return ""
	}
	h := sha256.New()
	write := func(s string) {
		_, _ = io.WriteString(h, s) // a hash takes everything
		_, _ = h.Write([]byte{0})
	}
	write(req.System)
	if len(req.Messages) == 0 {
		write(req.Prompt[:min(req.SharedPrefix, len(req.Prompt))])
	}
	for _, m := range req.Messages[:min(req.SharedPrefix, len(req.Messages))] {
		write(string(m.Role))
		write(m.Content)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// mostPrefixes is how many a worker tells others of.
const mostPrefixes = 8

// Prefixes knows which shared prefixes an engine has in its cache, by what it said of the jobs that it computed: how many
// of a prompt's tokens it found there. So an engine that cannot go on from a prefix never has one. It is safe for concurrent use.
type Prefixes struct {
	slots int

	mu     sync.Mutex
	last   []string       // keys of the last jobs, one for each slot of the engine; each took the place of another one's cache
	tokens map[string]int // found at the last job that had the key
}

// NewPrefixes returns the prefixes of an engine with so many slots.
func NewPrefixes(slots int) *Prefixes {
	return &Prefixes{slots: max(slots, 1), tokens: map[string]int{}}
}

// Computed notes a job whose prompt of so many tokens the engine computed, finding some of them in its cache. found is -1 if
// that says nothing, since the job's KV state was handed over.
func (p *Prefixes) Computed(req Request, promptTokens, found int) {
	key := PrefixKey(req)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = append(p.last, key)
	p.last = p.last[max(0, len(p.last)-p.slots):]
	if key != "" && found >= 0 {
		p.tokens[key] = min(found, PrefixTokens(req, promptTokens)) // the same request again finds more
	}
	for k := range p.tokens {
		if !slices.Contains(p.last, k) {
			delete(p.tokens, k)
		}
	}
}

// PrefixTokens estimates how many of a prompt's tokens are of the prefix that it shares, by their shares of the text.
func PrefixTokens(req Request, promptTokens int) int {
	all, prefix := len(req.System)+len(req.Prompt), len(req.System)+min(req.SharedPrefix, len(req.Prompt))
	for i, m := range req.Messages {
		all += len(m.Content)
		if i < req.SharedPrefix {
			prefix += len(m.Content)
		}
	}
	if all == 0 {
		return 0
	}
	return int(math.Ceil(float64(promptTokens) * float64(prefix) / float64(all)))
}

// Held lists the prefixes that are thought to be in the cache, with their tokens; nil if there are none.
func (p *Prefixes) Held() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var held map[string]int
	for i := len(p.last) - 1; i >= 0 && len(held) < mostPrefixes; i-- {
		if n := p.tokens[p.last[i]]; n > 0 {
			if held == nil {
				held = map[string]int{}
			}
			held[p.last[i]] = n
		}
	}
	return held
}
