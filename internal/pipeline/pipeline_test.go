package pipeline_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/engine"
	"tandem/internal/pipeline"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// scripted is an engine whose answers the test writes down.
type scripted struct {
	engine.Engine
	prefilled  engine.Prefilled
	completion engine.Completion
	err        error
	logprobs   []jobs.TokenLogprob
	calls      []string
	from       engine.Prefilled
	wait       bool // until the context ends

	exported  bool                    // Prefill was asked for a state
	there     bool                    // the file of the state was there when Decode was called
	decodeErr *protocol.HandoverError // of Decode, instead of a text
	sampled   bool                    // Decode was asked to compute the prompt, too
	differs   bool                    // and finds another prediction then
}

func (s *scripted) Prefill(ctx context.Context, req engine.Request) (engine.Prefilled, error) {
	s.calls, s.exported = append(s.calls, "prefill"), req.Export
	return s.prefilled, s.end(ctx)
}

func (s *scripted) Decode(ctx context.Context, req engine.Request, from engine.Prefilled, emit engine.Emit) (engine.Completion, error) {
	s.calls, s.from, s.sampled = append(s.calls, "decode"), from, req.Sample
	if s.sampled && s.differs {
		return engine.Completion{}, protocol.HandoverErrorf(jobs.FailDiffer, "differs by 0.4")
	}
	if from.State != nil {
		_, err := os.Stat(from.State.Path)
		s.there = err == nil
	}
	if s.decodeErr != nil {
		_ = s.end(ctx) // the wait, if there is one
		return engine.Completion{}, s.decodeErr
	}
	if i := s.completion.Imported; i != nil && req.Restored != nil {
		req.Restored(i.Restored)
	}
	return s.completion, errors.Join(emit(jobs.Chunk{Text: "a"}), s.end(ctx))
}

func (s *scripted) Generate(ctx context.Context, _ engine.Request, emit engine.Emit) (engine.Completion, error) {
	s.calls = append(s.calls, "generate")
	return s.completion, errors.Join(emit(jobs.Chunk{Text: "a", Logprobs: s.logprobs}), s.end(ctx))
}

