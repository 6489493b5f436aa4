package pipeline

import (
	"slices"
	"sync"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// keepFor is how long what a job with hold left is kept for the job that continues it: less than KV states that nobody waits for are held.
const keepFor = 9 * time.Minute

// mostKept bounds what is kept: so many jobs, and KV states of a part of their budget, since those of other jobs wait for room.
const (
	mostKept  = 1000
	keptShare = 4 // a quarter
)

// kept is what jobs with hold left, the oldest first.
type kept struct {
	mu   sync.Mutex
	list []keptHandover
}

type keptHandover struct {
	*jobs.Handover
	prompt string // its SHA-256
	until  time.Time
}

// keep keeps a hand-over, and gives up what has been kept for long enough, or is too much, of which it returns the jobs with states.
func (k *kept) keep(h *jobs.Handover, fits func(bytes int64) bool) (givenUp []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.list = append(k.list, keptHandover{h, h.Job.PromptSHA256(), now.Add(keepFor)})
	for len(k.list) > mostKept || now.After(k.list[0].until) || !fits(keptShare*k.bytes()) {
		if k.list[0].State != nil {
			givenUp = append(givenUp, k.list[0].Job.ID)
		}
		if k.list = k.list[1:]; len(k.list) == 0 {
			break
		}
	}
	return givenUp
}

// bytes are those of all states. The lock must be held.
func (k *kept) bytes() (n int64) {
	for _, h := range k.list {
		if h.State != nil {
			n += h.State.Bytes
		}
	}
	return n
}

// take returns what the job left that this one continues, once; nil if there is nothing of the same user, model and prompt.
func (k *kept) take(j *jobs.Job) *jobs.Handover {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.list, func(h keptHandover) bool { return h.Job.ID == j.Continues })
	if i < 0 {
		return nil
	}
	h := k.list[i]
	if h.Job.User != j.User || h.Job.Model != j.Model || h.prompt != j.PromptSHA256() || time.Now().After(h.until) {
		return nil
	}
	k.list = slices.Delete(k.list, i, i+1)
	return h.Handover
}

// hold ends a job after prefill, and keeps what it left.
func (s *Stage) hold(t *protocol.Task, next *jobs.Handover, p engine.Prefilled) protocol.Outcome {
	r := jobs.NewResult(t.Job, jobs.Succeeded)
	r.Method, r.Decision, r.Warnings, r.FinishReason = jobs.MethodDisaggregated, next.Decision, next.Warnings, jobs.FinishHeld
	r.Servers.Prefill, r.Attempts.Prefill = s.server, t.Attempt
	r.Usage.PromptTokens, r.Usage.PrefillCached, r.Usage.PrefillComputed = p.PromptTokens, p.CachedTokens, p.ComputedTokens
	r.Timings.QueuePrefillSeconds, r.Timings.PrefillSeconds = next.Prefill.QueueSeconds, next.Prefill.Seconds
	r.Timings.PrefillTokensPerSecond = engine.PerSecond(p.ComputedTokens, p.Duration)
	r.Timings.TotalSeconds = t.SinceAccepted().Seconds()
	about := s.about()
	r.Provenance.ModelDigest, r.Provenance.Engine, r.Provenance.EngineVersion = p.ModelDigest, about.Engine, about.Version
	if st := next.State; st != nil {
		r.Timings.SaveSeconds, r.Handover = st.SaveSeconds, &jobs.HandoverReport{Bytes: st.Bytes}
	} else if next.Failure != "" {
		r.Handover = &jobs.HandoverReport{Failure: next.Failure, Message: next.Reason}
	}
	return protocol.Outcome{Result: r, Settled: func(done bool) {
		switch {
		case done:
			for _, id := range s.kept.keep(next, s.fits) {
				s.holder.Release(id)
			}
		case next.State != nil:
			s.holder.Release(t.Job.ID)
		}
	}}
}

// fits reports whether states of so many bytes may be held; without a holder there are none.
func (s *Stage) fits(bytes int64) bool { return s.holder == nil || s.holder.Fits(bytes) }

// goOn hands on what the job left that this one continues; false if that is not here any more.
func (s *Stage) goOn(t *protocol.Task) (protocol.Outcome, bool) {
	before := s.kept.take(t.Job)
	if before == nil || before.State != nil && !s.holder.Pass(t.Job.Continues, t.Job.ID) {
		return protocol.Outcome{}, false
	}
	next := *before
	next.Job, next.Attempts = *t.Job, t.Attempt
	next.Decision = "goes on from the job that it continues, " + before.Decision
	if next.State == nil {
		return protocol.Outcome{Next: &next}, true
	}
	return protocol.Outcome{Next: &next, Settled: s.offered(t.Job.ID)}, true
}
