package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem/internal/access"
	"tandem/internal/app"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/ollama/ollamatest"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const model = "qwen3-coder:30b"

// quick makes lost workers noticed in about two seconds.
var quick = queue.Timing{
	AckWait: 2 * time.Second, InProgressEvery: 400 * time.Millisecond, Beat: 300 * time.Millisecond,
	PresenceTTL: 1500 * time.Millisecond, DeadlineGrace: 200 * time.Millisecond, CancelWait: 2 * time.Second,
}

// system is a NATS server of the test's own, as submitter admin secure sets it up: everybody speaks TLS, and has a key with no more rights than are due.
type system struct {
	t        testing.TB
	nats     *natsembed.Server
	access   access.Folder
	client   *queue.Client // of the user grader
	operator *queue.Client
}

func newSystem(t testing.TB) *system {
	t.Helper()
	s := &system{t: t, access: access.Folder(filepath.Join(t.TempDir(), "access"))}
	key := filepath.Join(t.TempDir(), "grader.nk")
	if err := errors.Join(s.access.Create([]string{"127.0.0.1"}, []string{model}), s.access.AddGrader("grader", key)); err != nil {
		t.Fatal(err)
	}
	s.nats = natstest.Start(t, natsembed.Options{Dir: t.TempDir(), Include: s.access.Config()})
	s.operator = queue.NewClient(s.connect(queue.Config{NKey: s.access.Operator()}), "operator")
	if _, err := s.operator.Init(t.Context(), []string{model}, 1, false); err != nil {
		t.Fatal(err)
	}
	s.client = queue.NewClient(s.connect(queue.Config{NKey: key, Inbox: "grader"}), "grader")
	return s
}

func (s *system) connect(c queue.Config) *queue.Conn {
	s.t.Helper()
	c.URL, c.TLSCA, c.Name, c.Timing, c.Log = s.nats.URL(), s.access.CA(), "test", quick, logTo(s.t)
	conn, err := queue.Connect(s.t.Context(), c)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	return conn
}

// flags are those of a worker, by which it comes to the server as what it is.
func (s *system) flags(role jobs.Stage) app.WorkerFlags {
	return app.WorkerFlags{
		NATS: s.nats.URL(), NKey: s.access.Worker(role, model), TLSCA: s.access.CA(), Model: model, Engine: "ollama", Slots: 1, NumCtx: 8192, HTTP: "127.0.0.1:0",
		StateDir: s.t.TempDir(), Measure: "never", // or caches would hold what tests did not put there
	}
}

func logTo(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// running is a worker that runs until it is stopped.
type running struct {
	*app.Worker
	stop func() // drains
}

// worker starts a worker on an engine; change may alter its flags.
func (s *system) worker(role jobs.Stage, engineURL string, change ...func(*app.WorkerFlags)) *running {
	s.t.Helper()
	flags := s.flags(role)
	flags.EngineURL, flags.Machine, flags.StartTimeout, flags.DrainLimit = engineURL, "test-"+string(role), 5*time.Second, 10*time.Second
	for _, f := range change {
		f(&flags)
	}
	w, err := app.StartWorker(s.t.Context(), app.WorkerConfig{Role: role, Flags: flags, Timing: quick, Log: logTo(s.t)})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	r := &running{Worker: w}
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("%s worker ended with %v", role, err)
		}
	}
	s.t.Cleanup(r.stop)
	s.waitForWorkers(func(list []queue.Presence) bool {
		for _, p := range list {
			if p.Worker == w.ID() {
				return true
			}
		}
		return false
	})
	return r
}

// waitForWorkers waits until the list of present workers is as wanted. An engine on Vulkan compiles for a quarter of a minute when it is first used.
func (s *system) waitForWorkers(wanted func([]queue.Presence) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := s.operator.Workers(ctx)
		if err == nil && wanted(list) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("workers are not as wanted: %+v, %v", list, err)
		}
	}
}

func (s *system) job(prompt string) *jobs.Job {
	zero, n := 0.0, 16
	return &jobs.Job{
		V: jobs.Version, ID: jobs.NewID(), User: "grader", Batch: jobs.SingleBatch, Class: jobs.Interactive, Model: model,
		Prompt: prompt, Options: jobs.Options{Temperature: &zero, NumPredict: &n}, SubmittedAt: time.Now().UTC(),
	}
}

