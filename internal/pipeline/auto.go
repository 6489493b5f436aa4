package pipeline

import (
	"context"
	"slices"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/schedule"
	"tandem/jobs"
)

// decide chooses the way of a job with plan auto that this prefill worker has fetched, by what is known at this moment of this machine, of the
// decode workers and of what else there is to do, and says why.
func (s *Stage) decide(ctx context.Context, t *protocol.Task) (way engine.Way, why string) {
	q, size := s.question(ctx, t.Job, s.workers())
	s.seen.note(t.Job.ID, size)
	s.deciding.Lock() // jobs of several slots one after the other: what is decided of one counts for the next
	defer s.deciding.Unlock()
	b := protocol.Backlog{Intake: 1}
	if t.Backlog != nil && t.Job.Class == jobs.Batch { // last, that what waits and what the others are at are of one moment
		b = t.Backlog(ctx)
	}
	turn := s.running.arrived(t.Job)
	if way, why = s.wayOf(t.Job, q, size, b, s.workers()); way != engine.WayDecode {
		s.foresee(t, way == engine.WayHandover, false, turn)
	}
	return way, why
}

// wayOf is what decide says.
func (s *Stage) wayOf(j *jobs.Job, q engine.Question, size engine.Size, b protocol.Backlog, peers []engine.Peer) (engine.Way, string) {
	d := engine.Decide(q)
	if j.Class == jobs.Interactive || b.Intake == 1 && b.Relay == 0 && len(s.running.list()) == 0 && !slices.ContainsFunc(peers, func(p engine.Peer) bool { return len(p.Running) > 0 }) {
		return d.Way, d.String() // nothing counts but this one
	}
	intake := max(1, b.Intake-expectedBy(peers, &b))
	o := s.outlook(j, size, peers, intake, b.Relay)
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

// question is what a job will cost on this machine and on the decode worker that will probably take it.
func (s *Stage) question(ctx context.Context, j *jobs.Job, peers []engine.Peer) (engine.Question, engine.Size) {
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
	q.NoHandover = s.noHandover(j, peer)
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

// foresee notes how a task will probably go on, now that its way is known; the engine turns to it in so many seconds.
func (s *Stage) foresee(t *protocol.Task, hands, restores bool, turn float64) {
	state := int64(0)
	if restores {
		state = t.Handover.State.Bytes
	}
	c := s.course(t.Job, hands, state, turn)
	c.relayed = !t.Intake
	s.running.begin(t, c)
	s.prefixes.Begins(c.prefix, s.running.with(c.prefix))
}

// course is how a job will probably go on to which the engine turns in so many seconds: computed and handed over; from a KV state of so many bytes, unless
// that is 0; or whole.
func (s *Stage) course(j *jobs.Job, hands bool, state int64, turn float64) course {
	size := s.size(j)
	self := engine.Peer{Role: s.role, Slots: s.slotCount(), Rates: s.rates.With(s.about().KVTransfer)}
	bytes := float64(state)
	if state == 0 {
		bytes = engine.SpeedsOf(j.Model, s.role, self.Rates).StateBytes(size.Tokens, "").Value
	}
	times := self.Times(j.Model, "", size, bytes)
	c := course{turn: turn, before: turn, hands: hands, prefix: size.Key}
	if state > 0 {
		c.before += times.Restore
	} else if c.before += times.Prompt; size.Key != "" {
		if _, slots := s.prefixes.Held(); slots[size.Key] <= s.running.with(size.Key) {
			c.before += times.Prefix
		}
	}
	if hands {
		c.before += times.Save
		return c
	}
	c.tokens = float64(size.Generated)
	c.perSecond = c.tokens / max(times.Generate[min(s.slotCount(), s.running.busy()+1)-1], 1e-9)
	return c
}
