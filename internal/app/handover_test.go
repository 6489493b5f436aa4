package app_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem/internal/access"
	"tandem/internal/app"
	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// machines are two real Ollamas whose KV caches can be reached.
type machines struct {
	*system
	prefill, decode *standin.Ollama
}

func newMachines(t *testing.T) *machines {
	t.Helper()
	start := func() *standin.Ollama {
		return standintest.StartOllama(t, standin.OllamaOptions{Models: map[string]tinymodel.Spec{model: tinymodel.Tiny(tinymodel.BPE)}})
	}
	return &machines{newSystem(t), start(), start()}
}

// on has a worker use an Ollama of the test's own.
func on(o *standin.Ollama) func(*app.WorkerFlags) {
	return func(f *app.WorkerFlags) { f.EngineURL, f.ShimRunDir, f.Threads = o.URL(), o.RunDir(), 1 }
}

// waiting makes decode look alive, so that prefill goes on, without anybody who fetches.
func (m *machines) waiting() (stop func()) {
	m.t.Helper()
	c := m.connect(queue.Config{NKey: m.access.Worker(protocol.RoleDecode, model), Model: model, Inbox: access.WorkerInbox(protocol.RoleDecode, model)})
	w, err := queue.NewWorker(c, queue.WorkerConfig{
		Role: protocol.RoleDecode, Model: model, ID: "waiting", Machine: "waiting", Slots: engine.NewSlots(1), Log: logTo(m.t),
		Run:      func(context.Context, *protocol.Task) (protocol.Outcome, error) { panic("it fetches nothing") },
		Ready:    func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
		Describe: func() queue.Presence { return queue.Presence{State: queue.StateReady, Slots: 1} },
	})
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(m.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			m.t.Error(err)
		}
		c.Close()
	}
}

// relayed waits until so many jobs wait for decode, and nothing for prefill.
func (m *machines) relayed(want uint64) {
	m.t.Helper()
	m.eventually("jobs wait for decode", func() bool {
		o, err := m.operator.Inspect(m.t.Context())
		if err != nil {
			m.t.Fatal(err)
		}
		ok := true
		for _, s := range o.Streams {
			ok = ok && (s.Name != queue.StreamRelay || s.Messages == want) && (s.Name != queue.StreamIntake || s.Messages == 0)
		}
		return ok
	})
}

func (s *system) eventually(what string, ok func() bool) {
	s.t.Helper()
	tick, limit := time.NewTicker(20*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			s.t.Fatalf("did not happen: %s", what)
		}
	}
}