func (s *system) submit(j *jobs.Job) *jobs.Job {
	s.t.Helper()
	if err := s.client.Submit(s.t.Context(), j, queue.SubmitOptions{}); err != nil {
		s.t.Fatal(err)
	}
	return j
}

// await returns the result of a job within half a minute.
func (s *system) await(j *jobs.Job) *jobs.Result {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	r, err := s.client.Await(ctx, j.ID)
	if err != nil {
		s.t.Fatalf("await: %v", err)
	}
	return r
}

// empty fails the test unless nothing is left in the queue.
func (s *system) empty() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		o, err := s.operator.Inspect(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		left := uint64(0)
		for _, stream := range o.Streams {
			if stream.Name == queue.StreamIntake || stream.Name == queue.StreamRelay {
				left += stream.Messages
			}
		}
		if left == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("%d messages are left in the queue", left)
		}
	}
}

func fake(t *testing.T) *ollamatest.Server {
	return ollamatest.Start(t, ollamatest.Options{Model: model, Digest: "sha256:same"})
}

func TestJobGoesThroughBothMachines(t *testing.T) {
	s, p, d := newSystem(t), fake(t), fake(t)
	prefill, decode := s.worker(protocol.RolePrefill, p.URL()), s.worker(protocol.RoleDecode, d.URL())
	r := s.await(s.submit(s.job("x <- mean(df$price)")))
	if r.Status != jobs.Succeeded || r.Method != jobs.MethodDisaggregated || r.Text == "" || len(r.Warnings) != 0 {
		t.Errorf("%s by %s, warnings %q, text of %d bytes", r.Status, r.Method, r.Warnings, len(r.Text))
	}
	if r.Servers.Prefill != "test-prefill/"+prefill.ID() || r.Servers.Decode != "test-decode/"+decode.ID() {
		t.Errorf("servers %+v", r.Servers)
	}
	if r.Attempts.Prefill != 1 || r.Attempts.Decode != 1 || r.Usage.PromptTokens == 0 || r.Usage.PrefillComputed == 0 ||
		r.Timings.TotalSeconds <= 0 || r.Provenance.Engine != "ollama" || !strings.Contains(r.Decision, "nothing was saved") {
		t.Errorf("result %+v", r)
	}
	s.empty()
}

func TestPrefillThatFailsTwiceFallsBack(t *testing.T) {
	s, p, d := newSystem(t), fake(t), fake(t)
	s.worker(protocol.RolePrefill, p.URL())
	s.worker(protocol.RoleDecode, d.URL())

	p.Fail(ollamatest.OutOfMemory, 1)
	if r := s.await(s.submit(s.job("one failure"))); r.Method != jobs.MethodDisaggregated || r.Attempts.Prefill != 2 {
		t.Errorf("after one failure: %s with %d attempts; want a retry that succeeds", r.Method, r.Attempts.Prefill)
	}
	p.Fail(ollamatest.OutOfMemory, 2)
	r := s.await(s.submit(s.job("two failures")))
	if r.Method != jobs.MethodFallback || r.Warnings[0] != "Using fallback mode - slower performance" || r.Attempts.Prefill != 2 {
		t.Errorf("after two failures: %s, warnings %q, %d attempts", r.Method, r.Warnings, r.Attempts.Prefill)
	}
	if !strings.Contains(r.Decision, "prefill failed twice") {
		t.Errorf("decision %q does not say why", r.Decision)
	}
	s.empty()
}

func TestNoPrefillWorkerFallsBack(t *testing.T) {
	s, p, d := newSystem(t), fake(t), fake(t)
	prefill := s.worker(protocol.RolePrefill, p.URL())
	prefill.stop()
	s.worker(protocol.RoleDecode, d.URL())
	r := s.await(s.submit(s.job("nobody prefills")))
	if r.Method != jobs.MethodFallback || len(r.Warnings) != 1 || r.Warnings[0] != jobs.WarnFallback {
		t.Errorf("%s, warnings %q", r.Method, r.Warnings)
	}

	s.worker(protocol.RolePrefill, p.URL()) // is back
	if r := s.await(s.submit(s.job("somebody prefills again"))); r.Method != jobs.MethodDisaggregated {
		t.Errorf("with a prefill worker again: %s", r.Method)
	}
}