func (s *scripted) end(ctx context.Context) error {
	if s.wait {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.err
}

func stageOf(e engine.Engine) *pipeline.Stage {
	return pipeline.New(pipeline.Config{
		Engine: e, Server: "here/w", Rates: &engine.Rates{}, Log: slog.New(slog.DiscardHandler),
		About: func() engine.Description {
			return engine.Description{Engine: "scripted", Version: "1", ModelDigest: "d"}
		},
	})
}

func task(stage jobs.Stage, plan jobs.Plan, h *jobs.Handover) (*protocol.Task, *strings.Builder) {
	j := &jobs.Job{
		V: jobs.Version, ID: jobs.NewID(), User: "u", Batch: jobs.SingleBatch, Class: jobs.Interactive,
		Model: "m:latest", Prompt: "x <- 1", Plan: plan,
	}
	if h != nil {
		h.V, h.Job, h.Stage = jobs.Version, *j, stage
	}
	var text strings.Builder
	return &protocol.Task{
		Stage: stage, Job: j, Handover: h, Attempt: 1, Waited: 2 * time.Second,
		Progress: func() {}, Expect: func(time.Duration) {}, Emit: func(piece jobs.Chunk) { text.WriteString(piece.Text) }, Event: func(jobs.Event) {},
		SinceAccepted: func() time.Duration { return 5 * time.Second },
	}, &text
}

func TestPrefillHandsOver(t *testing.T) {
	e := &scripted{prefilled: engine.Prefilled{
		Kind: jobs.KindContext, Context: []int{1, 2}, FirstToken: "y", PromptTokens: 10, CachedTokens: 4, ComputedTokens: 6,
		Duration: 3 * time.Second, ModelDigest: "d",
	}}
	tk, _ := task(jobs.StagePrefill, "", nil)
	s := stageOf(e)
	o, err := s.Run(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	if o.Result != nil {
		t.Errorf("prefill made a result: %+v", o.Result)
	}
	// Until it is published others hear that it is on its way, or they would believe that decode has nothing to do.
	if got, want := s.Running(), []protocol.Running{{HandsOver: true, Ahead: true}}; !slices.Equal(got, want) {
		t.Errorf("before it was published it runs as %+v, want %+v", got, want)
	}
	if o.Settled(true); len(s.Running()) != 0 {
		t.Errorf("after it was published it runs as %+v", s.Running())
	}
	want := &jobs.Prefill{Server: "here/w", QueueSeconds: 2, Seconds: 3, PromptTokens: 10, CachedTokens: 4, ComputedTokens: 6, ModelDigest: "d"}
	if diff := cmp.Diff(want, o.Next.Prefill); diff != "" {
		t.Errorf("prefill report (-want +got):\n%s", diff)
	}
	if o.Next.Stage != jobs.StageDecode || o.Next.Kind != jobs.KindContext || !strings.Contains(o.Next.Decision, "nothing was saved") {
		t.Errorf("hand-over: stage %s, kind %s, decision %q", o.Next.Stage, o.Next.Kind, o.Next.Decision)
	}
	if _, err := jobs.Encode(o.Next); err != nil {
		t.Errorf("the hand-over is not valid: %v", err)
	}
}

func TestPlanLocal(t *testing.T) {
	e := &scripted{completion: engine.Completion{Text: "a", PromptTokens: 7, ComputedTokens: 7}}
	tk, _ := task(jobs.StagePrefill, jobs.PlanLocal, nil)
	o, err := stageOf(e).Run(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.calls) != 0 || o.Next == nil || o.Next.Prefill != nil {
		t.Fatalf("computed on the prefill machine: calls %v, next %+v", e.calls, o.Next)
	}
	o.Next.Attempts = 2
	tk, text := task(jobs.StageDecode, jobs.PlanLocal, o.Next)
	o, err = stageOf(e).Run(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	r := o.Result
	if r.Method != jobs.MethodLocal || len(r.Warnings) != 0 || !strings.HasPrefix(r.Decision, "local") {
		t.Errorf("method %s, warnings %q, decision %q; want local without a warning", r.Method, r.Warnings, r.Decision)
	}
	if r.Attempts.Prefill != 2 || r.Attempts.Decode != 1 {
		t.Errorf("attempts %+v: those of the prefill worker that sent it on are missing", r.Attempts)
	}
	if text.String() != "a" {
		t.Errorf("streamed %q, want a", text)
	}
}

func TestDecodeReportsBothSides(t *testing.T) {
	e := &scripted{completion: engine.Completion{
		Text: "a", FinishReason: "stop", PromptTokens: 10, CachedTokens: 1, ComputedTokens: 9, GeneratedTokens: 4,
		PrefillDuration: time.Second, DecodeDuration: 2 * time.Second, FirstToken: 1100 * time.Millisecond, Warnings: []string{"w"},
	}}
	tk, _ := task(jobs.StageDecode, "", &jobs.Handover{
		Kind: jobs.KindContext, Context: []int{5}, FirstToken: "y", Attempts: 2, Decision: "because",
		Prefill: &jobs.Prefill{Server: "there/p", QueueSeconds: 1, Seconds: 3, PromptTokens: 10, CachedTokens: 4, ComputedTokens: 6},
	})
	tk.Transfer = 1500 * time.Millisecond
	o, err := stageOf(e).Run(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{5}, e.from.Context); diff != "" || e.from.FirstToken != "y" {
		t.Errorf("the engine got context %v and first token %q", e.from.Context, e.from.FirstToken)
	}
	r := o.Result
	r.FinishedAt = time.Time{}
	want := jobs.NewResult(tk.Job, jobs.Succeeded)
	want.FinishedAt = time.Time{}
	want.Text, want.FinishReason, want.Method, want.Decision = "a", "stop", jobs.MethodDisaggregated, "because"
	want.Warnings = []string{"w", "Slow context transfer: 1.5 s"}
	want.Usage = jobs.Usage{PromptTokens: 10, PrefillCached: 4, PrefillComputed: 6, DecodeCached: 1, DecodeComputed: 9, GeneratedTokens: 4}
	want.Timings = jobs.Timings{
		QueuePrefillSeconds: 1, QueueDecodeSeconds: 2, PrefillSeconds: 3, PrefillTokensPerSecond: 2, TransferSeconds: 1.5,
		DecodePrefillSeconds: 1, DecodeSeconds: 2, DecodeTokensPerSecond: 2, TimeToFirstTokenSeconds: 1.1, TotalSeconds: 5,
	}
	want.Servers = jobs.Servers{Prefill: "there/p", Decode: "here/w"}
	want.Attempts = jobs.Attempts{Prefill: 2, Decode: 1}
	want.Provenance.ModelDigest, want.Provenance.Engine, want.Provenance.EngineVersion = "d", "scripted", "1"
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func TestFallbackWarns(t *testing.T) {
	for name, h := range map[string]*jobs.Handover{
		"from the intake":      nil,
		"after a failed stage": {Reason: "prefill failed twice", Attempts: 2},
	} {
		t.Run(name, func(t *testing.T) {
			tk, _ := task(jobs.StageFallback, "", h)
			o, err := stageOf(&scripted{completion: engine.Completion{Text: "a"}}).Run(t.Context(), tk)
			if err != nil {
				t.Fatal(err)
			}
			r := o.Result
			if r.Method != jobs.MethodFallback || len(r.Warnings) != 1 || r.Warnings[0] != "Using fallback mode - slower performance" {
				t.Errorf("method %s, warnings %q", r.Method, r.Warnings)
			}
			if h != nil && (!strings.Contains(r.Decision, h.Reason) || r.Attempts.Prefill != 2) {
				t.Errorf("decision %q, prefill attempts %d; want the reason and 2", r.Decision, r.Attempts.Prefill)
			}
		})
	}
}

// Who asks for logprobs gets them, or is told why not.
func TestLogprobs(t *testing.T) {
	many := make([]jobs.TokenLogprob, 2000)
	for i := range many {
		many[i].Top = make([]jobs.TokenLogprob, 100)
	}
	for name, tt := range map[string]struct {
		said []jobs.TokenLogprob
		want string
	}{
		"some": {[]jobs.TokenLogprob{{Token: "a", Logprob: -1}}, ""}, "none": {nil, "the engine says none"}, "too many": {many, "ask for fewer top_logprobs"},
	} {
		t.Run(name, func(t *testing.T) {
			tk, _ := task(jobs.StageFallback, "", nil)
			tk.Job.Logprobs = true
			_, err := stageOf(&scripted{logprobs: tt.said, completion: engine.Completion{Text: "a", Logprobs: tt.said}}).Run(t.Context(), tk)
			if refused := jobs.CodeOf(err) == jobs.CodeEngineRefused && strings.Contains(err.Error(), tt.want); refused != (tt.want != "") || !refused && err != nil {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// A prompt may take long, but no engine is waited for for ever.
func TestExpectedSilence(t *testing.T) {
	for bytes, want := range map[int]time.Duration{10: 30 * time.Second, 3000: 2 * time.Minute, 4 << 20: 15 * time.Minute} {
		tk, _ := task(jobs.StageFallback, "", nil)
		tk.Job.Prompt = strings.Repeat("a", bytes)
		var got time.Duration
		tk.Expect = func(d time.Duration) { got = d }
		if _, err := stageOf(&scripted{}).Run(t.Context(), tk); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%d bytes may take %v, want %v", bytes, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	broken := jobs.Errorf(jobs.CodeEngineFailed, "broken")
	for _, stage := range []jobs.Stage{jobs.StagePrefill, jobs.StageDecode, jobs.StageFallback} {
		t.Run(string(stage), func(t *testing.T) {
			tk, _ := task(stage, "", nil)
			if _, err := stageOf(&scripted{err: broken}).Run(t.Context(), tk); !errors.Is(err, broken) {
				t.Errorf("error %v, want the engine's", err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(jobs.ErrCancelled)
			if _, err := stageOf(&scripted{wait: true}).Run(ctx, tk); !errors.Is(err, jobs.ErrCancelled) {
				t.Errorf("error %v after cancellation, want its cause", err)
			}
		})
	}
}
