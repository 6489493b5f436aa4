package engines

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem/internal/app"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// TestTransfersFail: whatever becomes of a state on its way between two Ollamas, the decode machine computes the prompt,
// says why, and takes the next state.
func TestTransfersFail(t *testing.T) {
	t.Parallel()
	spec := tinymodel.Tiny(tinymodel.BPE)
	p := newPair(t, ollamaMachine(t, spec, 1), ollamaMachine(t, spec, 1))
	ollama := newGateway(t, p.here.url)
	stopPrefill := p.prefill()
	stopDecode := p.decode(func(f *app.WorkerFlags) { f.EngineURL = ollama.URL })
	p.ready()
	_, process := p.here.inner()

	var forgotten string
	t.Run("the word that it is done with is lost", func(t *testing.T) {
		p := p.in(t)
		p.nothingLeft()
		p.link.deafen(true)
		p.normal("deaf")
		p.link.deafen(false)
		if forgotten = p.there.youngest(t); forgotten == "" {
			t.Error("the state is gone; want it held until the prefill worker finds that nobody needs it")
		}
	})
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	for _, tt := range []struct {
		name  string
		fault fault
		want  jobs.Failure
	}{
		{"bytes flipped", flipped, jobs.FailDigest},
		{"bytes flipped on the disk", p.onDisk(t, func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			data[len(data)/2] ^= 1
			return os.WriteFile(path, data, 0o600)
		}), jobs.FailDigest},
		{"truncated on the disk", p.onDisk(t, func(path string) error { return os.Truncate(path, 1000) }), jobs.FailNotFound},
		{"truncated", broken, jobs.FailTruncated},
		{"stalled", stalled, jobs.FailTooSlow},
		{"not found", unknown, jobs.FailNotFound},
		{"no answer", silent, jobs.FailUnreachable},
		{"redirected", func(_ *link, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
		}, jobs.FailRefusedURL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := p.in(t)
			p.link.spoil(tt.fault)
			p.fails(tt.name, tt.want)
			p.normal("after " + tt.name)
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		p := p.in(t)
		p.link.close()
		p.fails("nobody", jobs.FailUnreachable)
		p.link.open()
		p.normal("after nobody")
	})
	t.Run("broken and resumed", func(t *testing.T) {
		p := p.in(t)
		p.link.spoil(brokenOnce)
		p.normal("resumed")
		if list := p.link.requests(); len(list) != 2 || !strings.Contains(list[1], "bytes=") {
			t.Errorf("the state was asked for as %q; want it from its beginning, and then the rest", list)
		}
		p.link.spoil(nil)
	})
	t.Run("slow", func(t *testing.T) {
		p := p.in(t)
		p.link.spoil(slow)
		j := job(lines("slow", 20), 0)
		r := p.run(j)
		p.handedOver(r, j)
		if len(r.Warnings) != 1 || r.Warnings[0] != protocol.SlowTransferWarning(time.Duration(r.Timings.TransferSeconds*1e9)) {
			t.Errorf("warnings %q of a transfer of %v s", r.Warnings, r.Timings.TransferSeconds)
		}
		p.link.spoil(nil)
	})
	t.Run("used by nobody", func(t *testing.T) {
		p := p.in(t)
		server, _ := p.here.inner()
		ollama.set(func(w http.ResponseWriter, r *http.Request, body []byte, forward http.Handler) {
			if asksForText(r, body) {
				eraseSlot(t, server, 0)
			}
			forward.ServeHTTP(w, r)
		})
		p.fails("missed", jobs.FailSilentMiss)
		ollama.set(nil)
		p.normal("after missed")
	})
	t.Run("counted", func(t *testing.T) {
		var want []string
		for _, f := range slices.Sorted(maps.Keys(p.counted)) {
			want = append(want, fmt.Sprintf("tandem_handovers_total{model=%q,outcome=%q,role=\"decode\"} %d", model, cmp.Or(f, "used"), p.counted[f]))
		}
		slices.Sort(want)
		have := p.metrics(protocol.RoleDecode, "tandem_handovers_total")
		have = slices.DeleteFunc(have, func(line string) bool { return strings.HasSuffix(line, " 0") })
		if !slices.Equal(have, want) {
			t.Errorf("metrics\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
		}
		if _, now := p.here.inner(); now != process {
			t.Error("the decode engine was started again")
		}
	})
	t.Run("forgotten", func(t *testing.T) {
		p.in(t).eventually("the state of which nobody said that it is done with is removed", func() error {
			if _, err := os.Stat(forgotten); err == nil {
				return errors.New("it is still there")
			}
			return nil
		})
	})

	t.Run("prefill worker stopped", func(t *testing.T) { // in the middle of one transfer, and before the first byte of another
		p := p.in(t)
		p.here.erase(t)
		began, cut := make(chan struct{}), make(chan struct{})
		p.link.spoil(held(began, cut))
		one, two := job(lines("moving", 20), 0), job(lines("waiting", 20), 0)
		first := p.submitted(one)
		p.await("a state is fetched", began) // the decode worker has one slot, so the other job waits, and its state is fetched ahead
		second := p.submitted(two)
		p.eventually("both jobs are with decode", func() error {
			return cmp.Or(p.waiting(queue.StreamIntake, 0), p.waiting(queue.StreamRelay, 2))
		})
		stopPrefill()
		close(cut)
		r1, r2 := first(), second()
		p.there.restart(t) // llama-server keeps what was in a slot when it takes another prompt
		p.failed(r1, jobs.FailUnreachable, one)
		p.failed(r2, jobs.FailUnreachable, one, two)
		p.link.spoil(nil)
		if left := p.there.states(t); len(left) != 0 {
			t.Errorf("%q is left of a worker that was stopped", left)
		}
	})
	stopDecode()

	for _, tt := range []struct {
		name  string
		there func(*app.WorkerFlags)
		here  func(*app.WorkerFlags)
		want  jobs.Failure
		says  string
	}{
		{"address that is not allowed", nil, func(f *app.WorkerFlags) { f.HandoverAllow = []string{"10.0.0.0/8"} }, jobs.FailRefusedURL, "--handover-allow"},
		{"no room for states", func(f *app.WorkerFlags) { f.HandoverBudget = 64 << 10 }, nil, jobs.FailBudget, "--handover-budget"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := p.in(t)
			p.with(tt.there, tt.here)
			r := p.fails(tt.name, tt.want)
			if !strings.Contains(r.Handover.Message, tt.says) {
				t.Errorf("message %s; want one that says %s", r.Handover.Message, tt.says)
			}
			if list := p.link.requests(); len(list) != 0 {
				t.Errorf("states were asked for: %q", list)
			}
			role := protocol.RoleDecode
			if tt.there != nil {
				role = protocol.RolePrefill // no state was even offered
			}
			if list := p.metrics(role, fmt.Sprintf("outcome=%q", tt.want)); len(list) != 1 {
				t.Errorf("the %s worker does not count it: %q", role, list)
			}
		})
	}
	t.Run("no shim beside decode", func(t *testing.T) { // so that none is even written; which is said once, and is no news of a job
		p := p.in(t)
		p.with(nil, func(f *app.WorkerFlags) { f.ShimRunDir = t.TempDir() })
		r := p.run(job(lines("unshimmed", 20), 0))
		if h := r.Handover; h == nil || h.Failure != jobs.FailNoState || !strings.Contains(h.Message, "shim install") || h.Bytes != 0 || len(r.Warnings) != 0 || r.Usage.HandedOver != 0 {
			t.Errorf("report %+v, warnings %q, usage %+v; want one that says how to take states", h, r.Warnings, r.Usage)
		}
		if list := p.metrics(protocol.RolePrefill, fmt.Sprintf("outcome=%q", jobs.FailNoState)); len(list) != 1 {
			t.Errorf("the prefill worker does not count it: %q", list)
		}
	})
	t.Run("no hand-over wanted", func(t *testing.T) {
		p := p.in(t)
		p.with(func(f *app.WorkerFlags) { f.Handover = "none" }, nil)
		p.here.erase(t)
		j := job(lines("unwanted", 20), 0)
		r := p.run(j)
		u := r.Usage
		if r.Method != jobs.MethodDisaggregated || r.Handover != nil || u.HandedOver != 0 || u.DecodeComputed != u.PromptTokens || len(r.Warnings) != 0 {
			t.Errorf("%s, report %+v, usage %+v, warnings %q", r.Method, r.Handover, u, r.Warnings)
		}
		p.equal(r, j)
	})
	other := spec
	other.Seed = 99
	for _, tt := range []struct {
		name  string
		spec  tinymodel.Spec
		slots int
		says  string
	}{
		{"other weights", other, 1, "use the same GGUF file"},
		{"other number of slots", spec, 2, "OLLAMA_NUM_PARALLEL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := p.in(t)
			p.here = ollamaMachine(t, tt.spec, tt.slots)
			p.right = p.here.cold
			p.with(nil, nil)
			r := p.fails(tt.name, jobs.FailFingerprint)
			if !strings.Contains(r.Handover.Message, tt.says) || strings.Count(r.Handover.Message, "on the prefill machine") != 1 {
				t.Errorf("message %s; want one difference, and %s", r.Handover.Message, tt.says)
			}
			if list := p.link.requests(); len(list) != 0 {
				t.Errorf("states were asked for: %q", list)
			}
		})
	}
	p.with(nil, nil)
	p.normal("at last")
	p.nothingLeft()
}

// with starts both workers, which may have other flags, until the end of the test.
func (p *pair) with(there, here func(*app.WorkerFlags)) {
	p.t.Helper()
	same := func(*app.WorkerFlags) {}
	if there == nil {
		there = same
	}
	if here == nil {
		here = same
	}
	p.prefill(there)
	p.decode(here)
	p.ready()
}

// onDisk spoils the file of a state on the prefill machine once its digest is computed.
func (p *pair) onDisk(t *testing.T, spoil func(path string) error) fault {
	return func(l *link, w http.ResponseWriter, r *http.Request) {
		l.request(r, http.MethodGet, r.URL.Path+"/digest")
		if err := spoil(p.there.youngest(t)); err != nil {
			t.Errorf("spoil the state's file: %v", err)
		}
		l.ask(r).send(w)
	}
}

// youngest is the state that was written last.
func (m *machine) youngest(t *testing.T) string {
	var path string
	var last os.FileInfo
	for _, name := range m.states(t) {
		file := filepath.Join(m.dir, name)
		if info, err := os.Stat(file); err == nil && (last == nil || info.ModTime().After(last.ModTime())) {
			path, last = file, info
		}
	}
	return path
}