func TestPrefillEngineThatDiesIsTakenOver(t *testing.T) {
	s, p, d := newSystem(t), fake(t), fake(t)
	s.worker(protocol.RolePrefill, p.URL())
	s.worker(protocol.RoleDecode, d.URL())
	p.Down()
	r := s.await(s.submit(s.job("the engine is gone")))
	if r.Status != jobs.Succeeded || r.Method != jobs.MethodFallback {
		t.Errorf("%s by %s", r.Status, r.Method)
	}
	s.waitForWorkers(func(list []queue.Presence) bool {
		for _, w := range list {
			if w.Role == protocol.RolePrefill {
				return w.State == "down" && strings.Contains(w.Problem, p.URL())
			}
		}
		return false
	})
	p.Up(t)
	s.waitForWorkers(func(list []queue.Presence) bool {
		for _, w := range list {
			if w.Role == protocol.RolePrefill {
				return w.State == "ready"
			}
		}
		return false
	})
	if r := s.await(s.submit(s.job("the engine is back"))); r.Method != jobs.MethodDisaggregated {
		t.Errorf("with the engine back: %s", r.Method)
	}
}

func TestDecodeWorkerGone(t *testing.T) {
	s, p, d := newSystem(t), fake(t), fake(t)
	s.worker(protocol.RolePrefill, p.URL())
	decode := s.worker(protocol.RoleDecode, d.URL())
	decode.stop()
	j := s.submit(s.job("nobody decodes"))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := s.client.Await(ctx, j.ID)
	if err == nil || !strings.Contains(err.Error(), "Decode server unavailable - request failed") || jobs.CodeOf(err) != jobs.CodeDecodeMissing {
		t.Errorf("the caller was told %v", err)
	}
	s.worker(protocol.RoleDecode, d.URL()) // is back
	if r := s.await(j); r.Status != jobs.Succeeded {
		t.Errorf("after the worker returned: %s", r.Status)
	}
	s.empty()
}

