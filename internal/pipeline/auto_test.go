package pipeline_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
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

// estimating is an engine that knows its cache.
type estimating struct {
	*scripted
	estimate engine.Estimate
	err      error
}

func (e estimating) Estimate(context.Context, engine.Request) (engine.Estimate, error) {
	return e.estimate, e.err
}

// pair is a prefill stage and what it knows of the decode worker. Prompts are of a byte a token; the prefill machine computes 4,000
// of them a second and generates 50, the decode machine 1,000 and 100. The link carries 1 GB/s.
type pair struct {
	*rig
	rates    engine.Rates
	peers    []engine.Peer
	decoding int
	estimate engine.Estimate
	noEngine error // of Estimate
}

func newPair(t *testing.T) *pair {
	p := &pair{rig: newRig(t)}
	var there engine.Rates
	for _, n := range []int{8000, 16000} { // so that they are equal between
		p.rates.ObservePrefill(n, n, n, 1, time.Duration(n)*time.Second/4000)
		p.rates.ObserveDecode(n, 50, 1, time.Second)
		there.ObservePrefill(n, n, n, 1, time.Duration(n)*time.Second/1000)
		there.ObserveDecode(n, 1200, 1, 12*time.Second)
		there.ObserveAnswer("", -1, 1200)
	}
	p.rates.ObserveSave(8000, 800e6, 0, 200*time.Millisecond)
	there.ObserveLink("here", 1e9, time.Second)
	there.ObserveRestore(1e9, 250*time.Millisecond, 20*time.Millisecond)
	there.ObserveJob(15 * time.Second)
	p.peers = []engine.Peer{{Worker: "d", Role: protocol.RoleDecode, Machine: "there", Slots: 2, Rates: there.Snapshot()}}
	p.engine.completion = engine.Completion{
		Text: "a", FinishReason: "stop", PromptTokens: 8000, CachedTokens: 1000, ComputedTokens: 7000, GeneratedTokens: 100,
		PrefillDuration: 1750 * time.Millisecond, DecodeDuration: 2 * time.Second, FirstToken: 2 * time.Second,
	}
	p.engine.prefilled = p.saved(t)
	p.estimate = engine.Estimate{PromptTokens: 8000}
	return p
}

