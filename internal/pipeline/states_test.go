package pipeline_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/engine"
	"tandem/internal/handover"
	"tandem/internal/pipeline"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// holder is a prefill worker's server of states whose answers the test writes down.
type holder struct {
	budget  int64
	err     error // of Offer
	state   jobs.State
	offered []string // paths
	rows    []protocol.Span
	told    []string // "published <job>", "released <job>" or "<job> passed to <job>"
	lost    bool     // there is nothing to pass
}

func (h *holder) Fits(bytes int64) bool { return bytes <= h.budget }

func (h *holder) Offer(_, path string, rows ...protocol.Span) (jobs.State, error) {
	if h.err != nil {
		return jobs.State{}, h.err
	}
	h.offered, h.rows = append(h.offered, path), rows
	return h.state, nil
}

func (h *holder) Published(id string) { h.told = append(h.told, "published "+id) }
func (h *holder) Release(id string)   { h.told = append(h.told, "released "+id) }

func (h *holder) Pass(from, to string) bool {
	h.told = append(h.told, from+" passed to "+to)
	return !h.lost
}

// fetcher writes a file as a client does, or fails.
type fetcher struct {
	err     error
	took    time.Duration
	wait    bool // until the context ends
	change  func(*handover.Fetched)
	fetched []string
	done    int
	holds   map[string]bool // names of rows
}

func (f *fetcher) Fetch(ctx context.Context, s *jobs.State, dir, prefix string, progress func()) (handover.Fetched, error) {
	if f.wait {
		<-ctx.Done()
		return handover.Fetched{}, context.Cause(ctx)
	}
	if f.err != nil {
		return handover.Fetched{}, f.err
	}
	progress()
	path := filepath.Join(dir, prefix+"fetched.kv")
	f.fetched = append(f.fetched, path)
	got := handover.Fetched{Path: path, Bytes: s.Bytes, Moved: s.Bytes, Duration: f.took}
	if f.change != nil {
		f.change(&got)
	}
	return got, os.WriteFile(path, []byte("state"), 0o600)
}

func (f *fetcher) Holds(rows string) bool { return f.holds[rows] }

func (f *fetcher) Done(ctx context.Context, _ *jobs.State) error {
	if _, ok := ctx.Deadline(); !ok {
		return errors.New("may wait for ever")
	}
	f.done++
	return ctx.Err()
}

// counted is what is told of KV states.
type counted struct {
	saved []time.Duration
	ended []jobs.Failure // "" for one that was used
	bytes int64
	types []jobs.EventType

	rebuilt, failed bool
}

func (c *counted) event(e jobs.Event) {
	c.types = append(c.types, e.Type)
	switch e.Type {
	case jobs.EventSaved:
		c.saved = append(c.saved, time.Duration(e.Seconds*float64(time.Second)))
	case jobs.EventFetched:
		c.bytes += e.MovedBytes
		c.rebuilt, c.failed = c.rebuilt || e.Rebuilt, c.failed || e.RebuildLost
	case jobs.EventRestored:
		c.ended = append(c.ended, "")
	case jobs.EventHandoverFailed:
		c.ended = append(c.ended, e.Failure)
	}
}

// Run has a task's events counted.
func (r *rig) Run(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
	t.Event = r.counted.event
	return r.Stage.Run(ctx, t)
}

var written = jobs.Fingerprint{Model: strings.Repeat("a", 64), Build: "b1", CacheK: "f16", CacheV: "f16", Streams: 1}

// rig is a stage of either side with all its parts.
type rig struct {
	*pipeline.Stage
	engine  *scripted
	engines string // as they are named
	strict  bool
	about   engine.Description
	holder  *holder
	fetcher *fetcher
	pairs   *pipeline.Pairs
	peers   []engine.Peer
	differs string // from the prefill engine
	counted counted
	rates   engine.Rates
	log     strings.Builder
	dir     string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{
		dir: dir, engine: &scripted{},
		about:   engine.Description{Engine: "scripted", KVTransfer: &engine.KVTransfer{Fingerprint: written, Dir: dir, Prefix: "p-", BytesPerToken: 100, FixedBytes: 1000}},
		holder:  &holder{budget: 1e9, state: jobs.State{URL: "http://192.0.2.1:1/state/00", Token: "s3cret", Bytes: 200e6}},
		fetcher: &fetcher{took: 80 * time.Millisecond},
	}
	log := slog.New(slog.NewTextHandler(&r.log, nil))
	var err error
	if r.pairs, err = pipeline.OpenPairs(filepath.Join(dir, "stopped.json"), log); err != nil {
		t.Fatal(err)
	}
	r.parts(r.engine, r.fetcher)
	return r
}

