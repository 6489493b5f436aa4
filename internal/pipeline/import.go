package pipeline

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/internal/handover"
	"tandem/internal/protocol"
	"tandem/internal/units"
	"tandem/jobs"
)

// Fetcher fetches KV states from the machines that hold them: a *handover.Client.
type Fetcher interface {
	// Fetch writes a state into a new file of dir. An error is a *protocol.HandoverError, or the context's cause.
	Fetch(ctx context.Context, s *jobs.State, dir, prefix string, progress func()) (handover.Fetched, error)
	// Holds reports whether it has the rows of this name, so that they need not be fetched with a state.
	Holds(rows string) bool
	// Done says that a state is not needed any more.
	Done(ctx context.Context, s *jobs.State) error
}

// doneLimit bounds telling a prefill machine that its state is not needed any more.
const doneLimit = 3 * time.Second

// move is what a hand-over took.
type move struct {
	transfer time.Duration // also of one that failed
	ahead    bool          // it passed while the job waited for a slot
	arrived  bool
	file     handover.Fetched // if it arrived
	began    time.Time        // when the engine was asked for the text
	unlike   string           // how the two engines differ, so that the first state of the two was compared
}

// decodeState generates the text of a job from the KV state that prefill left. If anything is in the way of that, the
// prompt is computed again here.
func (s *Stage) decodeState(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
	h, start := t.Handover, time.Now()
	var m move
	c, err := s.continueFrom(ctx, t, &m)
	failed, _ := errors.AsType[*protocol.HandoverError](err)
	decision := ""
	switch {
	case err == nil:
		if failed = missed(h.State, c); failed != nil {
			t.Event(notHandedOver(failed))
		}
		if failed == nil {
			decision = used(h.State, m, c)
		} else {
			decision = "the KV state was handed over in vain: " + failed.Error()
		}
	case failed == nil || ctx.Err() != nil:
		return protocol.Outcome{}, err
	default:
		t.Event(notHandedOver(failed))
		decision = "re-prefilled on the decode machine, because " + failed.Error()
		m.began = time.Now()
		if c, err = s.reprefill(ctx, t, failed); err != nil {
			if m.arrived { // the engine had the state, and now cannot compute: it may have ended because of it
				s.suspects.add(t.Job.ID)
			}
			s.ended(t, m, c)
			return protocol.Outcome{}, err
		}
	}
	s.ended(t, m, c)
	r := s.disaggregated(t, c, start)
	r.Decision = strings.TrimPrefix(r.Decision+": "+decision, ": ")
	if c.FirstToken > 0 {
		r.Timings.TimeToFirstTokenSeconds += m.began.Sub(start).Seconds()
	}
	r.Timings.SaveSeconds = h.State.SaveSeconds
	s.transferred(r, t, m.transfer)
	r.Handover = &jobs.HandoverReport{Bytes: h.State.Bytes}
	if m.arrived {
		r.Handover.MovedBytes = m.file.Moved
		r.Handover.BytesPerSecond = perSecond(m.file.Moved, m.transfer)
	}
	if i := c.Imported; i != nil {
		r.Timings.RestoreSeconds, r.Timings.CheckSeconds = i.Restored.Seconds(), i.Checked.Seconds()
		r.Handover.Divergence = i.Divergence
		if i.Sampled {
			r.Handover.Sampled = &i.Own
		}
	}
	if failed == nil {
		r.Usage.HandedOver = c.Imported.Tokens
	} else {
		r.Handover.Failure, r.Handover.Message = failed.Failure, failed.Error()
		r.Handover.Divergence = max(r.Handover.Divergence, failed.Divergence)
		r.Warnings = append(r.Warnings, notUsed(failed))
	}
	return protocol.Outcome{Result: r, Settled: func(done bool) {
		if done {
			s.release(ctx, t, failed)
		}
	}}, nil
}

// continueFrom fetches the state, unless Prepare has, and has the engine continue from it. Why it does not is a *protocol.HandoverError; then
// nothing was generated.
func (s *Stage) continueFrom(ctx context.Context, t *protocol.Task, m *move) (engine.Completion, error) {
	h := t.Handover
	transfer, refused := s.usable(ctx, t)
	if refused != nil {
		return engine.Completion{}, refused
	}
	f, there := s.ahead.take(t)
	if !there {
		f = s.fetch(ctx, t, transfer)
	}
	m.transfer, m.ahead = f.took, f.ahead
	if f.failed != nil {
		return engine.Completion{}, asHandoverError(jobs.FailUnreachable, f.failed)
	}
	file := f.file
	m.arrived, m.file = true, file
	t.Event(jobs.Event{
		Type: jobs.EventFetched, Bytes: file.Bytes, MovedBytes: file.Moved, Seconds: m.transfer.Seconds(), Rebuilt: file.Rebuilt, RebuildLost: file.Failed,
	})
	defer s.remove(t.Job.ID, file.Path)
	m.began = time.Now()
	s.foresee(t, s.size(t.Job), false, t.Handover.State.Bytes, s.running.prompts())
	req := s.request(t, fileTime(file.Bytes))
	pair := ""
	if m.unlike = unlike(transfer.Fingerprint, h.State.Fingerprint); m.unlike != "" {
		pair = s.engines(h.Prefill.Server)
	}
	req.Sample = s.samples.due(pair) || t.Job.Sample
	req.Restored = func(took time.Duration) {
		t.Event(jobs.Event{Type: jobs.EventRestored, Bytes: file.Bytes, Seconds: took.Seconds()})
		t.Event(jobs.Event{Type: jobs.EventDecodeBegun})
	}
	c, err := s.engine.Decode(ctx, req, engine.Prefilled{
		Kind: jobs.KindState, PromptTokens: h.Prefill.PromptTokens, ModelDigest: h.Prefill.ModelDigest,
		State: &engine.StateFile{
			Path: file.Path, Bytes: file.Bytes, Tokens: h.State.Tokens, Fingerprint: h.State.Fingerprint, First: h.State.First,
			Saved: seconds(h.State.SaveSeconds),
		},
	}, s.emit(t))
	failed, _ := errors.AsType[*protocol.HandoverError](err)
	if failed != nil && failed.Failure == jobs.FailDiffer {
		s.samples.differed()
	}
	if failed != nil && (failed.Failure == jobs.FailFirstToken || failed.Failure == jobs.FailDiffer) {
		s.pairs.Compared(machineOf(h.Prefill.Server), failed.Error())
	} else if err == nil && c.Imported != nil {
		s.pairs.Compared(machineOf(h.Prefill.Server), "")
		if c.Imported.Sampled {
			s.samples.agreed(pair)
		}
	}
	return c, err
}