func TestJobWhoseEngineAlwaysFails(t *testing.T) {
	s, p, d := newSystem(t), fake(t), fake(t)
	s.worker(protocol.RolePrefill, p.URL())
	s.worker(protocol.RoleDecode, d.URL())
	p.Fail(ollamatest.OutOfMemory, 2)
	d.Fail(ollamatest.ErrorLine, 3)
	j := s.submit(s.job("cursed"))
	r := s.await(j)
	if r.Status != jobs.Failed || r.Error.Code != jobs.CodeAttempts || r.Attempts.Prefill != 2 || r.Attempts.Decode != 3 {
		t.Errorf("%s, error %+v, attempts %+v", r.Status, r.Error, r.Attempts)
	}
	letter, err := s.client.DeadLetter(t.Context(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	if letter.Code != jobs.CodeAttempts || letter.Job.Prompt != "cursed" || letter.Message == "" {
		t.Errorf("dead letter: %s %q", letter.Code, letter.Message)
	}
	if _, _, err := s.client.Replay(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	if r := s.await(j); r.Status != jobs.Succeeded || r.ReplayOf != j.ID {
		t.Errorf("replay: %s, replay of %s", r.Status, r.ReplayOf)
	}
	s.empty()
}

func TestPermanentErrorsAreNotTriedAgain(t *testing.T) {
	s, p, d := newSystem(t), fake(t), fake(t)
	small := func(f *app.WorkerFlags) { f.NumCtx = 256 }
	s.worker(protocol.RolePrefill, p.URL(), small)
	s.worker(protocol.RoleDecode, d.URL(), small)
	r := s.await(s.submit(s.job(strings.Repeat("word ", 2000))))
	if r.Status != jobs.Failed || r.Error.Code != jobs.CodeContextOverflow || !strings.Contains(r.Error.Message, "256") {
		t.Errorf("%s, error %+v; want context_overflow naming both numbers", r.Status, r.Error)
	}
	if r.Attempts.Prefill != 1 || len(d.Generations()) != 0 {
		t.Errorf("%d attempts, %d generations on the decode side; want one and none", r.Attempts.Prefill, len(d.Generations()))
	}
}

// A model that somebody removed is no job's fault.
func TestMissingModelIsNotBlamedOnTheJob(t *testing.T) {
	s, p, d := newSystem(t), fake(t), fake(t)
	s.worker(protocol.RolePrefill, p.URL())
	s.worker(protocol.RoleDecode, d.URL())
	d.Fail(ollamatest.Missing, 1)
	if r := s.await(s.submit(s.job("the model is away for a moment"))); r.Status != jobs.Succeeded || r.Attempts.Decode != 1 {
		t.Errorf("%s after %d decode attempts, error %+v; want success at the first", r.Status, r.Attempts.Decode, r.Error)
	}
}

func TestNATSRestartsInTheMiddleOfABatch(t *testing.T) {
	s := newSystem(t)
	p := ollamatest.Start(t, ollamatest.Options{Model: model, PerToken: time.Millisecond})
	d := ollamatest.Start(t, ollamatest.Options{Model: model, PerToken: time.Millisecond})
	s.worker(protocol.RolePrefill, p.URL())
	s.worker(protocol.RoleDecode, d.URL())
	const n = 20
	var ids []string
	for i := range n {
		j := s.job(fmt.Sprintf("job number %d of a batch", i))
		j.Batch, j.Class = "b", jobs.Batch
		ids = append(ids, s.submit(j).ID)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	seen := map[string]bool{}
	for r, err := range s.client.AwaitBatch(ctx, "b", ids) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Status != jobs.Succeeded || seen[r.JobID] {
			t.Errorf("job %s: %s, seen before: %v", r.JobID, r.Status, seen[r.JobID])
		}
		if seen[r.JobID] = true; len(seen) == 3 {
			if err := s.nats.Restart(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(seen) != n {
		t.Errorf("%d results, want %d", len(seen), n)
	}
	s.empty()
}

func TestHTTPSharesTheSlotsWithTheQueue(t *testing.T) {
	s, p := newSystem(t), fake(t)
	d := ollamatest.Start(t, ollamatest.Options{Model: model, Slots: 2})
	s.worker(protocol.RolePrefill, p.URL())
	decode := s.worker(protocol.RoleDecode, d.URL())
	d.Fail(ollamatest.HangMid, 1)
	answer := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, err := post(ctx, "http://"+decode.Addr()+"/generate", `{"prompt": "def fibonacci(n):", "max_tokens": 8}`)
		answer <- err
	}()
	if err := d.WaitRunning(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	j := s.submit(s.job("waits for the slot"))
	brief, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if _, err := s.client.Await(brief, j.ID); jobs.CodeOf(err) != jobs.CodeTimeout {
		t.Errorf("while the only slot is taken over HTTP, the job's await says %v; want a timeout", err)
	}
	if d.Peak() != 1 {
		t.Errorf("%d generations at once on one slot", d.Peak())
	}
	cancel() // the HTTP client goes away, which the engine notices a moment after the worker
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("the HTTP call ended with %v", err)
	}
	if r := s.await(j); r.Status != jobs.Succeeded {
		t.Errorf("job after the slot was free: %s", r.Status)
	}
}

// An engine that fails one job after the other, and a small request of the worker's own, gets no more jobs, and those that it failed then are not miscounted.
func TestEngineThatFailsEverybody(t *testing.T) {
	s, d := newSystem(t), fake(t)
	s.worker(protocol.RoleDecode, d.URL())
	d.Fail(ollamatest.OutOfMemory, 1000)
	local := func(prompt string) *jobs.Job {
		j := s.job(prompt)
		j.Plan = jobs.PlanLocal
		return s.submit(j)
	}
	first, second := local("one"), local("two")
	s.waitForWorkers(func(list []queue.Presence) bool {
		return len(list) == 1 && list[0].State == queue.StateDown && strings.Contains(list[0].Problem, "fails every request; restart it")
	})
	third := local("three")
	d.Heal()
	attempts := 0
	for _, j := range []*jobs.Job{first, second, third} {
		r := s.await(j)
		if r.Status != jobs.Succeeded {
			t.Errorf("%+v", r.Error)
		}
		attempts += r.Attempts.Decode
	}
	if attempts > 4 { // one of the first two failed once before that was known
		t.Errorf("%d attempts for three jobs", attempts)
	}
	s.empty()
}
