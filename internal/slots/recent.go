package slots

import "sync"

// Prompts have a shared part if they begin with at least so many equal tokens, and so great a part.
const (
	leastShared   = 256
	leastFraction = 10 // a tenth
	maxRecent     = 16
)

// recent remembers the last prompts, in order to find what the jobs of a class have in common.
type recent struct {
	mu      sync.Mutex
	prompts [][]int32
}

func (r *recent) add(prompt []int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.prompts) == maxRecent {
		r.prompts = r.prompts[1:]
	}
	r.prompts = append(r.prompts[:len(r.prompts):len(r.prompts)], prompt)
}

// shared is the length of the part that this prompt has in common with an earlier one, 0 if that is not
// worth computing by itself. Two of a class may begin alike a little longer by chance, so among nearly
// equal lengths the shortest counts.
func (r *recent) shared(prompt []int32) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	longest := 0
	var lengths []int
	for _, other := range r.prompts {
		n := common(other, prompt)
		if n == len(prompt) || n == len(other) {
			continue // the same job again, or a part of it
		}
		lengths = append(lengths, n)
		longest = max(longest, n)
	}
	if longest < leastShared || longest*leastFraction < len(prompt) {
		return 0
	}
	best := longest
	for _, n := range lengths {
		if n < best && n >= longest-longest/16 && n >= leastShared {
			best = n
		}
	}
	return best
}
