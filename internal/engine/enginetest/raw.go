package enginetest

import (
	"strings"
	"testing"

	"tandem/jobs"
)

// raw: the prompt goes to the model as it is, also by way of a hand-over; an engine that cannot have it so refuses by name.
func (s *suite) raw(t *testing.T) {
	req := greedy("one two three", 8)
	req.Raw = true
	if why := s.Cannot[Raw]; why != "" {
		_, err := s.Engine.Generate(patient(t), req, discard)
		if CheckError(t, err); jobs.CodeOf(err) != jobs.CodeEngineRefused || !strings.Contains(err.Error(), "raw") {
			t.Errorf("raw: %v (%s), want %s that names it, since %s", err, jobs.CodeOf(err), jobs.CodeEngineRefused, why)
		}
		return
	}
	chat := req
	chat.Raw = false
	in, whole := s.generate(t, chat), s.generate(t, req)
	if whole.PromptTokens >= in.PromptTokens || whole.PromptTokens == 0 {
		t.Errorf("the prompt has %d tokens raw, and %d in the chat template", whole.PromptTokens, in.PromptTokens)
	}
	req.Export = s.about.KVTransfer != nil
	p, err := s.Engine.Prefill(patient(t), req)
	if err != nil || p.PromptTokens != whole.PromptTokens || req.Export != (p.State != nil) {
		t.Fatalf("Prefill raw: %d tokens, want %d; state %v; %s, %v", p.PromptTokens, whole.PromptTokens, p.State, p.Note, err)
	}
	var got emitted
	c, err := s.Engine.Decode(patient(t), req, p, got.emit)
	if err != nil {
		t.Fatal(err)
	}
	if got.check(t, c); c.Text != whole.Text || req.Export && c.Imported == nil {
		t.Errorf("handed over the text is %q, want %q; used: %v", c.Text, whole.Text, c.Imported)
	}
}
