package pipeline

import (
	"context"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// prefill computes the prompt and hands the job on to decode.
func (s *Stage) prefill(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
	next := &jobs.Handover{
		V: jobs.Version, Stage: jobs.StageDecode, Job: *t.Job, Kind: jobs.KindNone, Attempts: t.Attempt,
		Decision: "disaggregated, as asked",
	}
	switch t.Job.EffectivePlan() {
	case jobs.PlanLocal:
		next.Decision = "local, as asked: both phases on the decode machine"
		return protocol.Outcome{Next: next}, nil
	case jobs.PlanAuto:
		way, why := s.decide(ctx, t)
		next.Decision = why
		switch way {
		case engine.WayDecode:
			return protocol.Outcome{Next: next}, nil
		case engine.WayPrefill:
			return s.whole(ctx, t, why)
		}
	default:
		s.foresee(t, true, false, s.running.prompts())
	}

	bytes, denied := s.mayExport(t.Job)
	req := s.request(t, fileTime(bytes))
	req.Export = s.holder != nil && denied == nil
	t.Event(jobs.Event{Type: jobs.EventPrefillBegun})
	p, err := s.engine.Prefill(ctx, req)
	if err != nil {
		return protocol.Outcome{}, err
	}
	t.Event(jobs.Event{Type: jobs.EventPrefillDone, Tokens: p.ComputedTokens, CachedTokens: p.CachedTokens, Seconds: p.Duration.Seconds()})
	s.computed(t.Job, p.PromptTokens, p.ComputedTokens, p.Duration, 0)
	s.prefixes.Computed(req, p.PromptTokens, p.PromptTokens) // its shared prefix was computed by itself
	next.Prefill = &jobs.Prefill{
		Server: s.server, QueueSeconds: t.Waited.Seconds(), Seconds: p.Duration.Seconds(),
		PromptTokens: p.PromptTokens, CachedTokens: p.CachedTokens, ComputedTokens: p.ComputedTokens,
		ModelDigest: p.ModelDigest,
	}
	if p.State != nil {
		outcome, why := s.offer(next, p.State)
		if why == nil {
			t.Event(jobs.Event{Type: jobs.EventSaved, Bytes: p.State.Bytes, Seconds: p.State.Saved.Seconds()})
			return outcome, nil
		}
		denied, p.Kind = why, jobs.KindNone
	} else if p.Failure != "" {
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
	return protocol.Outcome{Next: next}, nil
}

// handed says in words what a hand-over without the KV state saves.
func handed(kind jobs.Kind) string {
	if kind == jobs.KindContext {
		return "the context (token ids) was handed over; the decode machine computes the identical request again, so nothing was saved"
	}
	return "nothing could be handed over; the decode machine computes the prompt again, so nothing was saved"
}