// states are the files that an Ollama's worker and llama-server have in their folder.
func states(t *testing.T, o *standin.Ollama) []string {
	t.Helper()
	list, err := os.ReadDir(o.SlotDir())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// long is a prompt of some hundred tokens that shares its beginning with no other.
func long(first string) string {
	return first + " " + strings.Repeat("sales <- df |> filter(region == 'north') |> summarise(total = sum(price))\n", 30)
}

// The decode machine computes one token of the prompt, and its text is how the prefill machine would have gone on.
func TestKVStateIsHandedOver(t *testing.T) {
	m := newMachines(t)
	m.worker(protocol.RolePrefill, "", on(m.prefill))
	decode := m.worker(protocol.RoleDecode, "", on(m.decode))
	m.eventually("both engines are checked", func() bool { // which takes longer on a busy machine than a hand-over waits for it
		list, err := m.operator.Workers(t.Context())
		return err == nil && len(list) == 2 && list[0].Check != nil && list[1].Check != nil
	})
	ask := ollamaDirectly(m.prefill.URL())
	for i, first := range []string{"one", "two", "three"} {
		j := m.job(long(first))
		r := m.await(m.submit(j))
		u := r.Usage
		if r.Status != jobs.Succeeded || r.Method != jobs.MethodDisaggregated || len(r.Warnings) != 0 || r.Handover == nil || r.Handover.Failure != "" {
			t.Fatalf("job %d: %s by %s, warnings %q, report %+v, decision %s", i, r.Status, r.Method, r.Warnings, r.Handover, r.Decision)
		}
		if u.PromptTokens < 300 || u.HandedOver != u.PromptTokens-1 || u.DecodeCached != u.PromptTokens-1 || u.DecodeComputed != 1 {
			t.Errorf("job %d: usage %+v; want all but one prompt token handed over", i, u)
		}
		if tm := r.Timings; tm.SaveSeconds <= 0 || tm.TransferSeconds <= 0 || tm.RestoreSeconds <= 0 || tm.CheckSeconds <= 0 {
			t.Errorf("job %d: timings %+v", i, tm)
		}
		if r.Handover.Bytes <= 0 || r.Handover.BytesPerSecond <= 0 || r.Handover.Divergence > 0.01 || !strings.Contains(r.Decision, "handed over as KV state") {
			t.Errorf("job %d: report %+v, decision %s", i, r.Handover, r.Decision)
		}
		want, err := ask(t.Context(), j.Prompt, *j.Options.NumPredict)
		if err != nil {
			t.Fatal(err)
		}
		if r.Text != want || want == "" {
			t.Errorf("job %d:\n%q, and the prefill machine goes on with\n%q", i, r.Text, want)
		}
	}
	m.eventually("nothing is left of the states", func() bool { return len(states(t, m.prefill)) == 0 && len(states(t, m.decode)) == 0 })
	metrics, err := get(t.Context(), "http://"+decode.Addr()+"/metrics")
	if text, _ := metrics["text"].(string); err != nil || !strings.Contains(text, `tandem_handovers_total{model="qwen3-coder:30b",outcome="used",role="decode"} 3`) {
		t.Errorf("metrics do not count three hand-overs: %v", err)
	}
	list, err := m.operator.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range list {
		if w.Fingerprint == nil || w.NoState != "" || w.Fingerprint.Model != list[0].Fingerprint.Model {
			t.Errorf("presence %+v", w)
		}
	}
	m.empty()
}

// The state of the next job is fetched while one is decoded.
func TestKVStateIsFetchedAhead(t *testing.T) {
	m := newMachines(t)
	stopWaiting := m.waiting()
	m.worker(protocol.RolePrefill, "", on(m.prefill))
	first, second := m.job(long("one")), m.job(long("two"))
	first.Options.NumPredict = new(400) // time for the other's state to come
	m.submit(first)
	m.relayed(1)
	m.submit(second)
	m.relayed(2)
	stopWaiting()
	m.worker(protocol.RoleDecode, "", on(m.decode))
	for _, j := range []*jobs.Job{first, second} {
		r := m.await(j)
		ahead := strings.Contains(r.Decision, "while the job waited") // the first may have waited for the check of the engine
		if r.Usage.HandedOver != r.Usage.PromptTokens-1 || j == second && !ahead {
			t.Errorf("usage %+v, decision %s; want the state used, and the second one's fetched ahead", r.Usage, r.Decision)
		}
	}
	m.eventually("nothing is left of the states", func() bool { return len(states(t, m.prefill)) == 0 && len(states(t, m.decode)) == 0 })
	m.empty()
}

// Whatever becomes of a prefill worker between its publish and the fetch, the decode machine computes the prompt.
func TestPrefillWorkerGoneBeforeTheFetch(t *testing.T) {
	for name, want := range map[string]jobs.Failure{"gone": jobs.FailUnreachable, "restarted": jobs.FailNotFound} {
		t.Run(name, func(t *testing.T) {
			m := newMachines(t)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
			listen := func(f *app.WorkerFlags) { f.HandoverListen = l.Addr().String() }
			stopWaiting := m.waiting()
			prefill := m.worker(protocol.RolePrefill, "", on(m.prefill), listen)
			j := m.submit(m.job(long("one")))
			m.relayed(1)
			if len(states(t, m.prefill)) != 1 {
				t.Errorf("the prefill machine holds %v, want one state", states(t, m.prefill))
			}
			prefill.stop()
			if left := states(t, m.prefill); len(left) != 0 {
				t.Errorf("%v is left of a worker that was stopped", left)
			}
			if want == jobs.FailNotFound {
				m.worker(protocol.RolePrefill, "", on(m.prefill), listen)
			}
			stopWaiting()
			m.worker(protocol.RoleDecode, "", on(m.decode))
			r := m.await(j)
			u := r.Usage
			if r.Status != jobs.Succeeded || r.Handover == nil || r.Handover.Failure != want || u.HandedOver != 0 || u.DecodeComputed != u.PromptTokens {
				t.Errorf("%s, report %+v, usage %+v; want %s", r.Status, r.Handover, u, want)
			}
			if len(r.Warnings) != 1 || !strings.Contains(r.Decision, "re-prefilled on the decode machine, because ") {
				t.Errorf("warnings %q, decision %s", r.Warnings, r.Decision)
			}
			if whole, err := ollamaDirectly(m.decode.URL())(t.Context(), j.Prompt, *j.Options.NumPredict); err != nil || r.Text == "" || r.Text[:1] != whole[:1] {
				t.Errorf("text %q, the decode machine's own is %q, %v", r.Text, whole, err)
			}
			m.empty()
		})
	}
}

// A worker that takes states is not given any by an Ollama that writes others, and an earlier run's files are removed.
func TestEnginesThatDiffer(t *testing.T) {
	m := newMachines(t)
	m.decode = standintest.StartOllama(t, standin.OllamaOptions{
		Models: map[string]tinymodel.Spec{model: tinymodel.Tiny(tinymodel.BPE)}, NumParallel: 2,
	})
	left := filepath.Join(m.decode.SlotDir(), "decode.qwen3-coder=3A30b.LEFT.kv")
	others := filepath.Join(m.decode.SlotDir(), "prefill.qwen3-coder=3A30b.LEFT.kv")
	for _, file := range []string{left, others} {
		if err := os.WriteFile(file, []byte("state"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.worker(protocol.RolePrefill, "", on(m.prefill))
	m.worker(protocol.RoleDecode, "", on(m.decode))
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("a state of an earlier run is still there: %v", err)
	}
	if _, err := os.Stat(others); err != nil {
		t.Errorf("another worker's state was removed: %v", err)
	}
	r := m.await(m.submit(m.job(long("one"))))
	if r.Handover == nil || r.Handover.Failure != jobs.FailFingerprint || !strings.Contains(r.Handover.Message, "OLLAMA_NUM_PARALLEL") || r.Usage.DecodeComputed != r.Usage.PromptTokens {
		t.Errorf("report %+v, usage %+v; want a refusal that names the setting", r.Handover, r.Usage)
	}
}

// Hand-overs that were stopped stay so until an operator clears them, which a worker that runs notices; until then no
// state is even written.
func TestStoppedHandoversAreCleared(t *testing.T) {
	m := newMachines(t)
	dir := t.TempDir()
	stopped := `{"machines": {"test-prefill": {"at": "2026-01-02T03:04:05Z", "message": "3 of its last 3 states differed"}}}`
	if err := os.WriteFile(filepath.Join(dir, "stopped-handovers.json"), []byte(stopped), 0o600); err != nil {
		t.Fatal(err)
	}
	m.worker(protocol.RolePrefill, "", on(m.prefill))
	m.worker(protocol.RoleDecode, "", on(m.decode), func(f *app.WorkerFlags) { f.StateDir = dir })
	pairs := func(want ...string) func([]queue.Presence) bool {
		return func(list []queue.Presence) bool {
			for _, p := range list {
				if p.Role == protocol.RoleDecode {
					return slices.Equal(p.StoppedPairs, want)
				}
			}
			return false
		}
	}
	m.waitForWorkers(pairs("test-prefill"))
	r := m.await(m.submit(m.job(long("one"))))
	if r.Handover == nil || r.Handover.Failure != jobs.FailStopped || r.Timings.SaveSeconds != 0 || !strings.Contains(r.Decision, "decode-worker handover clear test-prefill") {
		t.Errorf("report %+v, saved for %v s, decision %s", r.Handover, r.Timings.SaveSeconds, r.Decision)
	}
	var out, errs strings.Builder
	if code := app.DecodeWorkerMain([]string{"handover", "clear", "test-prefill", "--model", model, "--state-dir", dir}, &out, &errs); code != 0 || !strings.Contains(out.String(), "KV states from test-prefill are taken again") {
		t.Errorf("handover clear: exit code %d, %q, %q", code, out.String(), errs.String())
	}
	m.waitForWorkers(pairs())
	m.eventually("states are handed over again", func() bool { // as soon as the prefill worker has heard of it
		r := m.await(m.submit(m.job(long(jobs.NewID()))))
		return r.Usage.HandedOver > 0
	})
}

func TestHandoverCommand(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "worker.yaml"), []byte("model: m\nslots: 2\nstate-dir: "+dir+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "stopped-handovers.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"clear --config " + filepath.Join(dir, "worker.yaml"), 0, "no hand-overs to this worker are stopped"},
		{"clear spark-1 --model m --state-dir " + dir, 0, "from spark-1 to this worker are not stopped"},
		{"clear", app.ExitUsage, "--model"},
		{"clear --model m --state-dir " + broken, app.ExitUsage, "remove it"},
		{"repair --model m", app.ExitUsage, "repair"},
		{"--help", 0, "clear"},
	} {
		var out, errs strings.Builder
		code := app.DecodeWorkerMain(append([]string{"handover"}, strings.Fields(tt.args)...), &out, &errs)
		if code != tt.code || !strings.Contains(out.String()+errs.String(), tt.says) {
			t.Errorf("handover %s: exit code %d, %q, %q; want %d and %q", tt.args, code, out.String(), errs.String(), tt.code, tt.says)
		}
	}
	var out, errs strings.Builder
	if code := app.PrefillWorkerMain([]string{"handover", "clear", "--model", "m"}, &out, &errs); code != app.ExitUsage {
		t.Errorf("prefill-worker handover: exit code %d; want it to be no command", code)
	}
}

// BenchmarkFirstHandover is the time from the start of two workers, whose engines run already, to the result of the first job that is handed over.
func BenchmarkFirstHandover(b *testing.B) {
	start := func() *standin.Ollama {
		return standintest.StartOllama(b, standin.OllamaOptions{Models: map[string]tinymodel.Spec{model: tinymodel.Tiny(tinymodel.BPE)}})
	}
	s, prefill, decode := newSystem(b), start(), start()
	auto := func(f *app.WorkerFlags) { f.Measure = "auto" }
	for b.Loop() {
		p := s.worker(protocol.RolePrefill, "", on(prefill), auto)
		d := s.worker(protocol.RoleDecode, "", on(decode), auto)
		if r := s.await(s.submit(s.job(long(jobs.NewID())))); r.Usage.HandedOver == 0 {
			b.Fatalf("%+v: %s", r.Handover, r.Decision)
		}
		d.stop()
		p.stop()
	}
}
