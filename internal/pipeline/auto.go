package pipeline

import (
	"cmp"
	"context"
	"slices"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/schedule"
	"tandem/jobs"
)

// route is the way of a job that a prefill worker has fetched, and what was found when it was chosen.
type route struct {
	way      engine.Way
	decision string
	bytes    int64                   // of the prompt's KV state, about
	denied   *protocol.HandoverError // why that is not to be handed over; nil if it may be
}

// route finds the way of a job by its plan, and notes how it will probably go on, if this worker has to do with it.
func (s *Stage) route(ctx context.Context, t *protocol.Task) (r route) {
	switch t.Job.EffectivePlan() {
	case jobs.PlanLocal:
		return route{way: engine.WayDecode, decision: "local, as asked: both phases on the decode machine"}
	case jobs.PlanAuto:
		r.bytes, r.denied = s.mayExport(t.Job)
		r.way, r.decision = s.decide(ctx, t, r.denied)
	default:
		r = route{way: engine.WayHandover, decision: "disaggregated, as asked"}
		r.bytes, r.denied = s.mayExport(t.Job)
		s.foresee(t, s.size(t.Job), true, 0, s.running.prompts())
	}
	return r
}

// decide chooses the way of a job with plan auto, by what is known at this moment of this machine, of the decode workers and of what else there is to
// do, and says why. Denied is why its KV state cannot be handed over.
func (s *Stage) decide(ctx context.Context, t *protocol.Task, denied *protocol.HandoverError) (way engine.Way, why string) {
	none := s.noHandover(denied)
	q, size := s.question(ctx, t.Job, s.workers(), none)
	s.seen.note(t.Job.ID, size)
	s.deciding.Lock() // jobs of several slots one after the other: what is decided of one counts for the next
	defer s.deciding.Unlock()
	b := protocol.Backlog{Intake: 1}
	if t.Backlog != nil && t.Job.Class == jobs.Batch { // last, that what waits and what the others are at are of one moment
		b = t.Backlog(ctx)
	}
	turn := s.running.arrived(t.Job)
	if way, why = s.wayOf(t.Job, q, size, none, b, s.workers()); way != engine.WayDecode {
		s.foresee(t, size, way == engine.WayHandover, 0, turn)
	}
	return way, why
}

// wayOf is what decide says.
func (s *Stage) wayOf(j *jobs.Job, q engine.Question, size engine.Size, none string, b protocol.Backlog, peers []engine.Peer) (engine.Way, string) {
	d := engine.Decide(q)
	if j.Class == jobs.Interactive || b.Intake == 1 && b.Relay == 0 && len(s.running.list()) == 0 && !slices.ContainsFunc(peers, func(p engine.Peer) bool { return len(p.Running) > 0 }) {
		return d.Way, d.String() // nothing counts but this one
	}
	intake := max(1, b.Intake-expectedBy(peers, &b))
	o := s.outlook(j, size, none, peers, intake, b.Relay)
	best, options, ok := o.Next(s.worker)
	if ok && best.Action == schedule.Wait { // too late: it is here
		ok = false
		for _, other := range options {
			if other.Action != schedule.Wait && (!ok || other.End < best.End) {
				best, ok = other, true
			}
		}
	}
	if !ok || best.Action == schedule.HandOver && q.NoHandover != "" {
		return d.Way, d.String()
	}
	s.log.Debug("looked ahead", "job", j.ID, "best", best, "options", options, "intake", o.Intake, "relay", o.Relay, "workers", o.Running())
	way := engine.WayHandover
	if best.Action == schedule.Whole {
		way = engine.WayPrefill
	}
	return way, s.way(best, options, intake) + d.Figures()
}

// question is what a job will cost on this machine and on the decode worker that will probably take it. None is why this worker can hand over no KV state.
func (s *Stage) question(ctx context.Context, j *jobs.Job, peers []engine.Peer, none string) (engine.Question, engine.Size) {
	peer, slots := freest(peers)
	size := s.size(j)
	q := engine.Question{
		Tokens:  size.Tokens,
		Prefill: engine.SpeedsOf(j.Model, protocol.RolePrefill, s.rates.With(s.about().KVTransfer)),
		Decode:  engine.SpeedsOf(j.Model, protocol.RoleDecode, peer.Rates), NoDecode: slots == 0,
	}
	req, cached := engine.RequestOf(j), 0
	if e, ok := s.engine.(engine.Estimator); ok {
		if estimate, err := e.Estimate(ctx, req); err == nil {
			q.Tokens, cached = max(1, estimate.PromptTokens), estimate.CachedTokens
			size.Prefix = size.Prefix * q.Tokens / size.Tokens
			size.Tokens = q.Tokens
		} else {
			s.log.Debug("the engine cannot say what a prompt will cost", "job", j.ID, "error", err)
		}
	}
	q.UncachedPrefill = max(1, q.Tokens-cached)
	q.UncachedDecode = max(1, q.Tokens-peer.Prefixes[engine.PrefixKey(req)])
	q.Generated = int(q.Decode.Generated(engine.KindOf(j), engine.LimitOf(j)).Value)
	q.QueueDecode = engine.Wait(s.decoding(), slots, q.Decode.Job(q.Tokens).Value)
	q.StateBytes = int64(q.Prefill.StateBytes(q.Tokens, peer.CacheType).Value)
	q.Link = q.Decode.Link(machineOf(s.server))
	q.NoHandover = cmp.Or(none, peer.NoStates)
	return q, size
}

// freest is the decode worker that will probably take the job, and how many slots all of them have.
func freest(peers []engine.Peer) (freest engine.Peer, slots int) {
	for _, p := range peers {
		if p.Role != protocol.RoleDecode {
			continue
		}
		if slots == 0 || p.Slots-p.Busy > freest.Slots-freest.Busy {
			freest = p
		}
		slots += p.Slots
	}
	return freest, slots
}

// noHandover says why this worker hands over no KV state of a job; empty if it may.
func (s *Stage) noHandover(denied *protocol.HandoverError) string {
	switch {
	case s.holder == nil:
		return "the prefill worker offers none"
	case denied != nil:
		return denied.Error()
	}
	return ""
}

// whole does a request of plan auto here, both phases of it.
func (s *Stage) whole(ctx context.Context, t *protocol.Task, decision string) (protocol.Outcome, error) {
	s.yield(t)
	o, err := s.generate(ctx, t)
	if err != nil {
		return o, err
	}
	r := o.Result
	r.Decision = decision
	r.Attempts = jobs.Attempts{Prefill: t.Attempt}
	r.Timings.QueuePrefillSeconds, r.Timings.QueueDecodeSeconds = r.Timings.QueueDecodeSeconds, 0
	return o, nil
}

// yield lets a batch job that is done whole because of plan auto give way to interactive ones.
func (s *Stage) yield(t *protocol.Task) {
	if t.Yields != nil && t.Job.Class == jobs.Batch && t.Job.EffectivePlan() == jobs.PlanAuto {
		t.Yields()
	}
}
