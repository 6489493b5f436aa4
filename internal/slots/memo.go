package slots

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
)

// memo keeps what the server answered to questions whose answer depends on nothing but the question, such as the tokens of a text: a job is looked at
// before its slot is free, and again when it begins, and the jobs of a class share a prefix. It is safe for concurrent use.
type memo struct {
	mu      sync.Mutex
	answers map[question]any
	asked   []question // oldest first
	bytes   int
}

// question is the path and the body of a call, and how long the body is.
type question struct {
	sum   [sha256.Size]byte
	bytes int
}

// memoBytes is how many bytes of questions are remembered; the answers have about as many.
const memoBytes = 16 << 20

// Constant is [Server.Call] for an answer that depends on the body alone. It must not be changed: others get the same one.
func Constant[T any](ctx context.Context, s *Server, path string, body any) (T, error) {
	var answer T
	b, err := json.Marshal(body)
	if err != nil {
		return answer, fmt.Errorf("encode request: %w", err)
	}
	q := question{sha256.Sum256(append([]byte(path+"\n"), b...)), len(b)}
	if known, ok := s.memo.get(q).(T); ok {
		return known, nil
	}
	if err := s.Call(ctx, path, json.RawMessage(b), &answer); err != nil {
		return answer, err
	}
	s.memo.put(q, answer)
	return answer, nil
}

// get returns the answer to a question, nil if it is not known.
func (m *memo) get(q question) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answers[q]
}

// put remembers an answer, and forgets the oldest ones if there are too many bytes.
func (m *memo) put(q question, answer any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.answers[q]; known || q.bytes > memoBytes {
		return
	}
	if m.answers == nil {
		m.answers = map[question]any{}
	}
	m.answers[q], m.asked, m.bytes = answer, append(m.asked, q), m.bytes+q.bytes
	for m.bytes > memoBytes {
		oldest := m.asked[0]
		delete(m.answers, oldest)
		m.asked, m.bytes = m.asked[1:], m.bytes-oldest.bytes
	}
}
