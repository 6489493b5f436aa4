package pipeline

import (
	"context"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// prefill decides on a job's way, computes its prompt, and hands it on to decode, with the KV state if that can be. Each step gets what the one before found.
func (s *Stage) prefill(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
	lost := ""
	if t.Job.Continues != "" {
		if outcome, there := s.goOn(t); there {
			return outcome, nil
		}
		lost = "; what job " + t.Job.Continues + " left is not here any more"
	}
	r := s.route(ctx, t)
	next := &jobs.Handover{
		V: jobs.Version, Stage: jobs.StageDecode, Job: *t.Job, Kind: jobs.KindNone, Attempts: t.Attempt, Decision: r.decision + lost,
	}
	switch r.way {
	case engine.WayDecode:
		return protocol.Outcome{Next: next}, nil
	case engine.WayPrefill:
		return s.whole(ctx, t, r.decision)
	}
	p, err := s.compute(ctx, t, r)
	if err != nil {
		return protocol.Outcome{}, err
	}
	next.Prefill = &jobs.Prefill{
		Server: s.server, QueueSeconds: t.Waited.Seconds(), Seconds: p.Duration.Seconds(),
		PromptTokens: p.PromptTokens, CachedTokens: p.CachedTokens, ComputedTokens: p.ComputedTokens,
		ModelDigest: p.ModelDigest,
	}
	settled := s.handOn(t, next, p, r.denied)
	if t.Job.Hold {
		return s.hold(t, next, p), nil
	}
	return protocol.Outcome{Next: next, Settled: settled}, nil
}

// compute has the engine compute the prompt, and save its KV state unless that is denied.
func (s *Stage) compute(ctx context.Context, t *protocol.Task, r route) (engine.Prefilled, error) {
	req := s.request(t, fileTime(r.bytes))
	req.Export = s.holder != nil && r.denied == nil
	t.Event(jobs.Event{Type: jobs.EventPrefillBegun})
	p, err := s.engine.Prefill(ctx, req)
	if err != nil {
		return p, err
	}
	t.Event(jobs.Event{Type: jobs.EventPrefillDone, Tokens: p.ComputedTokens, CachedTokens: p.CachedTokens, Seconds: p.Duration.Seconds()})
	s.computed(t.Job, p.PromptTokens, p.ComputedTokens, p.Duration, 0)
	s.prefixes.Computed(req, p.PromptTokens, p.PromptTokens) // its shared prefix was computed by itself
	return p, nil
}
