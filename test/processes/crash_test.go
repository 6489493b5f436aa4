package processes

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem/internal/ollama/ollamatest"
	"tandem/internal/protocol"
	"tandem/jobs"
)

func TestPrefillWorkerKilledAndAnotherLives(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	p, d := s.engine(0), s.engine(0)
	lost := s.worker(protocol.RolePrefill, "lost", p.URL())
	s.worker(protocol.RoleDecode, "decode", d.URL())

	p.Fail(ollamatest.HangFirst, 1)
	call := s.submit("x <- mean(df$price)")
	s.running(p)
	lost.kill()
	s.worker(protocol.RolePrefill, "heir", p.URL())

	r := call.result()
	if r.Status != jobs.Succeeded || r.Method != jobs.MethodDisaggregated {
		t.Errorf("%s by %s", r.Status, r.Method)
	}
	wantAttempts(t, r, 2, 1)
	if !strings.HasPrefix(r.Servers.Prefill, "heir/") {
		t.Errorf("prefilled by %s", r.Servers.Prefill)
	}
	s.once(1)
}

func TestPrefillWorkerKilledAndNoneIsLeft(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	p, d := s.engine(0), s.engine(0)
	lost := s.worker(protocol.RolePrefill, "lost", p.URL())
	s.worker(protocol.RoleDecode, "decode", d.URL())

	p.Fail(ollamatest.HangFirst, 1)
	call := s.submit("x <- mean(df$price)")
	s.running(p)
	lost.kill()

	wantFallback(t, call)
	s.once(1)
}

func TestNoPrefillWorkerWasEverStarted(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	d := s.engine(0)
	s.worker(protocol.RoleDecode, "decode", d.URL())
	call := s.submit("x <- mean(df$price)")
	wantFallback(t, call)
	call.said("warning: Using fallback mode - slower performance")
	s.once(1)
	if d.Calls() != 1 {
		t.Errorf("the engine was asked %d times", d.Calls())
	}
}

func wantAttempts(t *testing.T, r *jobs.Result, prefill, decode int) {
	t.Helper()
	if r.Attempts.Prefill != prefill || r.Attempts.Decode != decode {
		t.Errorf("attempts %+v, want %d and %d", r.Attempts, prefill, decode)
	}
}

// wantFallback is for a job that the decode worker must have done alone.
func wantFallback(t *testing.T, call *process) {
	t.Helper()
	r := call.result()
	if r.Status != jobs.Succeeded || r.Method != jobs.MethodFallback || r.Text == "" {
		t.Errorf("%s by %s with %d bytes of text", r.Status, r.Method, len(r.Text))
	}
	if len(r.Warnings) != 1 || r.Warnings[0] != "Using fallback mode - slower performance" {
		t.Errorf("warnings %q", r.Warnings)
	}
	if !strings.Contains(r.Decision, "no live prefill worker") || !strings.HasPrefix(r.Servers.Decode, "decode/") {
		t.Errorf("decision %q, servers %+v", r.Decision, r.Servers)
	}
}

func TestDecodeWorkerKilled(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	p, d := s.engine(0), s.engine(0)
	s.worker(protocol.RolePrefill, "prefill", p.URL())
	lost := s.worker(protocol.RoleDecode, "lost", d.URL())

	d.Fail(ollamatest.HangMid, 1)
	call := s.submit("x <- mean(df$price)")
	s.running(d)
	lost.kill()
	s.worker(protocol.RoleDecode, "heir", d.URL())

	r := call.result()
	if r.Status != jobs.Succeeded || r.Method != jobs.MethodDisaggregated {
		t.Errorf("%s by %s", r.Status, r.Method)
	}
	wantAttempts(t, r, 1, 2)
	if !strings.HasPrefix(r.Servers.Decode, "heir/") || !strings.HasPrefix(r.Servers.Prefill, "prefill/") {
		t.Errorf("servers %+v", r.Servers)
	}
	s.once(1)
	if p.Calls() != 1 {
		t.Errorf("prefilled %d times: what was handed over should have served again", p.Calls())
	}
}

func TestDecodeWorkerStopped(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	p, d := s.engine(0), s.engine(0)
	s.worker(protocol.RolePrefill, "prefill", p.URL())
	stopped := s.worker(protocol.RoleDecode, "stopped", d.URL())
	stopped.terminate()
	stopped.exits(0)

	call := s.submit("x <- mean(df$price)", "--timeout", "3s")
	call.exits(5)
	call.said("Decode server unavailable - request failed", "submitter await ")
	_, id, _ := strings.Cut(call.stderr.String(), "submitter await ")
	id, _, _ = strings.Cut(id, ",")

	s.worker(protocol.RoleDecode, "back", d.URL())
	if r := s.await(id); r.Status != jobs.Succeeded || r.JobID != id || !strings.HasPrefix(r.Servers.Decode, "back/") {
		t.Errorf("job %s %s on %+v", r.JobID, r.Status, r.Servers)
	}
	s.once(1)
}

func TestNATSLost(t *testing.T) {
	for name, lose := range map[string]func(*process){
		"killed":     (*process).kill,
		"terminated": func(p *process) { p.terminate(); p.exits(0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			p, d := s.engine(0), s.engine(10*time.Millisecond)
			s.worker(protocol.RolePrefill, "prefill", p.URL())
			s.worker(protocol.RoleDecode, "decode", d.URL())
			const n = 12
			dir := filepath.Join(s.home, "results")
			call := s.submitter("batch", s.batchFile(n), "--plan", "disaggregated", "--out", dir)
			s.called(d, 4)
			lose(s.nats)
			s.restartNATS()
			call.exits(0)
			s.results(dir, n)
			s.once(n)
		})
	}
}

func TestSubmitterKilled(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	p, d := s.engine(0), s.engine(5*time.Millisecond)
	s.worker(protocol.RolePrefill, "prefill", p.URL())
	s.worker(protocol.RoleDecode, "decode", d.URL())
	const n = 30
	dir := filepath.Join(s.home, "results")
	batch := []string{"batch", s.batchFile(n), "--plan", "disaggregated", "--out", dir}

	// While it submits.
	published := s.publishing("jobs.prefill.>")
	call := s.submitter(append(batch, "--batch", "B")...)
	published(5)
	call.kill()

	// While it awaits.
	call = s.submitter(append(batch, "--resume")...)
	s.called(d, 10)
	call.kill()

	s.call(0, append(batch, "--resume")...)
	s.results(dir, n)
	s.once(n)
	if p.Calls() != n || d.Calls() != n {
		t.Errorf("%d prefills and %d decodes of %d jobs", p.Calls(), d.Calls(), n)
	}

	// From elsewhere.
	other := filepath.Join(s.home, "elsewhere")
	s.call(0, "await", "--batch", "B", "--out", other)
	s.results(other, n)
}
