package pipeline

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"sync"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/units"
	"tandem/jobs"
)

// Holder holds KV states until they were used: a *handover.Server.
type Holder interface {
	// Fits reports whether so many bytes may ever be held.
	Fits(bytes int64) bool
	// Offer takes the file over and returns the address and token under which it can be fetched. Rows are the parts of it that states of
	// other jobs have too.
	Offer(jobID, path string, rows ...protocol.Span) (jobs.State, error)
	// Published says that the job's decode message exists; Release, that there will be none.
	Published(jobID string)
	Release(jobID string)
	// Pass makes the states of a job those of another one, and reports whether there are any.
	Pass(from, to string) bool
}

// leastBytesPerToken makes of a prompt's bytes a number of tokens that is rarely too small.
const leastBytesPerToken = 3

// mayExport says about how many bytes the KV state of a job's prompt will have, and why it is not to be handed over
// although states are here; nil if it may be.
func (s *Stage) mayExport(j *jobs.Job) (bytes int64, denied *protocol.HandoverError) {
	if s.holder == nil {
		return 0, nil
	}
	about := s.about()
	if about.KVTransfer == nil {
		return 0, protocol.HandoverErrorf(jobs.FailNoState, "the engine of the prefill machine moves no KV states: %s", cmp.Or(about.NoKVTransfer, "it does not say why"))
	}
	tokens := int64(j.TextBytes()/leastBytesPerToken + 1)
	bytes = tokens*about.KVTransfer.BytesPerToken + about.KVTransfer.FixedBytes
	if !s.holder.Fits(bytes) {
		return bytes, protocol.HandoverErrorf(jobs.FailBudget, "the KV state of about %s tokens would have about %s, which is more than the prefill machine may hold at all; raise its --handover-budget",
			units.Count(int(tokens)), units.Bytes(bytes))
	}
	return bytes, s.noTaker()
}

// noTaker is why no live decode worker takes KV states of this one; nil if one does, or none lives, in which case the next may.
func (s *Stage) noTaker() (denied *protocol.HandoverError) {
	for _, p := range s.workers() {
		switch {
		case p.Role != protocol.RoleDecode:
		case p.NoStates == "" || p.Failure == "": // or it does not say why not
			return nil
		default:
			denied = protocol.HandoverErrorf(p.Failure, "%s", p.NoStates)
		}
	}
	return denied
}

// handOn puts into a hand-over what the prompt's computation left: the KV state, or else what the engine has in its place, and why there is no state.
// What it returns is called when the hand-over is published, or given up; it may be nil.
func (s *Stage) handOn(t *protocol.Task, next *jobs.Handover, p engine.Prefilled, denied *protocol.HandoverError) (settled func(done bool)) {
	switch {
	case p.State != nil:
		if denied = s.offer(next, p.State); denied == nil {
			t.Event(jobs.Event{Type: jobs.EventSaved, Bytes: p.State.Bytes, Seconds: p.State.Saved.Seconds()})
			return s.offered(t.Job.ID)
		}
		p.Kind = jobs.KindNone
	case p.Failure != "":
		denied, p.Note = &protocol.HandoverError{Failure: p.Failure, Message: p.Note}, ""
	}
	if s.bare {
		p.Kind, p.Context, p.Note = jobs.KindNone, nil, ""
	}
	next.Kind, next.Context, next.FirstToken = p.Kind, p.Context, p.FirstToken
	next.Decision += ": " + handed(p.Kind)
	if p.Note != "" {
		next.Decision += "; " + p.Note
	}
	if denied != nil {
		t.Event(notHandedOver(denied))
		s.without(next, denied)
	}
	return nil
}

// offered is what to call when the hand-over of a state is published, or given up.
func (s *Stage) offered(jobID string) func(done bool) {
	return func(done bool) {
		if done {
			s.holder.Published(jobID)
		} else {
			s.holder.Release(jobID)
		}
	}
}

// handed says in words what a hand-over without the KV state saves.
func handed(kind jobs.Kind) string {
	if kind == jobs.KindContext {
		return "the context (token ids) was handed over; the decode machine computes the identical request again, so nothing was saved"
	}
	return "nothing could be handed over; the decode machine computes the prompt again, so nothing was saved"
}

// offer puts into a hand-over the state that prefill left in a file, which is removed if that fails.
func (s *Stage) offer(next *jobs.Handover, f *engine.StateFile) *protocol.HandoverError {
	id := next.Job.ID
	state, err := s.holder.Offer(id, f.Path, f.Rows...)
	if err != nil {
		s.remove(id, f.Path)
		return asHandoverError(jobs.FailSave, err)
	}
	state.Tokens, state.Fingerprint, state.First, state.SaveSeconds, state.Prefix = f.Tokens, f.Fingerprint, f.First, f.Saved.Seconds(), f.Prefix
	if err := state.Validate(); err != nil { // or the job would fail because of its state
		s.holder.Release(id)
		return protocol.HandoverErrorf(jobs.FailSave, "the KV state cannot be described: %w", err)
	}
	s.sizes.note(state.Bytes)
	fixed := int64(0)
	if m := s.about().KVTransfer; m != nil {
		fixed = m.FixedBytes
	}
	s.rates.ObserveSave(f.Tokens, f.Bytes, fixed, f.Saved)
	next.Kind, next.State = jobs.KindState, &state
	return nil
}

// without says in a hand-over why it has no KV state. That the engine moves none is no news of this job, and what is between two machines is logged once.
func (s *Stage) without(next *jobs.Handover, why *protocol.HandoverError) {
	next.Failure, next.Reason = why.Failure, why.Error()
	next.Decision += "; no KV state, because " + why.Error()
	switch why.Failure {
	case jobs.FailNoState:
	case jobs.FailStopped, jobs.FailFingerprint, jobs.FailDiffer:
		next.Warnings = append(next.Warnings, notUsed(why))
	default:
		next.Warnings = append(next.Warnings, notUsed(why))
		s.log.Warn("no KV state is handed over", "job", next.Job.ID, "attempt", next.Attempts, "failure", why.Failure, "error", why)
		return
	}
	if _, said := s.said.LoadOrStore(why.Error(), true); !said {
		s.log.Warn("no KV states are handed over, until that changes", "failure", why.Failure, "error", why)
	}
}

// NextState is how many bytes the next KV state may have: as many as the largest of the last ones.
func (s *Stage) NextState() int64 { return s.sizes.largest() }

// sizes are those of the last states, in bytes.
type sizes struct {
	mu   sync.Mutex
	last []int64
}

func (s *sizes) note(bytes int64) {
	const remembered = 16
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = append(s.last, bytes)
	s.last = s.last[max(0, len(s.last)-remembered):]
}

func (s *sizes) largest() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.last) == 0 {
		return 0
	}
	return slices.Max(s.last)
}

// remove removes the file of a state that nobody needs any more.
func (s *Stage) remove(jobID, path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.log.Warn("the file of a KV state cannot be removed", "job", jobID, "error", err)
	}
}

// asHandoverError gives a cause that says nothing of itself a failure.
func asHandoverError(f jobs.Failure, err error) *protocol.HandoverError {
	if known, ok := errors.AsType[*protocol.HandoverError](err); ok {
		return known
	}
	return protocol.HandoverErrorf(f, "%w", err)
}
