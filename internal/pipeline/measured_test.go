package pipeline_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/engine"
	"tandem/internal/pipeline"
	"tandem/jobs"
)

// taking is an engine whose requests take as long as their completion says, on the clock of a bubble.
type taking struct{ *scripted }

func (e taking) Generate(ctx context.Context, req engine.Request, emit engine.Emit) (engine.Completion, error) {
	<-time.After(e.completion.PrefillDuration + e.completion.DecodeDuration)
	return e.scripted.Generate(ctx, req, emit)
}

// What a job showed of its engine counts with how many slots were busy meanwhile, and its answer's length by its kind.
func TestBusySlotsAreMeasuredApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rates engine.Rates
		slots := engine.NewSlots(4)
		e := &scripted{completion: engine.Completion{
			Text: "a", PromptTokens: 2000, ComputedTokens: 2000, GeneratedTokens: 101, PrefillDuration: time.Second, DecodeDuration: 2 * time.Second,
		}}
		stage := pipeline.New(pipeline.Config{
			Engine: taking{e}, Server: "here/w", Rates: &rates, Slots: slots, Log: slog.New(slog.DiscardHandler),
			About: func() engine.Description { return engine.Description{} },
		})
		run := func() {
			release, err := slots.Acquire(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			tk, _ := task(jobs.StageDecode, "", &jobs.Handover{Kind: jobs.KindNone})
			tk.Job.Labels = map[string]string{jobs.LabelKind: "code"}
			if _, err := stage.Run(t.Context(), tk); err != nil {
				t.Error(err)
			}
		}
		run()
		alone := rates.Snapshot()
		if alone.PrefillByLength["2k"] != 2000 || alone.DecodeByLength["2k"] != 50 || alone.DecodeByBusy != nil {
			t.Errorf("alone: %+v", alone)
		}
		if k := alone.GeneratedByKind; len(k) != 1 || k[0].Kind != "code" || k[0].Tokens != 101 {
			t.Errorf("answers by kind: %+v", k)
		}
		var others []func()
		for range 3 {
			release, err := slots.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			others = append(others, release)
		}
		time.AfterFunc(time.Second, others[0]) // as the prompt is computed: four, then three
		e.completion.PrefillDuration, e.completion.DecodeDuration = 2*time.Second, 4*time.Second
		run()
		now := rates.Snapshot()
		if now.DecodeByLength["2k"] != 50 || now.DecodeByBusy["4"] != 0.5 || now.PrefillByLength["2k"] != 2000 {
			t.Errorf("beside others: %+v", now)
		}
	})
}

// Silence is expected for longer where more share the engine.
func TestStallLimitGrowsWithTheSlots(t *testing.T) {
	expected := func(slots int) (d time.Duration) {
		var rates engine.Rates
		rates.ObservePrefill(4*2896, 2896, 2896, 1, time.Minute)
		stage := pipeline.New(pipeline.Config{
			Engine: &scripted{}, Server: "here/w", Rates: &rates, Slots: engine.NewSlots(slots), Log: slog.New(slog.DiscardHandler),
			About: func() engine.Description { return engine.Description{} },
		})
		tk, _ := task(jobs.StagePrefill, "", nil)
		tk.Job.Prompt = string(make([]byte, 4*2896))
		tk.Expect = func(e time.Duration) { d = e }
		if _, err := stage.Run(t.Context(), tk); err != nil {
			t.Fatal(err)
		}
		return d
	}
	if one, four := expected(1), expected(4); one < 3*time.Minute || one > 4*time.Minute || four < 12*time.Minute || four > 15*time.Minute {
		t.Errorf("with one slot %v, with four %v; want about 3 and 12 minutes", one, four)
	}
}