// takes is a decode worker that takes no states because of why.
func takes(why string, f jobs.Failure) engine.Peer {
	return engine.Peer{Role: protocol.RoleDecode, NoStates: why, Failure: f}
}

// parts puts an engine and a fetcher into the stage.
func (r *rig) parts(e engine.Engine, f pipeline.Fetcher) {
	r.Stage = pipeline.New(pipeline.Config{
		Engine: e, Server: "here/w", Rates: &r.rates, Log: slog.New(slog.NewTextHandler(&r.log, nil)), About: func() engine.Description { return r.about },
		Holder: r.holder, Workers: func() []engine.Peer { return r.peers }, Fetcher: f, Pairs: r.pairs, Differs: func(context.Context, string) string { return r.differs }, Engines: func(string) string { return r.engines }, Strict: r.strict, AheadBudget: 500e6,
	})
}

// files are those of states in the engine's folder.
func (r *rig) files(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(r.dir, "*.kv"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// saved is what an engine says that left a state.
func (r *rig) saved(t *testing.T) engine.Prefilled {
	t.Helper()
	path := filepath.Join(r.dir, "p-saved.kv")
	if err := os.WriteFile(path, []byte("state"), 0o600); err != nil {
		t.Fatal(err)
	}
	return engine.Prefilled{
		Kind: jobs.KindState, PromptTokens: 2038, CachedTokens: 1000, ComputedTokens: 1038, Duration: time.Second, ModelDigest: "d",
		State: &engine.StateFile{
			Path: path, Bytes: 5, Tokens: 2037, Fingerprint: written, First: []jobs.TokenProb{{ID: 7, LogProb: -0.5}}, Saved: 27 * time.Millisecond,
		},
	}
}

// handedOver is a decode task with a state.
func handedOver() *jobs.Handover {
	return &jobs.Handover{
		Kind: jobs.KindState, Attempts: 1, Decision: "disaggregated, as asked", Warnings: []string{"before"},
		State: &jobs.State{
			URL: "http://192.0.2.1:1/state/00", Token: "s3cret", Bytes: 200e6, Tokens: 2037, Fingerprint: written,
			First: []jobs.TokenProb{{ID: 7, LogProb: -0.5}}, SaveSeconds: 0.027,
		},
		Prefill: &jobs.Prefill{Server: "spark/1/p", PromptTokens: 2038, ComputedTokens: 2038, Seconds: 2},
	}
}

var imported = engine.Completion{
	Text: "a", FinishReason: "stop", PromptTokens: 2038, CachedTokens: 2037, ComputedTokens: 1, GeneratedTokens: 4, FirstToken: time.Second,
	Imported: &engine.Imported{Tokens: 2037, Restored: 12 * time.Millisecond, Checked: 5 * time.Millisecond, Divergence: 0.001},
}

func TestPrefillOffersItsState(t *testing.T) {
	for _, done := range []bool{true, false} {
		r := newRig(t)
		r.engine.prefilled = r.saved(t)
		tk, _ := task(jobs.StagePrefill, "", nil)
		var expected time.Duration
		tk.Expect = func(d time.Duration) { expected = d }
		o, err := r.Run(t.Context(), tk)
		if err != nil {
			t.Fatal(err)
		}
		if !r.engine.exported || expected < 60*time.Second {
			t.Errorf("exported %t, expecting %v of silence; want true and time for the file", r.engine.exported, expected)
		}
		want := handedOver().State
		if diff := cmp.Diff(want, o.Next.State); diff != "" || o.Next.Kind != jobs.KindState || o.Next.Decision != "disaggregated, as asked" {
			t.Errorf("kind %s, decision %q, state (-want +got):\n%s", o.Next.Kind, o.Next.Decision, diff)
		}
		if _, err := jobs.Encode(o.Next); err != nil {
			t.Errorf("the hand-over is not valid: %v", err)
		}
		if len(r.holder.told) != 0 || r.NextState() != 200e6 || !slices.Equal(r.counted.saved, []time.Duration{27 * time.Millisecond}) {
			t.Errorf("told %v, next state of %d bytes, counted %v", r.holder.told, r.NextState(), r.counted.saved)
		}
		o.Settled(done)
		say := map[bool]string{true: "published ", false: "released "}[done] + tk.Job.ID
		if !slices.Equal(r.holder.told, []string{say}) {
			t.Errorf("told %v, want %s", r.holder.told, say)
		}
	}
}

// Whatever keeps prefill from handing the state over, the job goes on without one and says why.
func TestPrefillWithoutAState(t *testing.T) {
	context := engine.Prefilled{Kind: jobs.KindContext, Context: []int{1}, FirstToken: "y", PromptTokens: 10, ComputedTokens: 10}
	failing := context
	failing.Failure, failing.Note = jobs.FailSave, "no room"
	for _, tt := range []struct {
		name    string
		change  func(*rig)
		export  bool
		failure jobs.Failure
		says    string
		silent  bool // without a warning
	}{
		{"no transfer", func(r *rig) { r.about.KVTransfer, r.about.NoKVTransfer = nil, "install the shim" }, false, jobs.FailNoState, "install the shim", true},
		{"budget", func(r *rig) { r.holder.budget = 1099 }, false, jobs.FailBudget, "--handover-budget", false},
		{"stopped", func(r *rig) { r.peers = []engine.Peer{takes("mac-1 takes none", jobs.FailStopped)} }, false, jobs.FailStopped, "mac-1 takes none", false},
		{"other engines", func(r *rig) {
			r.peers = []engine.Peer{{Role: protocol.RolePrefill}, takes("mac-1 takes none", jobs.FailStopped), takes("mac-2 predicts something else", jobs.FailDiffer)}
		}, false, jobs.FailDiffer, "mac-2 predicts something else", false},
		{"no shim there", func(r *rig) { r.peers = []engine.Peer{takes("mac-1 has no shim", jobs.FailNoState)} }, false, jobs.FailNoState, "mac-1 has no shim", true},
		{"save", func(r *rig) { r.engine.prefilled = failing }, true, jobs.FailSave, "no room", false},
		{"offer", func(r *rig) {
			r.engine.prefilled = r.saved(t)
			r.holder.err = protocol.HandoverErrorf(jobs.FailSave, "it is empty")
		}, true, jobs.FailSave, "it is empty", false},
		{"offer of a closed server", func(r *rig) {
			r.engine.prefilled = r.saved(t)
			r.holder.err = errors.New("it is closed")
		}, true, jobs.FailSave, "it is closed", false},
		{"state that cannot be described", func(r *rig) {
			r.engine.prefilled = r.saved(t)
			r.engine.prefilled.State.First[0].LogProb = 1
		}, true, jobs.FailSave, "first.logprob is 1", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.engine.prefilled = context
			tt.change(r)
			tk, _ := task(jobs.StagePrefill, "", nil)
			o, err := r.Run(t.Context(), tk)
			if err != nil {
				t.Fatal(err)
			}
			n := o.Next
			if r.engine.exported != tt.export || n.State != nil || n.Kind == jobs.KindState || n.Failure != tt.failure {
				t.Errorf("exported %t, kind %s, state %v, failure %s; want %t, no state and %s", r.engine.exported, n.Kind, n.State, n.Failure, tt.export, tt.failure)
			}
			if !strings.Contains(n.Reason, tt.says) || !strings.Contains(n.Decision, tt.says) || !strings.Contains(n.Decision, "nothing was saved") {
				t.Errorf("reason %q, decision %q; want %q in both", n.Reason, n.Decision, tt.says)
			}
			if warned := len(n.Warnings) == 1 && strings.Contains(n.Warnings[0], tt.says); warned == tt.silent {
				t.Errorf("warnings %q", n.Warnings)
			}
			if !slices.Equal(r.counted.ended, []jobs.Failure{tt.failure}) {
				t.Errorf("counted %v", r.counted.ended)
			}
			if tt.name != "state that cannot be described" && (len(r.holder.told) != 0 || len(r.files(t)) != 0) {
				t.Errorf("files %v are left", r.files(t))
			}
			if tt.name == "state that cannot be described" && !slices.Equal(r.holder.told, []string{"released " + tk.Job.ID}) {
				t.Errorf("the holder was told %v", r.holder.told)
			}
			if _, err := jobs.Encode(n); err != nil {
				t.Errorf("the hand-over is not valid: %v", err)
			}

			// The decode side passes the reason on, and counts nothing: there was nothing to use.
			r = newRig(t)
			r.engine.completion = engine.Completion{Text: "a", PromptTokens: 10, ComputedTokens: 10}
			tk, _ = task(jobs.StageDecode, "", n)
			if o, err = r.Run(t.Context(), tk); err != nil {
				t.Fatal(err)
			}
			want := &jobs.HandoverReport{Failure: tt.failure, Message: n.Reason}
			if diff := cmp.Diff(want, o.Result.Handover); diff != "" || o.Result.Usage.HandedOver != 0 || len(r.counted.ended) != 0 {
				t.Errorf("%d handed over, counted %v, report (-want +got):\n%s", o.Result.Usage.HandedOver, r.counted.ended, diff)
			}
		})
	}
}

func TestBareHandsOverTheJobAlone(t *testing.T) {
	e := &scripted{prefilled: engine.Prefilled{Kind: jobs.KindContext, Context: []int{1, 2}, FirstToken: "y", PromptTokens: 10, ComputedTokens: 10}}
	stage := pipeline.New(pipeline.Config{Engine: e, Server: "here/w", Rates: &engine.Rates{}, Log: slog.New(slog.DiscardHandler), Bare: true})
	tk, _ := task(jobs.StagePrefill, "", nil)
	o, err := stage.Run(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	if n := o.Next; e.exported || n.Kind != jobs.KindNone || n.Context != nil || n.Failure != "" || n.Prefill == nil {
		t.Errorf("hand-over = %+v", n)
	}
}

func TestDecodeUsesTheState(t *testing.T) {
	r := newRig(t)
	r.engine.completion = imported
	tk, text := task(jobs.StageDecode, "", handedOver())
	tk.Transfer = 3 * time.Second // of the record, which says nothing of the state
	progress := 0
	tk.Progress = func() { progress++ }
	o, err := r.Run(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.engine.calls, []string{"decode"}) || text.String() != "a" || progress < 2 {
		t.Errorf("calls %v, text %q, %d signs of life", r.engine.calls, text, progress)
	}
	want := &engine.StateFile{
		Path: filepath.Join(r.dir, "p-fetched.kv"), Bytes: 200e6, Tokens: 2037, Fingerprint: written, First: []jobs.TokenProb{{ID: 7, LogProb: -0.5}},
		Saved: 27 * time.Millisecond,
	}
	if diff := cmp.Diff(want, r.engine.from.State); diff != "" || r.engine.from.PromptTokens != 2038 || !r.engine.there {
		t.Errorf("the engine got a prompt of %d tokens, file there %t, state (-want +got):\n%s", r.engine.from.PromptTokens, r.engine.there, diff)
	}
	if len(r.files(t)) != 0 {
		t.Errorf("%v is left", r.files(t))
	}
	res := o.Result
	if u := res.Usage; u.HandedOver != 2037 || u.DecodeCached != 2037 || u.DecodeComputed != 1 || u.PrefillComputed != 2038 {
		t.Errorf("usage %+v", u)
	}
	if tm := res.Timings; tm.SaveSeconds != 0.027 || tm.TransferSeconds != 0.08 || tm.RestoreSeconds != 0.012 || tm.CheckSeconds != 0.005 || tm.TimeToFirstTokenSeconds < 1 {
		t.Errorf("timings %+v", tm)
	}
	if diff := cmp.Diff(&jobs.HandoverReport{Bytes: 200e6, MovedBytes: 200e6, BytesPerSecond: 2.5e9, Divergence: 0.001}, res.Handover); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	const decision = "disaggregated, as asked: 2,037 prompt tokens handed over as KV state (200 MB, saved in 27 ms, moved in 80 ms at 2.5 GB/s, read in 12 ms); the decode machine computed 1"
	if res.Decision != decision || !slices.Equal(res.Warnings, []string{"before"}) || res.Method != jobs.MethodDisaggregated {
		t.Errorf("%s, warnings %q, decision\n%s; want\n%s", res.Method, res.Warnings, res.Decision, decision)
	}
	if !slices.Equal(r.counted.ended, []jobs.Failure{""}) || r.counted.bytes != 200e6 {
		t.Errorf("counted %v, %d bytes", r.counted.ended, r.counted.bytes)
	}
	if o.Settled(false); r.fetcher.done != 0 {
		t.Error("the prefill machine was told to let the state go, although the result was not published")
	}
	if o.Settled(true); r.fetcher.done != 1 {
		t.Error("the prefill machine was not told that the state is done with")
	}
}

func TestSlowTransferOfAState(t *testing.T) {
	r := newRig(t)
	r.engine.completion, r.fetcher.took = imported, 1500*time.Millisecond
	tk, _ := task(jobs.StageDecode, "", handedOver())
	o, err := r.Run(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.Result.Warnings, []string{"before", "Slow context transfer: 1.5 s"}) {
		t.Errorf("warnings %q", o.Result.Warnings)
	}
}

// Every failure computes the prompt again, once, and is said and counted; nothing is left of the state.
func TestDecodeWithoutTheState(t *testing.T) {
	again := engine.Completion{Text: "a", FinishReason: "stop", PromptTokens: 2038, ComputedTokens: 2038, GeneratedTokens: 4, FirstToken: time.Second}
	refuse := func(f jobs.Failure) func(*rig) {
		return func(r *rig) { r.fetcher.err = protocol.HandoverErrorf(f, "because of %s", f) }
	}
	decode := func(f jobs.Failure) func(*rig) {
		return func(r *rig) {
			r.engine.decodeErr = &protocol.HandoverError{Failure: f, Message: "because of " + string(f), Divergence: 0.4}
		}
	}
	other := written
	other.Build, other.CacheV = "b2", "q8_0"
	for _, tt := range []struct {
		failure jobs.Failure
		change  func(*rig)
		says    string
		fetched bool
		told    bool // the prefill machine, that the state is done with
	}{
		{jobs.FailNoState, func(r *rig) { r.about.KVTransfer, r.about.NoKVTransfer = nil, "install the shim" }, "install the shim", false, true},
		{jobs.FailFingerprint, func(r *rig) { r.about.KVTransfer.Fingerprint = other }, "the two engines differ: value cache type: q8_0 here, f16 on", false, true},
		{jobs.FailStopped, func(r *rig) { stopPair(r.pairs, "spark/1") }, "decode-worker handover clear spark/1", false, true},
		{jobs.FailDiffer, func(r *rig) { r.differs = "they predict something else" }, "they predict something else", false, true},
		{jobs.FailRefusedURL, refuse(jobs.FailRefusedURL), "because of", false, false},
		{jobs.FailUnreachable, refuse(jobs.FailUnreachable), "because of", false, false},
		{jobs.FailUnreachable, func(r *rig) { r.fetcher.err = errors.New("of unknown kind") }, "of unknown kind", false, false},
		{jobs.FailNotFound, refuse(jobs.FailNotFound), "because of", false, false},
		{jobs.FailTruncated, refuse(jobs.FailTruncated), "because of", false, true},
		{jobs.FailTooSlow, refuse(jobs.FailTooSlow), "because of", false, true},
		{jobs.FailDisk, refuse(jobs.FailDisk), "because of", false, true},
		{jobs.FailDigest, refuse(jobs.FailDigest), "because of", false, true},
		{jobs.FailRestore, decode(jobs.FailRestore), "because of", true, true},
		{jobs.FailSilentMiss, decode(jobs.FailSilentMiss), "because of", true, true},
		{jobs.FailFirstToken, decode(jobs.FailFirstToken), "because of", true, true},
	} {
		t.Run(string(tt.failure)+" "+tt.says[:10], func(t *testing.T) {
			r := newRig(t)
			r.engine.completion = again
			tt.change(r)
			tk, text := task(jobs.StageDecode, "", handedOver())
			var expected []time.Duration
			tk.Expect = func(d time.Duration) { expected = append(expected, d) }
			o, err := r.Run(t.Context(), tk)
			if err != nil {
				t.Fatal(err)
			}
			calls := []string{"generate"}
			if tt.fetched {
				calls = []string{"decode", "generate"}
			}
			if !slices.Equal(r.engine.calls, calls) || len(expected) != len(calls) {
				t.Errorf("calls %v, silence expected %v; want %v", r.engine.calls, expected, calls)
			}
			if (len(r.fetcher.fetched) > 0) != tt.fetched || len(r.files(t)) != 0 {
				t.Errorf("fetched %v, and %v is left", r.fetcher.fetched, r.files(t))
			}
			res := o.Result
			if res.Text != "a" || text.String() != "a" || res.Status != jobs.Succeeded || res.Method != jobs.MethodDisaggregated {
				t.Errorf("%s by %s, text %q, streamed %q", res.Status, res.Method, res.Text, text)
			}
			if u := res.Usage; u.HandedOver != 0 || u.DecodeComputed != 2038 || u.PrefillComputed != 2038 {
				t.Errorf("usage %+v", u)
			}
			h := res.Handover
			if h == nil || h.Failure != tt.failure || !strings.Contains(h.Message, tt.says) || h.Bytes != 200e6 || (h.BytesPerSecond > 0) != tt.fetched {
				t.Errorf("report %+v; want %s, saying %q", h, tt.failure, tt.says)
			}
			if decode := r.engine.decodeErr; decode != nil && h.Divergence != 0.4 {
				t.Errorf("divergence %v is not reported", h.Divergence)
			}
			if !strings.HasPrefix(res.Decision, "disaggregated, as asked: re-prefilled on the decode machine, because ") || !strings.Contains(res.Decision, tt.says) {
				t.Errorf("decision %q", res.Decision)
			}
			if len(res.Warnings) != 2 || !strings.Contains(res.Warnings[1], string(tt.failure)) || !strings.Contains(r.log.String(), "failure="+string(tt.failure)) {
				t.Errorf("warnings %q, log:\n%s", res.Warnings, r.log.String())
			}
			if !slices.Equal(r.counted.ended, []jobs.Failure{tt.failure}) || (r.counted.bytes > 0) != tt.fetched {
				t.Errorf("counted %v, %d bytes", r.counted.ended, r.counted.bytes)
			}
			data, err := jobs.Encode(res)
			if err != nil || strings.Contains(string(data), "s3cret") || strings.Contains(string(data), "/state/") || strings.Contains(r.log.String(), "s3cret") {
				t.Errorf("address or token are in the result or the log (%v):\n%s\n%s", err, data, r.log.String())
			}
			if o.Settled(true); (r.fetcher.done == 1) != tt.told {
				t.Errorf("the prefill machine was told %d times that the state is done with", r.fetcher.done)
			}
		})
	}
}

// What the engine generated in spite of a state that it did not use is right, and kept.
func TestSilentMiss(t *testing.T) {
	r := newRig(t)
	c := imported
	c.Imported, c.CachedTokens, c.ComputedTokens = nil, 5, 2033
	r.engine.completion = c
	tk, text := task(jobs.StageDecode, "", handedOver())
	o, err := r.Run(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	res := o.Result
	if !slices.Equal(r.engine.calls, []string{"decode"}) || res.Text != "a" || text.String() != "a" || len(r.files(t)) != 0 {
		t.Errorf("calls %v, text %q, files %v", r.engine.calls, res.Text, r.files(t))
	}
	if res.Handover.Failure != jobs.FailSilentMiss || res.Usage.HandedOver != 0 || res.Usage.DecodeComputed != c.ComputedTokens || len(res.Warnings) != 2 ||
		!strings.Contains(res.Decision, "in vain") || !slices.Equal(r.counted.ended, []jobs.Failure{jobs.FailSilentMiss}) {
		t.Errorf("report %+v, usage %+v, warnings %q, decision %q, counted %v", res.Handover, res.Usage, res.Warnings, res.Decision, r.counted.ended)
	}
}

// The engine says whether it used a state: one with a sliding window may compute a few of its tokens again.
func TestUsedButForAFewTokens(t *testing.T) {
	r := newRig(t)
	r.engine.completion = imported
	r.engine.completion.CachedTokens, r.engine.completion.ComputedTokens = 2032, 6
	tk, _ := task(jobs.StageDecode, "", handedOver())
	o, err := r.Run(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	res := o.Result
	if u := res.Usage; res.Handover.Failure != "" || u.HandedOver != 2037 || u.DecodeComputed != 6 || len(res.Warnings) != 1 ||
		!strings.Contains(res.Decision, "the decode machine computed 6") || !slices.Equal(r.counted.ended, []jobs.Failure{""}) {
		t.Errorf("report %+v, usage %+v, warnings %q, decision %q, counted %v", res.Handover, res.Usage, res.Warnings, res.Decision, r.counted.ended)
	}
}

// The end of a job is no failure of its hand-over, and an engine that fails is tried again with the state.
func TestEndOfAJobInMidHandover(t *testing.T) {
	broken := jobs.Errorf(jobs.CodeEngineFailed, "broken")
	for _, tt := range []struct {
		name   string
		change func(*rig)
		want   error
		calls  int
	}{
		{"while it is fetched", func(r *rig) { r.fetcher.wait = true }, jobs.ErrDraining, 0},
		{"while it is read", func(r *rig) { r.engine.wait = true }, jobs.ErrDraining, 1},
		{"while it is read, as a failure", func(r *rig) {
			r.engine.wait, r.engine.decodeErr = true, protocol.HandoverErrorf(jobs.FailRestore, "interrupted")
		}, jobs.ErrDraining, 1},
		{"engine", func(r *rig) { r.engine.err = broken }, broken, 1},
		{"engine after a failure", func(r *rig) {
			r.engine.err, r.fetcher.err = broken, protocol.HandoverErrorf(jobs.FailDigest, "digest")
		}, broken, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			tt.change(r)
			tk, _ := task(jobs.StageDecode, "", handedOver())
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tt.want == error(jobs.ErrDraining) {
				cancel(jobs.ErrDraining)
			}
			o, err := r.Run(ctx, tk)
			if !errors.Is(err, tt.want) || o.Result != nil || o.Settled != nil || len(r.engine.calls) != tt.calls {
				t.Errorf("error %v, outcome %+v, calls %v; want %v", err, o, r.engine.calls, tt.want)
			}
			if len(r.files(t)) != 0 || r.fetcher.done != 0 {
				t.Errorf("files %v, told %d times; want the state to stay where it was", r.files(t), r.fetcher.done)
			}
			if failed := r.fetcher.err != nil; failed != (len(r.counted.ended) == 1) {
				t.Errorf("counted %v", r.counted.ended)
			}
		})
	}
}

// Of two hundred jobs that are handed over one is computed here, too. If that predicts something else, so are the next ones, and after three the pair is
// stopped.
func TestSamples(t *testing.T) {
	r := newRig(t)
	r.engine.completion = imported
	run := func() *jobs.Result {
		t.Helper()
		r.engine.sampled = false
		tk, _ := task(jobs.StageDecode, "", handedOver())
		o, err := r.Run(t.Context(), tk)
		if err != nil {
			t.Fatal(err)
		}
		return o.Result
	}
	var at []int
	for i := range 400 {
		if run(); r.engine.sampled {
			at = append(at, i+1)
		}
		r.engine.differs = i > 200
	}
	if !slices.Equal(at, []int{200, 400}) {
		t.Errorf("the jobs %v were sampled, want 200 and 400", at)
	}
	for i, want := range []jobs.Failure{jobs.FailDiffer, jobs.FailDiffer, jobs.FailStopped} {
		if got := run().Handover; got.Failure != want || got.Failure == jobs.FailDiffer != r.engine.sampled {
			t.Errorf("job %d after one that differed: sampled %t, %s: %s; want %s", i, r.engine.sampled, got.Failure, got.Message, want)
		}
	}
}

// Of an engine whose build has another name, the first state is computed here, too, until one agrees; again when one of the two engines was started anew. A strict
// worker takes none.
func TestFirstStateOfAnotherBuild(t *testing.T) {
	r := newRig(t)
	agreed := imported
	agreed.Imported = &engine.Imported{Tokens: 2037, Sampled: true, Own: 0.002}
	r.engine.completion = agreed
	r.about.KVTransfer.Fingerprint.Build, r.engines = "b2", "start 1"
	for i, step := range []struct {
		change  func(*protocol.Task)
		differs bool
		sampled bool
	}{
		{sampled: true},
		{},
		{change: func(tk *protocol.Task) { tk.Job.Sample = true }, sampled: true},
		{},
		{change: func(*protocol.Task) { r.engines = "start 2" }, differs: true, sampled: true},
		{sampled: true},
	} {
		r.engine.sampled, r.engine.differs = false, step.differs
		tk, _ := task(jobs.StageDecode, "", handedOver())
		if step.change != nil {
			step.change(tk)
		}
		o, err := r.Run(t.Context(), tk)
		if err != nil {
			t.Fatal(err)
		}
		h := o.Result.Handover
		if r.engine.sampled != step.sampled || (h.Failure == jobs.FailDiffer) != step.differs || !step.differs && (h.Sampled == nil || *h.Sampled != 0.002) {
			t.Errorf("job %d: sampled %t, %+v; want %+v", i, r.engine.sampled, h, step)
		}
		if !step.differs && !strings.Contains(o.Result.Decision, "; llama.cpp b2 here, b1 on the prefill machine") {
			t.Errorf("job %d: %s", i, o.Result.Decision)
		}
	}
	r.strict = true
	r.parts(r.engine, r.fetcher)
	tk, _ := task(jobs.StageDecode, "", handedOver())
	if o, err := r.Run(t.Context(), tk); err != nil || o.Result.Handover.Failure != jobs.FailFingerprint {
		t.Errorf("a strict worker: %+v, %v", o.Result.Handover, err)
	}
}

// After three first predictions that differ no state of the machine is fetched any more; those of others are.
func TestDifferingPredictionsStopThePair(t *testing.T) {
	r := newRig(t)
	run := func(server string, differs bool) jobs.Failure {
		t.Helper()
		r.engine.decodeErr, r.engine.completion = nil, imported
		if differs {
			r.engine.decodeErr = protocol.HandoverErrorf(jobs.FailFirstToken, "differs by 0.4")
		}
		h := handedOver()
		h.Prefill.Server = server
		tk, _ := task(jobs.StageDecode, "", h)
		o, err := r.Run(t.Context(), tk)
		if err != nil {
			t.Fatal(err)
		}
		return o.Result.Handover.Failure
	}
	for i, differs := range []bool{true, false, true, false, false, true} {
		if got := run("spark-1/p", differs); (got == jobs.FailFirstToken) != differs {
			t.Fatalf("state %d: failure %q", i, got)
		}
	}
	fetched := len(r.fetcher.fetched)
	if got := run("spark-1/restarted", false); got != jobs.FailStopped || len(r.fetcher.fetched) != fetched {
		t.Errorf("after three that differed: failure %q, %d fetched; want pair_stopped and %d", got, len(r.fetcher.fetched), fetched)
	}
	if got := run("spark-2/p", false); got != "" {
		t.Errorf("a state of another machine: failure %q", got)
	}
	if !strings.Contains(r.log.String(), "level=ERROR") {
		t.Errorf("nobody is told:\n%s", r.log.String())
	}

	// Twenty that agree are long enough for what was before to be forgotten.
	run("spark-2/p", true)
	run("spark-2/p", true)
	for range 20 {
		run("spark-2/p", false)
	}
	run("spark-2/p", true)
	if got := r.pairs.Stopped(); !slices.Equal(got, []string{"spark-1"}) {
		t.Errorf("stopped %v, want spark-1 alone", got)
	}
}