// run runs a job of plan auto.
func (p *pair) run(t *testing.T, change func(j *jobs.Job)) protocol.Outcome {
	t.Helper()
	stage := pipeline.New(pipeline.Config{
		Engine: estimating{p.engine, p.estimate, p.noEngine}, Server: "here/w", Rates: &p.rates, Log: slog.New(slog.DiscardHandler),
		About: func() engine.Description { return p.about }, Holder: p.holder,
		Role: protocol.RolePrefill, Workers: func() []engine.Peer { return p.peers }, Decoding: func() int { return p.decoding },
	})
	tk, _ := task(jobs.StagePrefill, jobs.PlanAuto, nil)
	tk.Job.Prompt = strings.Repeat("x", 8000)
	if change != nil {
		change(tk.Job)
	}
	o, err := stage.Run(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	if o.Next != nil {
		if _, err := jobs.Encode(o.Next); err != nil {
			t.Errorf("the hand-over is not valid: %v", err)
		}
	}
	return o
}

func TestAuto(t *testing.T) {
	const here, there, both = "generate", "", "prefill" // what is asked of the prefill engine
	for _, tt := range []struct {
		name   string
		change func(p *pair)
		job    func(j *jobs.Job)
		want   string
		line   string
	}{
		{"hands over", func(*pair) {}, nil, both, "hand over: saves 4.8 s of 8.0 s (8,000 tokens uncached, state 800 MB, link 1.0 GB/s)"},
		{"by the length of the text, if the engine cannot say", func(p *pair) { p.noEngine = errors.New("loading") }, nil, both, "hand over: saves 4.8 s of 8.0 s (8,000 tokens"},
		{"a slow link", func(p *pair) { p.peers[0].Rates.LinkBytesPerSecond = map[string]float64{"here": 5e7, "elsewhere": 1e9} }, nil, there, "re-prefill: 8,000 tokens uncached, hand-over would cost 10.4 s more (link 50 MB/s)"},
		{"a short prompt", func(p *pair) { p.estimate.PromptTokens = 100 }, nil, there, "re-prefill: 100 tokens uncached, hand-over would save no more than"},
		{"cached here", func(p *pair) { p.estimate.CachedTokens = 8000 }, nil, both, "hand over: saves 6.8 s of 8.0 s"},
		{
			"cached there", func(p *pair) {
				p.peers[0].Prefixes = map[string]int{engine.PrefixKey(engine.Request{Prompt: strings.Repeat("x", 8000), SharedPrefix: 7000}): 6800}
			}, func(j *jobs.Job) { j.SharedPrefix = 7000 }, there, "re-prefill: 1,200 tokens uncached, hand-over would cost",
		},
		{
			"another prefix cached there", func(p *pair) { p.peers[0].Prefixes = map[string]int{"0011223344556677": 7999, "": 7999} },
			func(j *jobs.Job) { j.SharedPrefix = 7000 }, both, "hand over: saves",
		},
		{"a short answer over a slow link", func(p *pair) { p.peers[0].Rates.LinkBytesPerSecond["here"] = 5e7 }, func(j *jobs.Job) { j.Options.NumPredict = new(10) }, here,
			"whole on the prefill machine: 2.2 s, 5.9 s less than with the decode machine (8,000 tokens uncached on it, 8,000 there)"},
		{"a queue there", func(p *pair) { p.decoding = 6 }, nil, here, "whole on the prefill machine: 26.0 s, 20.8 s less"}, // (4 + 0.5) · 15 s / 2 slots
		{"slots free there", func(p *pair) { p.decoding = 1 }, nil, both, "hand over"},
		{"no decode worker", func(p *pair) { p.peers = nil }, nil, here, "whole on the prefill machine: 10.0 s, since there is no live decode machine"},
		{"the other engine differs", func(p *pair) { p.peers[0].NoStates = "the two engines differ: streams" }, nil, there, "re-prefill: 8,000 tokens uncached, no KV state can be handed over: the two engines differ: streams"},
		{"this engine moves none", func(p *pair) { p.about.KVTransfer, p.about.NoKVTransfer = nil, "no shim" }, nil, there, "re-prefill: 8,000 tokens uncached, no KV state can be handed over: the engine of the prefill machine moves no KV states: no shim"},
		{"the pair was stopped", func(p *pair) { p.peers[0].NoStates, p.peers[0].Failure = "there takes none", jobs.FailStopped }, nil, there, "re-prefill: 8,000 tokens uncached, no KV state can be handed over: there takes none"},
		{"no room for it", func(p *pair) { p.holder.budget = 10 }, nil, there, "re-prefill: 8,000 tokens uncached, no KV state can be handed over: the KV state of about"},
		{"the freer of two", func(p *pair) {
			p.peers = append(p.peers, p.peers[0])
			p.peers[0].NoStates, p.peers[0].Busy = "busy anyway", 2
		}, nil, both, "hand over"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t)
			tt.change(p)
			o := p.run(t, tt.job)
			if got := strings.Join(p.engine.calls, " "); got != tt.want {
				t.Errorf("asked the engine to %q, want %q", got, tt.want)
			}
			decision := ""
			switch {
			case o.Result != nil:
				decision = o.Result.Decision
			default:
				decision = o.Next.Decision
			}
			if !strings.HasPrefix(decision, tt.line) {
				t.Errorf("decision %q, want %q…", decision, tt.line)
			}
			if kind := map[string]jobs.Kind{both: jobs.KindState, there: jobs.KindNone}[tt.want]; o.Next != nil && o.Next.Kind != kind {
				t.Errorf("handed over %s, want %s", o.Next.Kind, kind)
			}
		})
	}
}

