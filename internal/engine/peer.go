package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math"
	"slices"
	"sync"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Peer is a live worker of the model, as another one sees it.
type Peer struct {
	Worker    string // its id
	Role      jobs.Stage
	Machine   string
	Slots     int
	Busy      int
	Rates     protocol.Rates
	NoStates  string             // why a KV state of ours would be of no use to it; empty if one is
	Failure   jobs.Failure       // what that is called
	CacheType string             // of its engine's KV cache, as in f16
	Running   []protocol.Running // what it does, as of now
	Prefixes  map[string]int     // tokens of the shared prefixes in its engine's cache, by PrefixKey
	Copies    map[string]int     // likewise slots that have them; all, if it does not say
	Rows      map[string]int     // likewise tokens whose part of a KV state need not be sent to it
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
	if req.Raw || req.Suffix != "" { // before which templates put other things
		write("raw")
		write(req.Suffix)
	}
	for _, tool := range req.Tools { // which templates put before all messages
		write(string(tool))
	}
	for _, m := range req.Messages[:min(req.SharedPrefix, len(req.Messages))] {
		for _, part := range m.Parts() {
			write(part)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// mostPrefixes is how many a worker tells others of.
const mostPrefixes = 8

// Prefixes knows which shared prefixes an engine has in its cache, and in how many slots: by which jobs it was given at once, and by what it said of
// those that it computed, how many of a prompt's tokens it found there. So an engine that cannot go on from a prefix never has one. It is safe for
// concurrent use.
type Prefixes struct {
	mu     sync.Mutex
	slots  []string       // the key of each slot's last job, the slot used longest ago first
	tokens map[string]int // found at the last job that had the key
}

// NewPrefixes returns the prefixes of an engine with so many slots.
func NewPrefixes(slots int) *Prefixes {
	return &Prefixes{slots: make([]string, max(slots, 1)), tokens: map[string]int{}}
}

// Begins notes that a job with a prefix begins, and with how many, itself included, the engine is busy then. It goes to a free slot that
// has the prefix; if there is none, to the one used longest ago.
func (p *Prefixes) Begins(key string, busy int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	slot := 0
	if key != "" {
		has := p.copies(key) >= busy
		slot = max(0, slices.IndexFunc(p.slots, func(k string) bool { return (k == key) == has }))
	}
	p.slots = append(slices.Delete(p.slots, slot, slot+1), key)
	for k := range p.tokens {
		if !slices.Contains(p.slots, k) {
			delete(p.tokens, k)
		}
	}
}

// copies is how many slots have a prefix. The lock must be held.
func (p *Prefixes) copies(key string) (n int) {
	for _, k := range p.slots {
		if k == key {
			n++
		}
	}
	return n
}

// Computed notes a job whose prompt of so many tokens the engine computed, finding some of them in its cache. found is -1 if
// that says nothing, since the job's KV state was handed over.
func (p *Prefixes) Computed(req Request, promptTokens, found int) {
	key := PrefixKey(req)
	p.mu.Lock()
	defer p.mu.Unlock()
	if key != "" && found >= 0 && slices.Contains(p.slots, key) {
		p.tokens[key] = min(found, PrefixTokens(req, promptTokens)) // the same request again finds more
	}
}

// PrefixTokens estimates how many of a prompt's tokens are of the prefix that it shares, by their shares of the text.
func PrefixTokens(req Request, promptTokens int) int {
	all, prefix := len(req.System)+len(req.Prompt), len(req.System)+min(req.SharedPrefix, len(req.Prompt))
	for _, tool := range req.Tools {
		all, prefix = all+len(tool), prefix+len(tool)
	}
	for i, m := range req.Messages {
		all += m.TextBytes()
		if i < req.SharedPrefix {
			prefix += m.TextBytes()
		}
	}
	if all == 0 {
		return 0
	}
	return int(math.Ceil(float64(promptTokens) * float64(prefix) / float64(all)))
}

// Held lists the prefixes that are thought to be in the cache, with their tokens and in how many slots; nil if there are none.
func (p *Prefixes) Held() (tokens, slots map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.slots) - 1; i >= 0 && len(tokens) < mostPrefixes; i-- {
		key := p.slots[i]
		if n := p.tokens[key]; n > 0 {
			if tokens == nil {
				tokens, slots = map[string]int{}, map[string]int{}
			}
			tokens[key], slots[key] = n, p.copies(key)
		}
	}
	return tokens, slots
}
