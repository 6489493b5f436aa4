package slots

import "tandem/internal/gguf"

// checkpointGap is how far before the end of a prompt llama-server sets its last checkpoint, at most. With
// 0.7.0 it is 4 tokens, and one more is computed again.
const checkpointGap = 8

// Proof is how many tokens of a prompt must have been found in a slot that held n of them, if they were used at
// all. An answer that says less computed the prompt again. As long as a prompt is shorter than the
// model's window, llama-server returns to its last checkpoint although it need not.
func (s *Server) Proof(n int) int {
	if h := s.config.Header; h != nil && h.Kind == gguf.Window && n < h.WindowTokens {
		return max(0, n-checkpointGap)
	}
	return n
}