// A batch job that is done whole because of plan auto gives way to interactive jobs, wherever it came from; no other does.
func TestGivesWay(t *testing.T) {
	taken, fallback := &jobs.Handover{Kind: jobs.KindNone}, &jobs.Handover{}
	for _, tt := range []struct {
		name   string
		stage  jobs.Stage
		h      *jobs.Handover
		intake bool
		change func(*jobs.Job)
		want   bool
	}{
		{"of the intake", jobs.StageDecode, taken, true, func(*jobs.Job) {}, true},
		{"sent on by a prefill worker", jobs.StageDecode, taken, false, func(*jobs.Job) {}, true},
		{"of plan local", jobs.StageDecode, taken, true, func(j *jobs.Job) { j.Plan = jobs.PlanLocal }, false},
		{"interactive", jobs.StageDecode, taken, true, func(j *jobs.Job) { j.Class = jobs.Interactive }, false},
		{"fallback", jobs.StageFallback, fallback, false, func(*jobs.Job) {}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tk, _ := task(tt.stage, jobs.PlanAuto, tt.h)
			tk.Job.Class, tk.Intake = jobs.Batch, tt.intake
			tt.change(tk.Job)
			yields := false
			tk.Yields = func() { yields = true }
			e := &scripted{completion: engine.Completion{Text: "a", PromptTokens: 7, ComputedTokens: 7}}
			if _, err := stageOf(e).Run(t.Context(), tk); err != nil {
				t.Fatal(err)
			}
			if yields != tt.want {
				t.Errorf("gives way: %v, want %v", yields, tt.want)
			}
		})
	}
}

