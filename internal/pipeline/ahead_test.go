package pipeline_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// A state that was fetched while the job waited is used as one that is fetched by Run, and the result says so.
func TestStateFetchedAhead(t *testing.T) {
	r := newRig(t)
	r.engine.completion = imported
	tk, _ := task(jobs.StageDecode, "", handedOver())
	discard := r.Prepare(t.Context(), tk)
	if len(r.fetcher.fetched) != 1 || len(r.engine.calls) != 0 {
		t.Fatalf("fetched %v, calls %v before the job has a slot", r.fetcher.fetched, r.engine.calls)
	}
	o, err := r.Run(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.fetcher.fetched) != 1 || !r.engine.there || r.engine.from.State.Path != filepath.Join(r.dir, "p-fetched.kv") {
		t.Errorf("fetched %v, and the engine got %+v, there %t", r.fetcher.fetched, r.engine.from.State, r.engine.there)
	}
	res := o.Result
	if res.Usage.HandedOver != 2037 || res.Timings.TransferSeconds != 0.08 || res.Handover.BytesPerSecond != 2.5e9 ||
		!strings.Contains(res.Decision, "moved in 80 ms at 2.5 GB/s while the job waited, read in 12 ms") {
		t.Errorf("usage %+v, timings %+v, decision %q", res.Usage, res.Timings, res.Decision)
	}
	if discard(); len(r.files(t)) != 0 {
		t.Errorf("%v is left", r.files(t))
	}
}

// What was fetched for a job that does not run here is removed, and makes room for others.
func TestStateFetchedAheadIsDiscarded(t *testing.T) {
	r := newRig(t)
	for range 5 { // more than the budget holds at once
		tk, _ := task(jobs.StageDecode, "", handedOver())
		discard := r.Prepare(t.Context(), tk)
		if len(r.files(t)) != 1 {
			t.Fatalf("files %v, want that of the state", r.files(t))
		}
		if discard(); len(r.files(t)) != 0 {
			t.Fatalf("%v is left", r.files(t))
		}
		discard()
	}
	if len(r.fetcher.fetched) != 5 || r.fetcher.done != 0 {
		t.Errorf("fetched %v, and the prefill machine was told %d times that a state is done with", r.fetcher.fetched, r.fetcher.done)
	}
}

// A state that does not fit into what is left of the budget is fetched when its job runs. What runs does not count.
func TestStatesAheadHaveABudget(t *testing.T) {
	r := newRig(t)
	r.engine.completion = imported
	var list []*protocol.Task
	for i := range 3 { // 200 MB each, of 500
		tk, _ := task(jobs.StageDecode, "", handedOver())
		list = append(list, tk)
		defer r.Prepare(t.Context(), tk)()
		if want := min(i+1, 2); len(r.fetcher.fetched) != want {
			t.Errorf("%d states fetched ahead of %d jobs, want %d", len(r.fetcher.fetched), i+1, want)
		}
	}
	run := func(tk *protocol.Task, ahead bool) {
		t.Helper()
		o, err := r.Run(t.Context(), tk)
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(o.Result.Decision, "while the job waited"); o.Result.Usage.HandedOver != 2037 || said != ahead {
			t.Errorf("usage %+v, decision %q; want the state used, fetched ahead: %t", o.Result.Usage, o.Result.Decision, ahead)
		}
	}
	run(list[2], false)
	run(list[0], true)
	next, _ := task(jobs.StageDecode, "", handedOver())
	defer r.Prepare(t.Context(), next)()
	if n := len(r.fetcher.fetched); n != 4 {
		t.Errorf("%d states fetched, want another when one is in use", n)
	}
	run(next, true)
}

