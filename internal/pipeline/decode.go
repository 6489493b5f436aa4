package pipeline

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// decode generates the text of a job that was prefilled elsewhere, without a KV state.
func (s *Stage) decode(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
	h := t.Handover
	from := engine.Prefilled{
		Kind: h.Kind, Context: h.Context, FirstToken: h.FirstToken,
		PromptTokens: h.Prefill.PromptTokens, ModelDigest: h.Prefill.ModelDigest,
	}
	start := time.Now()
	s.foresee(t, s.size(t.Job), false, 0, s.running.prompts())
	t.Event(jobs.Event{Type: jobs.EventDecodeBegun})
	c, err := s.engine.Decode(ctx, s.request(t, 0), from, s.emit(t))
	if err != nil {
		return protocol.Outcome{}, err
	}
	r := s.disaggregated(t, c, start)
	s.transferred(r, t, t.Transfer)
	if h.Failure != "" {
		r.Handover = &jobs.HandoverReport{Failure: h.Failure, Message: h.Reason}
	}
	return protocol.Outcome{Result: r}, nil
}

// disaggregated fills what all jobs have in common that were prefilled elsewhere.
func (s *Stage) disaggregated(t *protocol.Task, c engine.Completion, start time.Time) *jobs.Result {
	p := t.Handover.Prefill
	r := s.result(t, c, start)
	r.Method = jobs.MethodDisaggregated
	r.Servers.Prefill = p.Server
	r.Attempts.Prefill = t.Handover.Attempts
	r.Usage.DecodeCached, r.Usage.DecodeComputed = c.CachedTokens, c.ComputedTokens
	r.Usage.PrefillCached, r.Usage.PrefillComputed = p.CachedTokens, p.ComputedTokens
	r.Timings.QueuePrefillSeconds = p.QueueSeconds
	r.Timings.PrefillSeconds = p.Seconds
	r.Timings.PrefillTokensPerSecond = engine.PerSecond(p.ComputedTokens, seconds(p.Seconds))
	r.Timings.DecodePrefillSeconds = c.PrefillDuration.Seconds()
	return r
}

// transferred says how long the hand-over took to come here, which is a warning if it was long.
func (s *Stage) transferred(r *jobs.Result, t *protocol.Task, d time.Duration) {
	r.Timings.TransferSeconds = d.Seconds()
	if d > protocol.SlowTransferAfter {
		s.log.Warn("slow context transfer", "job", t.Job.ID, "attempt", t.Attempt, "from", t.Handover.Prefill.Server, "seconds", d.Seconds())
		r.Warnings = append(r.Warnings, protocol.SlowTransferWarning(d))
	}
}

// generate runs both phases here: as planned (local), or because prefill was not to be had (fallback).
func (s *Stage) generate(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
	if t.Job.Hold {
		return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineRefused, "hold: the job ends after prefill, and no prefill worker could compute it; start one")
	}
	start := time.Now()
	if t.Stage == jobs.StageDecode { // also of one that a prefill worker sent on for that
		s.yield(t)
	}
	if t.Stage != jobs.StagePrefill { // else decide has
		turn := s.running.prompts()
		if t.Intake {
			turn = s.running.arrived(t.Job)
		}
		s.foresee(t, s.size(t.Job), false, 0, turn)
	}
	t.Event(jobs.Event{Type: jobs.EventDecodeBegun})
	run, beside := s.engine.Generate, time.Duration(0)
	if t.Job.Embed != nil {
		run, beside = s.embed, longestText*time.Duration(len(t.Job.Embed.Input))
	}
	c, err := run(ctx, s.request(t, beside), s.emit(t))
	if err != nil {
		return protocol.Outcome{}, err
	}
	s.computed(t.Job, c.PromptTokens, c.ComputedTokens, c.PrefillDuration, c.DecodeDuration)
	r := s.result(t, c, start)
	r.Servers.Prefill = s.server
	r.Method = jobs.MethodLocal
	if t.Handover != nil {
		r.Attempts.Prefill = t.Handover.Attempts
	}
	if t.Stage == jobs.StageFallback {
		r.Method = jobs.MethodFallback
		r.Warnings = append([]string{jobs.WarnFallback}, r.Warnings...)
		r.Decision = "fallback: both phases on the decode machine"
		if t.Handover != nil && t.Handover.Reason != "" {
			r.Decision += ", because " + t.Handover.Reason
		}
	}
	return protocol.Outcome{Result: r}, nil
}

