package llamacpp

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// slot is one of the server's slots: a sequence in its KV cache, and one request at a time.
type slot struct {
	id int
	// held are the first tokens of the slot's cache, as far as this process knows. The server checks
	// for itself what it holds; a wrong guess costs time, never a wrong text.
	held []int32
	used uint64 // when it was last released, as a count
}

// expect notes what the cache holds for certain once the server begins with these tokens: it keeps
// what they have in common with the old ones, whatever happens then.
func (s *slot) expect(tokens []int32) { s.held = s.held[:common(s.held, tokens)] }

// pool hands out the slots of one server, one request each.
type pool struct {
	free chan struct{} // one for each free slot

	mu    sync.Mutex
	slots []*slot // the free ones
	count uint64
}

func newPool(n int) *pool {
	p := &pool{free: make(chan struct{}, n)}
	for id := range n {
		p.slots = append(p.slots, &slot{id: id})
		p.free <- struct{}{}
	}
	return p
}

// acquire waits for a free slot and takes the best one for the prompt.
func (p *pool) acquire(ctx context.Context, prompt []int32) (*slot, error) {
	select {
	case <-p.free:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := choose(p.slots, prompt)
	s := p.slots[i]
	p.slots = slices.Delete(p.slots, i, i+1)
	return s, nil
}

func (p *pool) release(s *slot) {
	p.mu.Lock()
	p.count++
	s.used = p.count
	p.slots = append(p.slots, s)
	p.mu.Unlock()
	p.free <- struct{}{}
}

// choose returns the index of the slot that holds the longest prefix of the prompt. A prefix of less
// than a tenth of the prompt, such as the opening words of a chat template, is not worth another
// prompt's cache: then, and between equals, it is the slot not used for the longest time. The tenth is
// llama-server's own rule (--slot-prompt-similarity).
func choose(free []*slot, prompt []int32) int {
	value := func(s *slot) int {
		if n := common(s.held, prompt); 10*n >= len(prompt) {
			return n
		}
		return 0
	}
	best := slices.MaxFunc(free, func(a, b *slot) int {
		return cmp.Or(cmp.Compare(value(a), value(b)), cmp.Compare(b.used, a.used))
	})
	return slices.Index(free, best)
}

// common is the length of the longest common prefix.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
