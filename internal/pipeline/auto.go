package pipeline

import (
	"context"

	"tandem/internal/engine"
	"tandem/internal/jobs"
)

// decide chooses the way of a job with plan auto, by what is known at this moment of this machine and of the decode workers.
func (s *Stage) decide(ctx context.Context, t *jobs.Task) engine.Decision {
	j := t.Job
	peer, slots := freest(s.peers())
	q := engine.Question{
		Tokens:  max(1, s.rates.Tokens(PromptBytes(j))),
		Prefill: engine.SpeedsOf(j.Model, jobs.RolePrefill, s.rates.With(s.about().Mover)),
		Decode:  engine.SpeedsOf(j.Model, jobs.RoleDecode, peer.Rates), NoDecode: slots == 0,
	}
	req, cached := engine.RequestOf(j), 0
	if e, ok := s.engine.(engine.Estimator); ok {
		if estimate, err := e.Estimate(ctx, req); err == nil {
			q.Tokens, cached = max(1, estimate.PromptTokens), estimate.CachedTokens
		} else {
			s.log.Debug("the engine cannot say what a prompt will cost", "job", j.ID, "error", err)
		}
	}
	q.UncachedPrefill = max(1, q.Tokens-cached)
	q.UncachedDecode = max(1, q.Tokens-peer.Prefixes[engine.PrefixKey(req)])
	q.Generated = int(q.Decode.Generated(engine.KindOf(j)).Value)
	if limit := j.Options.NumPredict; limit != nil && *limit >= 0 {
		q.Generated = min(q.Generated, *limit)
	}
	q.QueueDecode = engine.Wait(s.decoding(), slots, q.Decode.Job(q.Tokens).Value)
	q.StateBytes = int64(q.Prefill.StateBytes(q.Tokens, peer.CacheType).Value)
	q.Link = q.Decode.Link(machineOf(s.server))
	q.NoHandover = s.noHandover(j, peer)
	return engine.Decide(q)
}

// freest is the decode worker that will probably take the job, and how many slots all of them have.
func freest(peers []engine.Peer) (freest engine.Peer, slots int) {
	for i, p := range peers {
		slots += p.Slots
		if i == 0 || p.Slots-p.Busy > freest.Slots-freest.Busy {
			freest = p
		}
	}
	return freest, slots
}

// noHandover is why no KV state of a job's prompt can be handed over; empty if one can.
func (s *Stage) noHandover(j *jobs.Job, peer engine.Peer) string {
	if s.holder == nil {
		return "the prefill worker offers none"
	}
	if _, denied := s.mayExport(j); denied != nil {
		return denied.Error()
	}
	return peer.NoStates
}

// whole does a request of plan auto here, both phases of it.
func (s *Stage) whole(ctx context.Context, t *jobs.Task, d engine.Decision) (jobs.Outcome, error) {
	o, err := s.generate(ctx, t)
	if err != nil {
		return o, err
	}
	r := o.Result
	r.Decision = d.String()
	r.Attempts = jobs.Attempts{Prefill: t.Attempt}
	r.Timings.QueuePrefillSeconds, r.Timings.QueueDecodeSeconds = r.Timings.QueueDecodeSeconds, 0
	return o, nil
}
