package pipeline_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// A state that ends the engine ends it once: the job is handed back while the engine starts again, which is not
// counted, so nothing else would keep it from going round for ever.
func TestStateThatEndedTheEngineIsNotTriedAgain(t *testing.T) {
	r := newRig(t)
	r.engine.decodeErr = protocol.HandoverErrorf(jobs.FailRestore, "restore the state: connection lost")
	r.engine.err = jobs.Errorf(jobs.CodeEngineBusy, "llama-server is being restarted")
	tk, _ := task(jobs.StageDecode, "", handedOver())
	if _, err := r.Run(t.Context(), tk); !errors.Is(err, r.engine.err) {
		t.Fatalf("error %v; want that the engine starts again", err)
	}

	r.engine.err, r.engine.calls, r.fetcher.fetched = nil, nil, nil
	r.engine.completion = engine.Completion{Text: "a", FinishReason: "stop", PromptTokens: 2038, ComputedTokens: 2038}
	o, err := r.Run(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.engine.calls, []string{"generate"}) || len(r.fetcher.fetched) != 0 {
		t.Errorf("calls %v, fetched %v; want the prompt computed here", r.engine.calls, r.fetcher.fetched)
	}
	if h := o.Result.Handover; h.Failure != jobs.FailRestore || !strings.Contains(h.Message, "not given it again") {
		t.Errorf("report %+v", h)
	}

	// The state of another job, and one that could not be fetched while the engine was away, are none the worse.
	other, _ := task(jobs.StageDecode, "", handedOver())
	r.fetcher.err, r.engine.err = protocol.HandoverErrorf(jobs.FailUnreachable, "away"), jobs.Errorf(jobs.CodeEngineBusy, "loading")
	if _, err := r.Run(t.Context(), other); !errors.Is(err, r.engine.err) {
		t.Fatalf("error %v", err)
	}
	r.fetcher.err, r.engine.err, r.engine.decodeErr, r.engine.completion = nil, nil, nil, imported
	if o, err = r.Run(t.Context(), other); err != nil || o.Result.Usage.HandedOver != 2037 {
		t.Errorf("error %v, outcome %+v; want the state used", err, o)
	}
}

// The last attempt does without the state: a worker that died twice while it had it might die again, and the job with it.
func TestLastAttemptDoesWithoutTheState(t *testing.T) {
	for attempt, want := range map[int]string{1: "decode", 2: "decode", 3: "generate"} {
		r := newRig(t)
		r.engine.completion = imported
		if want == "generate" {
			r.engine.completion.Imported = nil
		}
		tk, _ := task(jobs.StageDecode, "", handedOver())
		tk.Attempt = attempt
		o, err := r.Run(t.Context(), tk)
		if err != nil || !slices.Equal(r.engine.calls, []string{want}) {
			t.Errorf("attempt %d: error %v, calls %v; want %s", attempt, err, r.engine.calls, want)
			continue
		}
		if (o.Result.Handover.Failure == jobs.FailRestore) != (want == "generate") {
			t.Errorf("attempt %d: report %+v", attempt, o.Result.Handover)
		}
	}
}
