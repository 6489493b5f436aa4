package pipeline

import "sync"

const (
	sampleEvery = 200 // handed-over jobs, of which one is sampled
	doubtful    = 5   // that are sampled after one that differed
)

// samples says which jobs' prompts are computed here, too, although their KV states came: that finds an engine which begins to compute something else
// long after the two were checked.
type samples struct {
	every int

	mu   sync.Mutex
	left int // until the next
	more int // that are sampled at once
}

// due reports whether the next job is sampled.
func (s *samples) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more > 0 {
		s.more--
		return true
	}
	s.left = (s.left + 1) % s.every
	return s.left == 0
}

// differed has the next jobs sampled, too.
func (s *samples) differed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.more = doubtful
}
