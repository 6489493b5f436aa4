package engines

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem/internal/app"
	"tandem/internal/app/submitter"
	"tandem/internal/protocol"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// Faults of a llama-server, to which the gateway belongs that stands before it.

// refusing has the server find another file in the place of the state, which it refuses.
func refusing(t *testing.T, m *machine) hook {
	return func(w http.ResponseWriter, r *http.Request, body []byte, forward http.Handler) {
		var sent struct{ Filename string }
		if r.URL.Query().Get("action") == "restore" && json.Unmarshal(body, &sent) == nil {
			if err := os.WriteFile(filepath.Join(m.dir, sent.Filename), []byte(strings.Repeat("no state ", 100)), 0o600); err != nil {
				t.Error(err)
			}
		}
		forward.ServeHTTP(w, r)
	}
}

// missing has the server lose what it has read.
func missing(t *testing.T, m *machine) hook {
	return func(w http.ResponseWriter, r *http.Request, _ []byte, forward http.Handler) {
		if r.URL.Query().Get("action") != "restore" {
			forward.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		forward.ServeHTTP(answer, r)
		eraseSlot(t, m.url, 0)
		copyTo(w, answer, answer.Body.Bytes())
	}
}

// otherwise has the server predict other tokens than it does, when it is asked how likely they are.
func otherwise(t *testing.T) hook {
	return func(w http.ResponseWriter, r *http.Request, body []byte, forward http.Handler) {
		var sent struct {
			Probs int `json:"n_probs"`
		}
		if json.Unmarshal(body, &sent) != nil || sent.Probs == 0 {
			forward.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		forward.ServeHTTP(answer, r)
		var said map[string]any
		if err := json.Unmarshal(answer.Body.Bytes(), &said); err != nil {
			t.Error(err)
		}
		for _, token := range said["completion_probabilities"].([]any)[0].(map[string]any)["top_logprobs"].([]any) {
			entry := token.(map[string]any)
			entry["id"] = entry["id"].(float64) + 1000
		}
		data, err := json.Marshal(said)
		if err != nil {
			t.Error(err)
		}
		copyTo(w, answer, data)
	}
}

func copyTo(w http.ResponseWriter, answer *httptest.ResponseRecorder, body []byte) {
	w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body) // the worker may be gone
}

// TestEnginesRefuse: a state that arrived whole and is not used all the same is computed again, and an engine that keeps
// predicting something else gets no more of them.
func TestEnginesRefuse(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, shape tinymodel.Shape) (*pair, *gateway, string) {
		spec := tinymodel.TinyShape(shape, tinymodel.BPE)
		p := newPair(t, llamaMachine(t, spec), llamaMachine(t, spec))
		g, dir := newGateway(t, p.here.url), t.TempDir()
		p.with(nil, func(f *app.WorkerFlags) { f.EngineURL, f.StateDir = g.URL, dir })
		return p, g, dir
	}
	for _, shape := range []tinymodel.Shape{tinymodel.GPTOSS, tinymodel.GraniteHybrid} {
		t.Run(string(shape), func(t *testing.T) {
			p, server, _ := begin(t, shape)
			fault, want := missing(t, p.here), jobs.FailSilentMiss
			if shape == tinymodel.GraniteHybrid {
				fault, want = otherwise(t), jobs.FailFirstToken
			} else {
				p.window = 128
			}
			server.set(fault)
			p.fails("refused", want)
			server.set(nil)
			p.normal("after refused")
			short := job(lines("short", 3), 0)
			p.handedOver(p.run(short), short)
			p.nothingLeft()
		})
	}
	t.Run(string(tinymodel.Llama), func(t *testing.T) {
		p, server, dir := begin(t, tinymodel.Llama)
		p.normal("first")
		server.set(refusing(t, p.here))
		p.fails("refused", jobs.FailRestore)
		server.set(nil)
		p.normal("after refused")
		server.set(missing(t, p.here))
		p.fails("missed", jobs.FailSilentMiss)
		server.set(nil)
		p.normal("after missed")

		p.says("", 0)
		for i := range 3 {
			server.set(otherwise(t))
			r := p.fails(fmt.Sprint("differs ", i), jobs.FailFirstToken)
			if d := r.Handover.Divergence; d < 0.1 || d > 1 {
				t.Errorf("divergence %v", d)
			}
			server.set(nil)
			if i < 2 {
				p.normal(fmt.Sprint("after differs ", i))
			}
		}
		p.stopped("test-prefill")
		p.says("from test-prefill any more", app.ExitDegraded)
		r := p.fails("stopped", jobs.FailStopped)
		if !strings.Contains(r.Handover.Message, "decode-worker handover clear test-prefill") {
			t.Errorf("message %s; want the remedy", r.Handover.Message)
		}
		if list := p.link.requests(); len(list) != 0 {
			t.Errorf("states were asked for: %q", list)
		}
		var out, errs strings.Builder
		if code := app.DecodeWorkerMain([]string{"handover", "clear", "test-prefill", "--model", model, "--state-dir", dir}, &out, &errs); code != 0 {
			t.Fatalf("handover clear: exit code %d, %s%s", code, out.String(), errs.String())
		}
		p.stopped()
		p.eventually("states are handed over again", func() error { // once the prefill worker has heard of it
			if r := p.run(job(lines("again", 3), 0)); r.Handover == nil || r.Handover.Failure != "" {
				return fmt.Errorf("%+v", r.Handover)
			}
			return nil
		})
		p.normal("cleared")
		p.says("", 0)
		p.nothingLeft()
	})
}