// accepts checks all that can be known before a byte is fetched.
func (s *Stage) accepts(ctx context.Context, h *jobs.Handover) (*engine.KVTransfer, *protocol.HandoverError) {
	about := s.about()
	if about.KVTransfer == nil || s.fetcher == nil {
		return nil, protocol.HandoverErrorf(jobs.FailNoState, "the engine of this decode machine takes no KV states: %s", cmp.Or(about.NoKVTransfer, "it does not say why"))
	}
	if list := about.KVTransfer.Fingerprint.Differences(h.State.Fingerprint, s.strict); len(list) > 0 {
		return nil, protocol.HandoverErrorf(jobs.FailFingerprint, "the two engines differ: %s", strings.Join(list, "; "))
	}
	if why := s.pairs.Why(machineOf(h.Prefill.Server)); why != "" {
		return nil, protocol.HandoverErrorf(jobs.FailStopped, "%s", why)
	}
	if why := s.differs(ctx, h.Prefill.Server); why != "" {
		return nil, protocol.HandoverErrorf(jobs.FailDiffer, "%s", why)
	}
	return about.KVTransfer, nil
}

// reprefill computes the prompt and generates the text here.
func (s *Stage) reprefill(ctx context.Context, t *protocol.Task, why *protocol.HandoverError) (engine.Completion, error) {
	s.log.Warn("a KV state is not used; the prompt is computed again", "job", t.Job.ID, "attempt", t.Attempt, "from", t.Handover.Prefill.Server,
		"failure", why.Failure, "error", why)
	s.foresee(t, s.size(t.Job), false, 0, s.running.prompts())
	t.Event(jobs.Event{Type: jobs.EventDecodeBegun})
	c, err := s.engine.Generate(ctx, s.request(t, 0), s.emit(t))
	if err == nil {
		s.computed(t.Job, c.PromptTokens, c.ComputedTokens, c.PrefillDuration, c.DecodeDuration)
	}
	return c, err
}

// notHandedOver tells that a KV state is not used.
func notHandedOver(why *protocol.HandoverError) jobs.Event {
	return jobs.Event{Type: jobs.EventHandoverFailed, Failure: why.Failure, Why: why.Error()}
}

// missed is the failure of a state that the engine took and did not use: what it generated is right all the same. Only
// the engine knows: in a prompt shorter than a sliding window, llama-server uses a state and computes some of its last
// tokens again.
func missed(st *jobs.State, c engine.Completion) *protocol.HandoverError {
	if c.Imported != nil {
		return nil
	}
	return protocol.HandoverErrorf(jobs.FailSilentMiss,
		"the decode engine took a KV state of %s tokens, then found %s of the prompt in its cache and computed %s; let only the worker send requests to it",
		units.Count(st.Tokens), units.Count(c.CachedTokens), units.Count(c.ComputedTokens))
}

// ended has the hand-over measured.
func (s *Stage) ended(t *protocol.Task, m move, c engine.Completion) {
	if i := c.Imported; i != nil {
		s.rates.ObserveRestore(t.Handover.State.Bytes, i.Restored, i.Checked)
	}
	if m.arrived {
		if f := m.file; !f.Rebuilt || 2*f.Waited > f.Duration { // else it is the digest that took the time, and says nothing of the link
			s.rates.ObserveLink(machineOf(t.Handover.Prefill.Server), f.Moved, m.transfer)
		}
	}
}

// release tells the prefill machine that a state is not needed any more, if it is there and knows of one.
func (s *Stage) release(ctx context.Context, t *protocol.Task, failed *protocol.HandoverError) {
	if failed != nil && slices.Contains([]jobs.Failure{jobs.FailRefusedURL, jobs.FailUnreachable, jobs.FailNotFound}, failed.Failure) || s.fetcher == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), doneLimit)
	defer cancel()
	if err := s.fetcher.Done(ctx, t.Handover.State); err != nil {
		s.log.Debug("the prefill machine was not told that a KV state is done with; its lease ends by itself", "job", t.Job.ID, "attempt", t.Attempt, "error", err)
	}
}
