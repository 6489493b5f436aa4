package pipeline_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/engine"
	"tandem/internal/pipeline"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// embedding is an engine that makes the embeddings of its completion.
type embedding struct{ *scripted }

func (e embedding) Embed(_ context.Context, req engine.Request) (engine.Completion, error) {
	e.calls = append(e.calls, req.Embed.Input...)
	return e.completion, e.err
}

// embedTask is a job for the embeddings of one text.
func embedTask(stage jobs.Stage) *protocol.Task {
	tk, _ := task(stage, jobs.PlanLocal, nil)
	tk.Job.Prompt, tk.Job.Embed = "", &jobs.Embed{Input: []string{"ships"}}
	return tk
}

// Embeddings are made on the decode machine, and show nothing of how fast it generates.
func TestEmbed(t *testing.T) {
	vectors := [][]float32{{0.6, -0.8}}
	e := embedding{&scripted{completion: engine.Completion{Embeddings: vectors, FinishReason: "stop", PromptTokens: 700, ComputedTokens: 700, PrefillDuration: time.Second}}}
	var rates engine.Rates
	s := pipeline.New(pipeline.Config{Engine: e, Server: "here/w", Rates: &rates, Log: slog.New(slog.DiscardHandler)})
	o, err := s.Run(t.Context(), embedTask(jobs.StagePrefill))
	if err != nil || o.Next == nil || o.Next.Prefill != nil || len(e.calls) > 0 {
		t.Fatalf("at prefill: %+v, %v after %q; want it to be sent on to decode", o.Next, err, e.calls)
	}
	for stage, method := range map[jobs.Stage]jobs.Method{jobs.StageDecode: jobs.MethodLocal, jobs.StageFallback: jobs.MethodFallback} {
		o, err = s.Run(t.Context(), embedTask(stage))
		if err != nil {
			t.Fatal(err)
		}
		r := o.Result
		if cmp.Diff(vectors, r.Embeddings) != "" || r.Method != method || r.FinishReason != "stop" || r.Usage.PromptTokens != 700 || r.Usage.GeneratedTokens != 0 || r.Timings.PrefillSeconds != 1 || r.Servers.Decode != "here/w" {
			t.Errorf("at %s: %+v", stage, r)
		}
		if _, err := jobs.Encode(r); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(protocol.Rates{}, rates.Snapshot()); diff != "" {
		t.Errorf("the rates have changed:\n%s", diff)
	}

	// More than a result can hold, and an engine that has none.
	e.completion.Embeddings = make([][]float32, jobs.MaxInputs)
	for i := range e.completion.Embeddings {
		e.completion.Embeddings[i] = make([]float32, 1024)
		for n := range e.completion.Embeddings[i] {
			e.completion.Embeddings[i][n] = 0.12345678
		}
	}
	if _, err := s.Run(t.Context(), embedTask(jobs.StageDecode)); !errors.Is(err, engine.ErrTooManyEmbeddings) || protocol.Classify(err) != protocol.Permanent {
		t.Errorf("embeddings of 16 MB: %v, want %v", err, engine.ErrTooManyEmbeddings)
	}
	if _, err := stageOf(e.scripted).Run(t.Context(), embedTask(jobs.StageDecode)); jobs.CodeOf(err) != jobs.CodeEngineRefused || protocol.Classify(err) != protocol.Permanent {
		t.Errorf("an engine without embeddings: %v, want %s", err, jobs.CodeEngineRefused)
	}
}
