package enginetest

import (
	"context"
	"strings"
	"testing"

	"tandem/internal/engine"
)

// logprobs: of each token is said how likely it was, and what else was likely, also after a hand-over; of a greedy text none was likelier.
func (s *suite) logprobs(t *testing.T) {
	if s.Cannot[Logprobs] != "" {
		return
	}
	req := greedy("Name three colours.", 8)
	if c := s.generate(t, req); c.Logprobs != nil {
		t.Errorf("logprobs that nobody asked for: %v", c.Logprobs)
	}
	req.Logprobs = true
	check := func(what string, c engine.Completion, top int) {
		t.Helper()
		var text strings.Builder
		for _, token := range c.Logprobs {
			text.WriteString(token.Token)
			if token.Logprob > 0 || token.Logprob < -50 || len(token.Top) != top {
				t.Errorf("%s: %+v, want a logarithm of a probability, and %d others", what, token, top)
			}
			for _, other := range token.Top {
				if other.Logprob > token.Logprob {
					t.Errorf("%s: %q (%v) was likelier than what was chosen, %q (%v)", what, other.Token, other.Logprob, token.Token, token.Logprob)
				}
			}
		}
		if text.String() != c.Thinking+c.Text || len(c.Logprobs) == 0 {
			t.Errorf("%s: the tokens are %q, the text %q", what, text.String(), c.Thinking+c.Text)
		}
	}
	check("alone", s.generate(t, req), 0)
	req.TopLogprobs = 3
	whole := s.generate(t, req)
	check("with others", whole, 3)

	req.Export = s.about.KVTransfer != nil
	p, err := s.Engine.Prefill(patient(t), req)
	if err != nil {
		t.Fatal(err)
	}
	c := s.complete(t, req, func(ctx context.Context, req engine.Request, emit engine.Emit) (engine.Completion, error) {
		return s.Engine.Decode(ctx, req, p, emit)
	})
	if check("handed over", c, 3); c.Text != whole.Text {
		t.Errorf("handed over the text is %q, want %q", c.Text, whole.Text)
	}
}