// stopped waits until the decode worker says that it takes no states from these machines, and no others.
func (p *pair) stopped(machines ...string) {
	p.t.Helper()
	p.eventually("the decode worker says what it takes no states from", func() error {
		for _, w := range p.workers() {
			if w.Role == protocol.RoleDecode && !slices.Equal(w.StoppedPairs, machines) {
				return fmt.Errorf("it says %q", w.StoppedPairs)
			}
		}
		return nil
	})
}

// says checks the exit code of `submitter status`, and what it prints of faults.
func (p *pair) says(fault string, code int) {
	p.t.Helper()
	var out, errs strings.Builder
	have := submitter.Main(p.t.Context(), []string{"status", "--json", "--nats", p.nats.URL()}, strings.NewReader(""), &out, &errs)
	var said struct{ Faults []struct{ What string } }
	if err := json.Unmarshal([]byte(out.String()), &said); err != nil {
		p.t.Fatalf("status: %v: %s%s", err, out.String(), errs.String())
	}
	found := fault == "" && len(said.Faults) == 0
	for _, f := range said.Faults {
		found = found || fault != "" && strings.Contains(f.What, fault)
	}
	if have != code || !found {
		p.t.Errorf("status: exit code %d, faults %q; want %d and %q", have, said.Faults, code, fault)
	}
}

// TestServersOfWorkers: llama-servers that the workers started themselves, with other flags, or without room for a state.
func TestServersOfWorkers(t *testing.T) {
	t.Parallel()
	file, program := standintest.ModelFile(t, tinymodel.Tiny(tinymodel.BPE)), standintest.Engines(t).LlamaServer
	supervised := func(program, cacheType string) *machine {
		dir := t.TempDir()
		return &machine{dir: filepath.Join(dir, "slots"), slots: 1, flags: func(f *app.WorkerFlags) {
			f.Engine, f.ModelFile, f.LlamaServer, f.CacheType, f.StateDir = "llamacpp", file, program, cacheType, dir
		}}
	}
	// Files of at most 256 kB, as on a disk that is nearly full; the signal that comes with the limit is not of interest.
	limited := filepath.Join(t.TempDir(), "llama-server")
	script := fmt.Sprintf("#!/bin/bash\ntrap '' XFSZ\nulimit -f 256\nexec %q \"$@\"\n", program)
	if err := os.WriteFile(limited, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	p := newPair(t, supervised(limited, "f16"), supervised(program, "q8_0"))
	p.right = p.local
	p.prefill()
	t.Run("other cache type", func(t *testing.T) {
		p := p.in(t)
		p.decode()
		p.ready()
		r := p.fails("types", jobs.FailFingerprint)
		if m := r.Handover.Message; !strings.Contains(m, "--cache-type") || !strings.Contains(m, "q8_0 here, f16 on the prefill machine") {
			t.Errorf("message %s", m)
		}
		if list := p.link.requests(); len(list) != 0 {
			t.Errorf("states were asked for: %q", list)
		}
	})
	p.here = supervised(program, "f16")
	p.decode()
	p.ready()
	t.Run("no room to save", func(t *testing.T) {
		p := p.in(t)
		p.normal("before")
		r := p.failsFor(job(lines("long", 80), 0), jobs.FailSave)
		if m := r.Handover.Message; !strings.Contains(m, "is there room in "+p.there.dir) {
			t.Errorf("message %s", m)
		}
		p.normal("after")
		p.nothingLeft()
	})
}

// local is the text of the last of these jobs, done by the decode worker after others.
func (p *pair) local(t *testing.T, list ...*jobs.Job) (text string) {
	t.Helper()
	q := p.in(t)
	for i, j := range append([]*jobs.Job{job("Something else: "+lines("else", 3), 0)}, list...) {
		again := job(j.Prompt, 0)
		again.Plan = jobs.PlanLocal
		r := q.run(again)
		if r.Method != jobs.MethodLocal || i > 0 && r.Usage.PrefillCached > 16 {
			t.Errorf("%s, usage %+v; want the prompt computed by the decode worker", r.Method, r.Usage)
		}
		text = r.Text
	}
	return text
}