// result fills what every way of generating has in common.
func (s *Stage) result(t *protocol.Task, c engine.Completion, start time.Time) *jobs.Result {
	s.measured(t, c, time.Since(start))
	r := c.Result(t.Job, s.about())
	if t.Handover != nil {
		r.Decision = t.Handover.Decision
		r.Warnings = append(slices.Clone(t.Handover.Warnings), r.Warnings...)
	}
	r.Servers.Decode = s.server
	r.Attempts.Decode = t.Attempt
	r.Timings.QueueDecodeSeconds = t.Waited.Seconds()
	r.Timings.TotalSeconds = t.SinceAccepted().Seconds()
	s.log.Debug("generated", "job", t.Job.ID, "stage", t.Stage, "attempt", t.Attempt, "tokens", c.GeneratedTokens, "seconds", time.Since(start).Seconds())
	return r
}

// measured keeps what a generation showed of the engine.
func (s *Stage) measured(t *protocol.Task, c engine.Completion, took time.Duration) {
	if t.Job.Embed != nil { // which shows nothing of how fast text is generated
		return
	}
	end := time.Now()
	generating := c.DecodeDuration
	if s.slots.Size() > 1 { // others' prompts, which are estimated by themselves, held it up
		generating = time.Duration(float64(generating) * s.running.share(t))
	}
	s.rates.ObserveDecode(c.PromptTokens, c.GeneratedTokens-1, s.slots.MeanBusy(end.Add(-c.DecodeDuration), end), generating)
	s.rates.ObserveAnswer(engine.KindOf(t.Job), engine.LimitOf(t.Job), c.GeneratedTokens)
	s.rates.ObserveJob(took)
	found := c.CachedTokens
	switch m := s.about().KVTransfer; {
	case m != nil && m.FixedBytes == 0: // plain attention: whatever a prompt begins with is found again
		found = c.PromptTokens
	case c.Imported != nil:
		found = -1
	}
	s.prefixes.Computed(engine.RequestOf(t.Job), c.PromptTokens, found)
}

// emit publishes pieces of text while the engine makes them; losing one never fails the job.
func (s *Stage) emit(t *protocol.Task) engine.Emit {
	perToken := cmp.Or(s.rates.Snapshot().PromptBytesPerToken, 4)
	calls, logprobs := 0, 0
	return func(piece jobs.Chunk) error {
		t.Progress()
		size := len(piece.Text) + len(piece.Thinking)
		for _, call := range piece.ToolCalls {
			size += len(call.Name) + len(call.Arguments)
		}
		logprobs += engine.LogprobBytes(piece.Logprobs)
		switch {
		case t.Job.Logprobs && logprobs == 0 && piece.Text != "":
			return jobs.Errorf(jobs.CodeEngineRefused, "logprobs: the engine says none; leave them out, or ask a worker of a newer one")
		case logprobs > jobs.MaxRecord/2:
			return jobs.Errorf(jobs.CodeEngineRefused, "logprobs: those of this answer are more than the %d bytes that a result holds; ask for fewer top_logprobs, or give the job a num_predict", jobs.MaxRecord/2)
		}
		s.running.emitted(t, max(1, float64(size)/perToken))
		piece.ToolCalls = jobs.WithIDs(t.Job.ID, calls, piece.ToolCalls)
		calls += len(piece.ToolCalls)
		t.Emit(piece)
		return nil
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
