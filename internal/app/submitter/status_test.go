package submitter

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/workerhttp"
	"tandem/jobs"
)

// worker is a presence that nothing is wrong with.
func worker(role jobs.Stage) queue.Presence {
	return queue.Presence{
		Worker: "w", Machine: "spark-1", Role: role, Model: "m", Engine: "ollama", State: queue.StateReady, Slots: 1, ModelDigest: "sha256:aaa",
	}
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(o *queue.Overview)
		want   string // in the one fault; empty for none
	}{
		{"none", func(*queue.Overview) {}, ""},
		{"dead letters are none", func(o *queue.Overview) { o.Streams[1].Messages = 5 }, ""},
		{"engine down", func(o *queue.Overview) {
			o.Workers[0].State, o.Workers[0].Problem = queue.StateDown, "no answer"
			add(o, worker(protocol.RolePrefill))
		},
			"the engine of prefill worker w on spark-1 is down: no answer"},
		{"no decode", func(o *queue.Overview) { o.Workers = o.Workers[:1] }, "has no live decode worker"},
		{"decode draining", func(o *queue.Overview) { o.Workers[1].State = queue.StateDraining }, "has no live decode worker"},
		{"other files", func(o *queue.Overview) { o.Workers[1].ModelDigest = "sha256:bbb" }, "not the same everywhere: sha256:aaa, sha256:bbb"},
		{"nearly full", func(o *queue.Overview) { o.Streams[0].Messages = 90 }, "stream INTAKE is nearly full"},
		{"nearly full of bytes", func(o *queue.Overview) { o.Streams[0].Bytes = 900 }, "stream INTAKE is nearly full"},
		{"stopped hand-overs", func(o *queue.Overview) { o.Workers[1].StoppedPairs = []string{"spark-1"} }, "takes no KV states of m from spark-1"},
		{"engines that predict something else", func(o *queue.Overview) {
			for i := range o.Workers {
				o.Workers[i].Fingerprint, o.Workers[i].Check = new(jobs.Fingerprint), &protocol.Check{Predictions: []map[int]float64{{i: 0}}}
			}
		}, "no KV states of m go from spark-1 to spark-1, since their engines differ: after the same 1 prompts"},
		{"missing stream", func(o *queue.Overview) { o.Streams[0].Missing = true }, "stream INTAKE is missing"},
		{"no model", func(o *queue.Overview) { o.Models = nil }, "no model is known"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &queue.Overview{
				Streams: []queue.StreamStatus{{Name: queue.StreamIntake, MaxMessages: 100, MaxBytes: 1000}, {Name: queue.StreamDLQ, MaxMessages: -1, MaxBytes: -1}},
				Models:  []queue.ModelStatus{{Model: "m"}},
				Workers: []queue.Presence{worker(protocol.RolePrefill), worker(protocol.RoleDecode)},
			}
			tt.change(o)
			faults := faultsOf(o)
			switch {
			case tt.want == "" && len(faults) > 0:
				t.Errorf("faults = %v, want none", faults)
			case tt.want != "" && (len(faults) != 1 || !strings.Contains(faults[0].What, tt.want)):
				t.Errorf("faults = %v, want one with %q", faults, tt.want)
			}
		})
	}
}

func add(o *queue.Overview, p queue.Presence) { o.Workers = append(o.Workers, p) }

// TestCheckWorker has doctor look at workers whose HTTP API answers in different ways.
func TestCheckWorker(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer string
		code   int
		skew   float64
		want   string // of the last finding
		level  string
	}{
		{"well", `{"status":"healthy","model":"m","machine":"spark-1","role":"decode"}`, 200, 0.1, "says the same", levelOK},
		{"clock", `{}`, 200, -75.5, "its clock is -1m15.5s off", levelWarning},
		{"down", `{"status":"down","model":"m","machine":"spark-1","role":"decode"}`, 503, 0, `answers with status 503`, levelFailed},
		{"another worker", `{"status":"healthy","model":"m","machine":"spark-2","role":"decode"}`, 200, 0, "another answers: decode worker on spark-2", levelFailed},
		{"another service", `<html>`, 200, 0, "read answer", levelFailed},
		{"of another machine", `<html>`, 200, 0, "for its own machine only", levelOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/health" {
					t.Errorf("asked for %s, want /health", r.URL.Path)
				}
				w.WriteHeader(tt.code)
				if _, err := w.Write([]byte(tt.answer)); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			w := worker(protocol.RoleDecode)
			w.SkewSeconds = tt.skew
			address := strings.TrimPrefix(server.URL, "http://")
			if tt.level == levelFailed { // by a name that is no loopback address to doctor
				address = strings.Replace(address, "127.0.0.1", "localhost", 1)
			}
			if w.HTTP = address; tt.skew < 0 {
				w.HTTP = ""
			}
			var out bytes.Buffer
			e := &examination{session: &session{out: &out}}
			checkWorker(t.Context(), e, w)
			last := e.findings[len(e.findings)-1]
			if last.Level != tt.level || !strings.Contains(last.Detail, tt.want) {
				t.Errorf("last finding %+v, want level %s and %q", last, tt.level, tt.want)
			}
			if last.Level != levelOK && last.Remedy == "" {
				t.Errorf("finding %+v has no remedy", last)
			}
			if e.failed() != (tt.level == levelFailed) {
				t.Errorf("failed = %t with findings %+v", e.failed(), e.findings)
			}
		})
	}
}

// TestDoctorHasTheToken has doctor ask a worker's HTTP API that wants a token.
func TestDoctorHasTheToken(t *testing.T) {
	server := httptest.NewServer(workerhttp.New(workerhttp.Config{
		Role: protocol.RoleDecode, Model: "m", Machine: "spark-1", Slots: engine.NewSlots(1), Token: "the-token-of-the-worker",
		Health: func() engine.Health { return engine.Health{State: engine.Ready} }, Ready: func() error { return nil },
		Metrics: http.NotFoundHandler(), Count: func(string, int) {}, Log: slog.New(slog.DiscardHandler),
	}))
	defer server.Close()
	for token, want := range map[string]finding{
		"the-token-of-the-worker":  {Level: levelOK, Detail: "says the same"},
		"":                         {Level: levelWarning, Detail: "asks for a token, and doctor has none", Remedy: "--http-token-file"},
		"the-token-of-another-one": {Level: levelFailed, Detail: "refuses the token", Remedy: "the same --http-token-file"},
	} {
		w := worker(protocol.RoleDecode)
		w.HTTP = strings.TrimPrefix(server.URL, "http://")
		var out bytes.Buffer
		e := &examination{session: &session{out: &out}, token: token}
		checkWorker(t.Context(), e, w)
		got := e.findings[len(e.findings)-1]
		if got.Level != want.Level || !strings.Contains(got.Detail, want.Detail) || !strings.Contains(got.Remedy, want.Remedy) {
			t.Errorf("with token %q: %+v, want %+v", token, got, want)
		}
	}
}
