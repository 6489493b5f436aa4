package pipeline

import (
	"slices"
	"sync"
)

// Rows lists the shared prefixes whose part of a KV state need not be sent to this worker, with their tokens, by engine.PrefixKey.
func (s *Stage) Rows() map[string]int {
	if s.fetcher == nil {
		return nil
	}
	return s.rows.held(s.fetcher.Holds)
}

// rows are what the last states had in common with others.
type rows struct {
	mu   sync.Mutex
	last []sharedRows // of different prefixes, the latest last
}

// sharedRows are those of one shared prefix.
type sharedRows struct {
	key    string
	name   string // of the rows
	tokens int
}

// note takes what a state that has come said of the prefix with this key.
func (r *rows) note(key, name string, tokens int) {
	const remembered = 8
	if key == "" || name == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = append(slices.DeleteFunc(r.last, func(other sharedRows) bool { return other.key == key }), sharedRows{key, name, tokens})
	r.last = r.last[max(0, len(r.last)-remembered):]
}

// held lists those whose rows are still here; nil if there are none.
func (r *rows) held(here func(name string) bool) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var held map[string]int
	for _, one := range r.last {
		if here(one.name) {
			if held == nil {
				held = map[string]int{}
			}
			held[one.key] = one.tokens
		}
	}
	return held
}