func TestWholeOnThePrefillMachine(t *testing.T) {
	p := newPair(t)
	p.decoding = 20
	o := p.run(t, nil)
	if o.Next != nil {
		t.Fatalf("passed on: %+v", o.Next)
	}
	r := o.Result
	want := jobs.Usage{PromptTokens: 8000, PrefillCached: 1000, PrefillComputed: 7000, GeneratedTokens: 100}
	if diff := cmp.Diff(want, r.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if r.Method != jobs.MethodLocal || r.Status != jobs.Succeeded || r.Text != "a" || len(r.Warnings) > 0 || r.Handover != nil {
		t.Errorf("result %+v", r)
	}
	if r.Servers.Prefill != "here/w" || r.Servers.Decode != "here/w" || r.Attempts.Prefill != 1 || r.Attempts.Decode != 0 {
		t.Errorf("servers %+v, attempts %+v", r.Servers, r.Attempts)
	}
	if times := r.Timings; times.QueuePrefillSeconds != 2 || times.QueueDecodeSeconds != 0 || times.PrefillSeconds != 1.75 || times.TotalSeconds != 5 {
		t.Errorf("timings %+v", times)
	}
	if _, err := jobs.Encode(r); err != nil {
		t.Error(err)
	}
}

// The decision of a hand-over stands before what came of it, also if the prompt was computed again.
func TestDecisionOfAHandover(t *testing.T) {
	p := newPair(t)
	o := p.run(t, nil)
	for want, failed := range map[string]*protocol.HandoverError{
		"link 1.0 GB/s): 2,037 prompt tokens handed over":                              nil,
		"link 1.0 GB/s): re-prefilled on the decode machine, because the file is gone": protocol.HandoverErrorf(jobs.FailRestore, "the file is gone"),
	} {
		r := newRig(t)
		r.engine.completion, r.engine.decodeErr = imported, failed
		tk, _ := task(jobs.StageDecode, jobs.PlanAuto, o.Next)
		got, err := r.Run(t.Context(), tk)
		if err != nil {
			t.Fatal(err)
		}
		if d := got.Result.Decision; !strings.HasPrefix(d, "hand over: saves 4.8 s of 8.0 s") || !strings.Contains(d, want) {
			t.Errorf("decision %q, want %q in it", d, want)
		}
	}
}

// What the stages see is what the next decisions go by.
func TestStagesMeasure(t *testing.T) {
	r := newRig(t)
	var rates engine.Rates
	prefixes := engine.NewPrefixes(1)
	newStage := func() *pipeline.Stage {
		return pipeline.New(pipeline.Config{
			Engine: r.engine, Server: "there/w", Rates: &rates, Log: slog.New(slog.DiscardHandler), About: func() engine.Description { return r.about },
			Holder: r.holder, Fetcher: r.fetcher, Pairs: r.pairs, Prefixes: prefixes,
		})
	}
	stage := newStage()
	run := func(s jobs.Stage, h *jobs.Handover, completion engine.Completion) {
		t.Helper()
		r.engine.completion = completion
		tk, _ := task(s, "", h)
		tk.Job.Prompt, tk.Job.SharedPrefix = strings.Repeat("x", 4000), 2000
		if h != nil {
			h.Job = *tk.Job
		}
		if _, err := stage.Run(t.Context(), tk); err != nil {
			t.Fatal(err)
		}
	}

	saved := r.saved(t)
	saved.State.Bytes, saved.State.Saved = 2038e5+1000, 100*time.Millisecond
	saved.State.Tokens = 2038
	r.engine.prefilled = saved
	run(jobs.StagePrefill, nil, engine.Completion{})
	if held, _ := prefixes.Held(); !slices.Equal(slices.Collect(maps.Values(held)), []int{1019}) {
		t.Errorf("held prefixes %v, want one of 1,019 tokens, which was computed by itself", held)
	}
	prefixes = engine.NewPrefixes(1)
	stage = newStage()
	run(jobs.StageDecode, handedOver(), engine.Completion{
		Text: "a", PromptTokens: 2038, CachedTokens: 2037, ComputedTokens: 1, GeneratedTokens: 100, DecodeDuration: 2 * time.Second,
		Imported: &engine.Imported{Tokens: 2037, Restored: 50 * time.Millisecond, Checked: 5 * time.Millisecond},
	})
	if held, _ := prefixes.Held(); held != nil {
		t.Errorf("a state that was handed over shows %v cached", held)
	}
	local := engine.Completion{
		Text: "a", PromptTokens: 2000, CachedTokens: 990, ComputedTokens: 1010, GeneratedTokens: 100, DecodeDuration: 2 * time.Second, PrefillDuration: time.Second,
	}
	run(jobs.StageDecode, &jobs.Handover{Kind: jobs.KindNone}, local)
	if held, _ := prefixes.Held(); len(held) != 1 || !slices.Contains(slices.Collect(maps.Values(held)), 990) {
		t.Errorf("held prefixes %v, want one of 990 tokens", held)
	}
	got := rates.Snapshot()
	if got.JobSeconds <= 0 {
		t.Errorf("a job keeps a slot for %v s", got.JobSeconds)
	}
	got.JobSeconds = 0
	perToken := 4000.0/2038 + (2-4000.0/2038)/5
	want := protocol.Rates{
		PrefillTokensPerSecond: 1038 + (1010-1038)/5.0, DecodeTokensPerSecond: 49.5,
		PrefillByLength: map[string]float64{"4k": 1038 + (1010-1038)/5.0}, PrefillTokensByLength: map[string]float64{"4k": 3038 - (3038-2990)/5.0}, DecodeByLength: map[string]float64{"2k": 49.5},
		TokensByLength: map[string]float64{"2k": 2038 - 38/5.0}, PromptBytesPerToken: perToken, GeneratedTokens: 100, StateBytesPerToken: 1e5, StateFixedBytes: 1000, SaveBytesPerSecond: 2038010000,
		RestoreBytesPerSecond: 4e9, CheckSeconds: 0.005, LinkBytesPerSecond: map[string]float64{"spark/1": 2.5e9},
	}
	near := cmp.Comparer(func(a, b float64) bool { return a-b <= 1e-6*a && b-a <= 1e-6*a })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Errorf("measured (-want +got):\n%s", diff)
	}
}
