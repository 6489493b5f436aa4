package pipeline_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/handover"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// hanging is an engine and a fetcher of which one call hangs until its context ends.
type hanging struct {
	*scripted
	*fetcher
	at    string // the call: prefill, fetch, decode or generate
	begun chan struct{}
	calls []string
}

// call notes a call, and hangs if it is the one.
func (h *hanging) call(ctx context.Context, name string) error {
	h.calls = append(h.calls, name)
	if name != h.at {
		return nil
	}
	close(h.begun)
	<-ctx.Done()
	return ctx.Err()
}

func (h *hanging) Prefill(ctx context.Context, req engine.Request) (engine.Prefilled, error) {
	return h.prefilled, errors.Join(h.call(ctx, "prefill"), h.end(context.Background()))
}

func (h *hanging) Fetch(ctx context.Context, s *jobs.State, dir, prefix string, progress func()) (handover.Fetched, error) {
	if err := h.call(ctx, "fetch"); err != nil {
		return handover.Fetched{}, err
	}
	return h.fetcher.Fetch(ctx, s, dir, prefix, progress)
}

func (h *hanging) Decode(ctx context.Context, _ engine.Request, _ engine.Prefilled, _ engine.Emit) (engine.Completion, error) {
	if err := h.call(ctx, "decode"); err != nil && h.decodeErr == nil {
		return engine.Completion{}, err
	}
	if h.decodeErr != nil {
		return engine.Completion{}, h.decodeErr
	}
	return h.completion, nil
}

func (h *hanging) Generate(ctx context.Context, _ engine.Request, _ engine.Emit) (engine.Completion, error) {
	return h.completion, h.call(ctx, "generate")
}

// Wherever a job is when it is cancelled or its deadline passes, the call that goes on ends, no other begins, and nothing is
// left of its state.
func TestJobEndsAtEveryStage(t *testing.T) {
	lost := protocol.HandoverErrorf(jobs.FailDigest, "digest")
	for _, tt := range []struct {
		name   string
		stage  jobs.Stage
		state  bool // the job comes with a state
		at     string
		change func(*hanging)
		calls  []string
	}{
		{"prefill and saving the state", jobs.StagePrefill, false, "prefill", nil, []string{"prefill"}},
		{"transfer of the state", jobs.StageDecode, true, "fetch", nil, []string{"fetch"}},
		{"restoring, checking and decoding", jobs.StageDecode, true, "decode", nil, []string{"fetch", "decode"}},
		{"restoring that ends as a failure", jobs.StageDecode, true, "decode", func(h *hanging) { h.decodeErr = lost }, []string{"fetch", "decode"}},
		{"prefill again after a lost state", jobs.StageDecode, true, "generate", func(h *hanging) { h.fetcher.err = lost }, []string{"fetch", "generate"}},
		{"decode without a state", jobs.StageDecode, false, "decode", nil, []string{"decode"}},
		{"whole, as fallback", jobs.StageFallback, false, "generate", nil, []string{"generate"}},
	} {
		for _, cause := range []*jobs.Error{jobs.ErrCancelled, jobs.ErrDeadline} {
			t.Run(tt.name+", "+string(cause.Code), func(t *testing.T) {
				r := newRig(t)
				h := &hanging{scripted: r.engine, fetcher: r.fetcher, at: tt.at, begun: make(chan struct{})}
				if tt.change != nil {
					tt.change(h)
				}
				r.parts(h, h)
				var from *jobs.Handover
				if tt.stage == jobs.StageDecode {
					if from = handedOver(); !tt.state {
						from.Kind, from.State = jobs.KindNone, nil
					}
				}
				tk, _ := task(tt.stage, "", from)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				go func() {
					select {
					case <-h.begun:
						cancel(cause)
					case <-ctx.Done(): // it never began, which the calls show
					}
				}()
				o, err := r.Run(ctx, tk)
				if !errors.Is(err, cause) || protocol.Classify(err) != protocol.Ended || o.Next != nil || o.Result != nil {
					t.Errorf("error %v, outcome %+v; want %v", err, o, cause)
				}
				if !slices.Equal(h.calls, tt.calls) {
					t.Errorf("calls %v, want %v", h.calls, tt.calls)
				}
				if left := r.files(t); len(left) != 0 {
					t.Errorf("%v is left", left)
				}
			})
		}
	}
}

// A prefill that was done when its job ended has a state that nobody will fetch: it is released.
func TestStateOfAnEndedJobIsReleased(t *testing.T) {
	r := newRig(t)
	r.engine.prefilled = r.saved(t)
	tk, _ := task(jobs.StagePrefill, "", nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(jobs.ErrCancelled)
	o, err := r.Run(ctx, tk)
	if err != nil || o.Next == nil || o.Settled == nil {
		t.Fatalf("outcome %+v, %v", o, err)
	}
	o.Settled(false) // which the queue says when it finds the job's result
	if want := []string{"released " + tk.Job.ID}; !slices.Equal(r.holder.told, want) {
		t.Errorf("told %v, want %v", r.holder.told, want)
	}
}
