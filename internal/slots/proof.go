package slots

// Proof is how many tokens of a prompt must have been found in a slot that held n of them, if they were used at
// all. An answer that says less computed the prompt again.
func (s *Server) Proof(n int) int { return s.config.proof(n) }
