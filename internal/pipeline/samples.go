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
	left int             // until the next
	more int             // that are sampled at once
	like map[string]bool // pairs of engines, of different builds, that agreed
}

// due reports whether the next job is sampled. pair names two engines that have yet to show that states move between them; it is empty if the two are alike.
func (s *samples) due(pair string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pair != "" && !s.like[pair] {
		return true
	}
	if s.more > 0 {
		s.more--
		return true
	}
	s.left = (s.left + 1) % s.every
	return s.left == 0
}

// agreed notes that two engines have shown it.
func (s *samples) agreed(pair string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.like == nil {
		s.like = map[string]bool{}
	}
	s.like[pair] = true
}

// differed has the next jobs sampled, too.
func (s *samples) differed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.more = doubtful
}
