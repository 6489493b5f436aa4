package processes

import (
	"strings"
	"testing"

	"tandem/internal/ollama/ollamatest"
	"tandem/internal/protocol"
	"tandem/jobs"
)

func TestEngineThatAlwaysFails(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	p, d := s.engine(0), s.engine(0)
	s.worker(protocol.RolePrefill, "prefill", p.URL())
	s.worker(protocol.RoleDecode, "decode", d.URL())
	p.Fail(ollamatest.OutOfMemory, 100)
	d.Fail(ollamatest.ErrorLine, 100)

	call := s.submit("cursed <- TRUE")
	call.exits(1)
	r := call.failedResult()
	if r.Status != jobs.Failed || r.Error.Code != jobs.CodeAttempts || !strings.Contains(r.Error.Message, "3 attempts failed") {
		t.Errorf("%s, error %+v", r.Status, r.Error)
	}
	wantAttempts(t, r, 2, 3)
	call.said(r.JobID, "3 attempts failed")
	if p.Calls() != 2 || d.Calls() != 3 {
		t.Errorf("%d prefills and %d whole generations were tried, want 2 and 3", p.Calls(), d.Calls())
	}

	for _, args := range [][]string{{"dlq", "list"}, {"dlq", "list", "--json"}, {"dlq", "show", r.JobID}} {
		listed := s.call(0, args...)
		for _, part := range []string{r.JobID, "fallback", model, string(jobs.CodeAttempts), "unexpected EOF"} {
			if !strings.Contains(listed.stdout.String(), part) {
				t.Errorf("%q does not tell %q:\n%s", args, part, listed.stdout.String())
			}
		}
		if strings.Contains(listed.stdout.String(), "cursed") {
			t.Errorf("%q shows the prompt", args)
		}
	}

	p.Heal()
	d.Heal()
	replay := strings.TrimSpace(s.call(0, "dlq", "replay", r.JobID).stdout.String())
	again := s.await(r.JobID) // whoever awaits the job gets what became of it at last
	if again.Status != jobs.Succeeded || again.JobID != replay || again.ReplayOf != r.JobID {
		t.Errorf("job %s %s, replay of %q; want %s, replay of %s", again.JobID, again.Status, again.ReplayOf, replay, r.JobID)
	}
	twice := s.call(0, "dlq", "replay", r.JobID)
	if strings.TrimSpace(twice.stdout.String()) != replay {
		t.Errorf("replayed twice: %q, the first time %q", twice.stdout.String(), replay)
	}
	s.once(2)
}
