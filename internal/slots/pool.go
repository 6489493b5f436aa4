package slots

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// cache is one of the server's slots: a sequence in its KV cache, and one request at a time.
type cache struct {
	id int
	// held are the first tokens of the cache, as far as this process knows. The server checks for
	// itself what it holds; a wrong guess costs time, never a wrong text.
	held []int32
	more bool // others follow them: an answer
	// marks are numbers of tokens, ascending, to which a cache that cannot be stepped back can still
	// return, because a computation ended there: the server keeps a checkpoint a few tokens before.
	marks []int
	used  uint64 // when it was last released, as a count
	// foreign is a state that did not pass and could not be erased: the server would take it for its own.
	foreign bool
}

// expect notes what the cache holds for certain once the server begins with these tokens: it keeps
// what they have in common with the old ones, whatever happens then.
func (c *cache) expect(tokens []int32) {
	n := common(c.held, tokens)
	c.more = c.more || n < len(c.held)
	c.held = c.held[:n]
	c.marks = slices.DeleteFunc(c.marks, func(m int) bool { return m > n })
}

// hold notes that the cache holds these tokens, having begun with some of them, and whether more follow.
func (c *cache) hold(tokens []int32, more bool) {
	c.expect(tokens)
	c.held, c.more, c.foreign = tokens, more, false
	if n := len(tokens); n > 0 && !slices.Contains(c.marks, n) {
		c.marks = append(c.marks, n)
	}
}

// forget notes that nothing is known.
func (c *cache) forget() { c.held, c.more, c.marks = nil, false, nil }

// use is how many tokens of the prompt need not be computed again in this cache.
func (c *cache) use(prompt []int32, plain bool) int {
	n := common(c.held, prompt)
	if plain || n == len(c.held) && !c.more {
		return n
	}
	best := 0
	for _, m := range c.marks {
		if m <= n {
			best = m
		}
	}
	return best
}

// pool hands out the slots of one server, one request each.
type pool struct {
	plain bool          // the model's cache can be stepped back to anywhere
	free  chan struct{} // one for each free slot

	mu    sync.Mutex
	slots []*cache           // the free ones
	taken map[*cache][]int32 // the others, with the prompt for which each was taken
	count uint64
}

func newPool(n int, plain bool) *pool {
	p := &pool{plain: plain, free: make(chan struct{}, n), taken: map[*cache][]int32{}}
	for id := range n {
		p.slots = append(p.slots, &cache{id: id})
		p.free <- struct{}{}
	}
	return p
}

// wait waits until a slot is free, and holds a place for it: take or cancel must follow.
func (p *pool) wait(ctx context.Context) error {
	select {
	case <-p.free:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pool) cancel() { p.free <- struct{}{} }

// take takes the best free slot for the prompt of those that are not busy with others' requests, and nil
// if there is none.
func (p *pool) take(prompt []int32, busy map[int]bool) *cache {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := slices.DeleteFunc(slices.Clone(p.slots), func(c *cache) bool { return busy[c.id] })
	if len(idle) == 0 {
		return nil
	}
	c := choose(idle, prompt, p.plain)
	p.slots = slices.DeleteFunc(p.slots, func(other *cache) bool { return other == c })
	p.taken[c] = prompt
	return c
}

// put gives a slot back and keeps the place for one.
func (p *pool) put(c *cache) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots = append(p.slots, c)
	delete(p.taken, c)
}

func (p *pool) release(c *cache) {
	p.mu.Lock()
	p.count++
	c.used = p.count
	p.mu.Unlock()
	p.put(c)
	p.cancel()
}

// cached is how many tokens of the prompt the best slot holds, or will hold when it is free.
func (p *pool) cached(prompt []int32) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := 0
	for _, c := range p.slots {
		best = max(best, c.use(prompt, p.plain))
	}
	for _, other := range p.taken {
		if n := common(other, prompt); p.plain || n >= leastShared {
			best = max(best, n)
		}
	}
	return best
}

// choose returns the slot that holds the longest prefix of the prompt. A prefix of less than a tenth of
// the prompt, such as the opening words of a chat template, is not worth another prompt's cache: then, and
// between equals, it is the slot not used for the longest time. The tenth is llama-server's own rule
// (--slot-prompt-similarity).
func choose(free []*cache, prompt []int32, plain bool) *cache {
	value := func(c *cache) int {
		if n := c.use(prompt, plain); 10*n >= len(prompt) {
			return n
		}
		return 0
	}
	return slices.MaxFunc(free, func(a, b *cache) int {
		return cmp.Or(cmp.Compare(value(a), value(b)), cmp.Compare(b.used, a.used))
	})
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