// What kept the state from coming ahead is what the result says, but for a disk that may have room by then.
func TestFailureAhead(t *testing.T) {
	for _, failure := range []jobs.Failure{jobs.FailUnreachable, jobs.FailDigest, jobs.FailDisk} {
		t.Run(string(failure), func(t *testing.T) {
			r := newRig(t)
			r.engine.completion = imported
			r.fetcher.err = protocol.HandoverErrorf(failure, "because of %s", failure)
			tk, _ := task(jobs.StageDecode, "", handedOver())
			discard := r.Prepare(t.Context(), tk)
			r.fetcher.err = nil // too late, but for the disk
			if len(r.counted.ended) != 0 {
				t.Errorf("counted %v before the job ran", r.counted.ended)
			}
			o, err := r.Run(t.Context(), tk)
			if err != nil {
				t.Fatal(err)
			}
			want, calls := failure, []string{"generate"}
			if failure == jobs.FailDisk {
				want, calls = "", []string{"decode"}
			}
			if o.Result.Handover.Failure != want || !slices.Equal(r.engine.calls, calls) || !slices.Equal(r.counted.ended, []jobs.Failure{want}) {
				t.Errorf("failure %q, calls %v, counted %v; want %q and %v", o.Result.Handover.Failure, r.engine.calls, r.counted.ended, want, calls)
			}
			if discard(); len(r.files(t)) != 0 {
				t.Errorf("%v is left", r.files(t))
			}
		})
	}
}

// Nothing is fetched ahead that may not be used, and what may not be used any more is not given to the engine.
func TestChecksAhead(t *testing.T) {
	stop := func(r *rig) { stopPair(r.pairs, "spark/1") }
	other := written
	other.CacheV = "q8_0"
	for _, tt := range []struct {
		name   string
		change func(*rig)
		want   jobs.Failure
	}{
		{"pair stopped", stop, jobs.FailStopped},
		{"fingerprint", func(r *rig) { r.about.KVTransfer.Fingerprint = other }, jobs.FailFingerprint},
		{"no transfer", func(r *rig) { r.about.KVTransfer = nil }, jobs.FailNoState},
	} {
		for _, before := range []bool{true, false} {
			r := newRig(t)
			tk, _ := task(jobs.StageDecode, "", handedOver())
			if before {
				tt.change(r)
			}
			discard := r.Prepare(t.Context(), tk)
			if fetched := len(r.fetcher.fetched) == 1; fetched == before {
				t.Errorf("%s: fetched ahead %t", tt.name, fetched)
			}
			if !before {
				tt.change(r)
			}
			o, err := r.Run(t.Context(), tk)
			if err != nil {
				t.Fatal(err)
			}
			if o.Result.Handover.Failure != tt.want || !slices.Equal(r.engine.calls, []string{"generate"}) {
				t.Errorf("%s: failure %q, calls %v", tt.name, o.Result.Handover.Failure, r.engine.calls)
			}
			if discard(); len(r.files(t)) != 0 {
				t.Errorf("%s: %v is left", tt.name, r.files(t))
			}
		}
	}
	r := newRig(t)
	tk, _ := task(jobs.StageDecode, "", handedOver())
	tk.Attempt = protocol.MaxAttempts(jobs.StageDecode) // the last one does without the state
	if r.Prepare(t.Context(), tk)(); len(r.fetcher.fetched) != 0 {
		t.Error("a state was fetched ahead that is not trusted")
	}
	h := handedOver()
	h.Kind, h.State = jobs.KindNone, nil
	tk, _ = task(jobs.StageDecode, "", h)
	if r.Prepare(t.Context(), tk)(); len(r.fetcher.fetched) != 0 {
		t.Error("a state was fetched ahead of a job without one")
	}
}

// A job that ends while its state comes leaves nothing, and no failure: it may come again.
func TestEndOfAJobWhileItsStateComes(t *testing.T) {
	r := newRig(t)
	r.engine.completion = imported
	h := &hanging{scripted: r.engine, fetcher: r.fetcher, at: "fetch", begun: make(chan struct{})}
	r.parts(h, h)
	tk, _ := task(jobs.StageDecode, "", handedOver())
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-h.begun
		cancel(jobs.ErrCancelled)
	}()
	if r.Prepare(ctx, tk)(); len(r.files(t)) != 0 || len(r.counted.ended) != 0 {
		t.Errorf("files %v, counted %v", r.files(t), r.counted.ended)
	}
	h.at = ""
	if o, err := r.Run(t.Context(), tk); err != nil || o.Result.Usage.HandedOver != 2037 {
		t.Errorf("outcome %+v, %v; want the state to be fetched again", o, err)
	}
}
