package engines

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem/internal/app"
	"tandem/internal/gguf"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// system is NATS, a prefill and a decode worker on two real Ollamas, and a grader.
type system struct {
	t      *testing.T
	nats   *natsembed.Server
	client *queue.Client
}

func newSystem(t *testing.T) *system {
	t.Helper()
	s := &system{t: t, nats: natstest.Start(t, natsembed.Options{Dir: t.TempDir()})}
	c, err := queue.Connect(t.Context(), queue.Config{URL: s.nats.URL(), Name: "test", Log: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.client = queue.NewClient(c, "grader")
	return s
}

func logTo(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// worker runs a worker until the returned function, or the end of the test, stops it. Change may alter its flags.
func (s *system) worker(role jobs.Stage, o *standin.Ollama, slots int, change ...func(*app.WorkerFlags)) (stop func()) {
	s.t.Helper()
	flags := app.WorkerFlags{
		NATS: s.nats.URL(), Model: model, Engine: "ollama", Slots: slots, NumCtx: 8192, Threads: 1,
		HTTP: "127.0.0.1:0", Machine: "test-" + string(role), StateDir: s.t.TempDir(), StartTimeout: 10 * time.Second, DrainLimit: 10 * time.Second,
		HandoverListen: "127.0.0.1:0", HandoverBudget: 1 << 30, Measure: "never", // so that caches hold only what the test puts there
	}
	if o != nil {
		flags.EngineURL, flags.ShimRunDir = o.URL(), o.RunDir()
	}
	for _, f := range change {
		f(&flags)
	}
	w, err := app.StartWorker(s.t.Context(), app.WorkerConfig{Role: role, Flags: flags, Log: logTo(s.t)})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil {
			s.t.Errorf("%s worker: %v", role, err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	s.t.Cleanup(stop)
	return stop
}

// run submits a job and waits for its result.
func (s *system) run(j *jobs.Job) *jobs.Result {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	if err := s.client.Submit(ctx, j, queue.SubmitOptions{}); err != nil {
		s.t.Fatal(err)
	}
	r, err := s.client.Await(ctx, j.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func job(prompt string, shared int) *jobs.Job {
	return &jobs.Job{
		V: jobs.Version, ID: jobs.NewID(), User: "grader", Batch: "class", Class: jobs.Batch, Model: model, Prompt: prompt,
		SharedPrefix: shared, Options: jobs.Options{Temperature: new(0.0), NumPredict: new(8)}, SubmittedAt: time.Now().UTC(),
	}
}

// lines are of a program, about 18 tokens each with the stand-ins' vocabularies.
func lines(name string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s_%d <- sum(price[%d] * quantity[%d])\n", name, i, i, i)
	}
	return b.String()
}

// TestClass: what forty prompts share is computed once in each prefill slot and moves once to the decode machine, which computes a
// token or two of each.
func TestClass(t *testing.T) {
	const students, slots = 40, 2
	shapes := []tinymodel.Shape{tinymodel.GPTOSS}
	if whole() {
		shapes = tinymodel.Shapes()
	}
	for _, shape := range shapes {
		t.Run(string(shape), func(t *testing.T) {
			spec := tinymodel.TinyShape(shape, tinymodel.BPE)
			s := newSystem(t)
			for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
				o := standintest.StartOllama(t, standin.OllamaOptions{Models: map[string]tinymodel.Spec{model: spec}, NumParallel: slots})
				s.worker(role, o, slots)
			}
			class := "The rubric, the template and the solution:\n" + lines("total", 110)
			results := make([]*jobs.Result, students)
			var grader sync.WaitGroup
			for i := range students {
				own := fmt.Sprintf("Student %d wrote:\n%s", i, lines(fmt.Sprintf("own%d", i), 17+i*34/students))
				grader.Go(func() { results[i] = s.run(job(class+own, len(class))) })
			}
			grader.Wait()

			alone := s.run(job(class, 0))
			prefix := alone.Usage.PromptTokens
			header, err := gguf.Read(standintest.ModelFile(t, spec))
			if err != nil {
				t.Fatal(err)
			}
			perToken, _ := header.StateBytes("f16", "f16")
			prefixBytes := (perToken - 16) * int64(prefix) // the rows; 16 bytes say of a token which it is and where, and are each state's own
			computed, own, states, moved, ownBytes := 0, 0, int64(0), int64(0), int64(0)
			for i, r := range results {
				u := r.Usage
				if r.Status != jobs.Succeeded || r.Method != jobs.MethodDisaggregated || u.HandedOver != u.PromptTokens-1 || u.DecodeComputed > 2 {
					t.Errorf("student %d: %s by %s, %d of %d prompt tokens handed over, %d computed on the decode machine; %s; warnings %q",
						i, r.Status, r.Method, u.HandedOver, u.PromptTokens, u.DecodeComputed, r.Decision, r.Warnings)
				}
				computed += u.PrefillComputed
				own += u.PromptTokens - prefix
				if h := r.Handover; h != nil {
					states, moved, ownBytes = states+h.Bytes, moved+h.MovedBytes, ownBytes+h.Bytes-prefixBytes
				}
			}
			limit := 1.1 * float64(slots*prefix+own)
			t.Logf("%d jobs, prefix %d tokens, own parts %d: the prefill engine computed %d, %.3f × (prefix once per slot + own parts)", students, prefix, own, computed, float64(computed)/float64(slots*prefix+own))
			if float64(computed) > limit {
				t.Errorf("the prefill engine computed %d tokens; want at most %.0f", computed, limit)
			}
			least := float64(prefixBytes + ownBytes)
			t.Logf("states of %d bytes, prefix %d, own parts %d: %d bytes moved, %.3f × (prefix once + own parts)", states, prefixBytes, ownBytes, moved, float64(moved)/least)
			if float64(moved) > 1.1*least {
				t.Errorf("%d bytes of the states moved; want at most %.0f", moved, 1.1*least)
			}
		})
	}
}
