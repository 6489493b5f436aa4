// Package pipeline holds the stages of a job, without any queue: what prefill, decode and fallback
// ask of an engine, and what the job's records say about it. What to do with a failure is not
// decided here: a stage returns the error and protocol.Classify decides.
package pipeline

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// Stage runs tasks on one engine. It is safe for concurrent use.
type Stage struct {
	engine  engine.Engine
	server  string // "machine/worker", named in results
	about   func() engine.Description
	rates   *engine.Rates
	slots   *engine.Slots
	holder  Holder
	differs func(ctx context.Context, server string) string
	engines func(server string) string
	strict  bool
	samples samples
	bare    bool
	fetcher Fetcher
	pairs   *Pairs
	log     *slog.Logger
	sizes   sizes
	ahead   ahead
	rows    rows
	kept    kept

	suspects suspects
	said     sync.Map // why no KV states are handed over

	role     jobs.Stage
	worker   string
	workers  func() []engine.Peer
	takes    func() string
	decoding func() int
	prefixes *engine.Prefixes
	running  running
	seen     seen
	deciding sync.Mutex
}

// Config describes a [Stage].
type Config struct {
	Engine engine.Engine
	Server string                    // "machine/worker"
	About  func() engine.Description // the engine's last description of itself
	Rates  *engine.Rates             // of this worker
	Slots  *engine.Slots             // of the engine, one of which each task has; nil is one
	Log    *slog.Logger

	// Holder holds the KV states of a prefill worker until they were used. Without one no state is meant to be
	// handed over.
	Holder Holder
	// Bare has prefill hand over nothing but the job.
	Bare bool

	// Fetcher and Pairs are needed in a decode worker.
	Fetcher Fetcher
	Pairs   *Pairs
	// Differs is why KV states of a prefill worker, named "machine/worker", are not taken: its engine computes something else than the one here. It may be nil.
	Differs func(ctx context.Context, server string) string
	// Engines names the engine of a prefill worker and the one here, as they were last started. It may be nil.
	Engines func(server string) string
	// Strict has KV states be taken only from engines that name their builds as the one here does.
	Strict bool
	// AheadBudget is how many bytes of KV states may be on a decode worker's disk for jobs that wait for a slot.
	AheadBudget int64

	// What follows is for jobs with plan auto.
	Role     jobs.Stage           // of this worker
	Workers  func() []engine.Peer // the other live workers of the model
	NoStates func() string        // why this worker takes no KV states of them; empty if it does
	Decoding func() int           // counts the jobs that wait or run at decode; a prefill worker needs it
	Changed  func()               // is called when what this worker is at has changed
	// Prefixes is told which shared prefixes come to be in the engine's cache. It may be nil.
	Prefixes *engine.Prefixes
}

// New returns the stages of a worker.
func New(c Config) *Stage {
	if c.Differs == nil {
		c.Differs = func(context.Context, string) string { return "" }
	}
	if c.Engines == nil {
		c.Engines = func(server string) string { return server }
	}
	if c.About == nil {
		c.About = func() engine.Description { return engine.Description{} }
	}
	if c.Workers == nil {
		c.Workers = func() []engine.Peer { return nil }
	}
	if c.NoStates == nil {
		c.NoStates = func() string { return "" }
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	if c.Decoding == nil {
		c.Decoding = func() int { return 0 }
	}
	if c.Slots == nil {
		c.Slots = engine.NewSlots(1)
	}
	if c.Prefixes == nil {
		c.Prefixes = engine.NewPrefixes(1)
	}
	return &Stage{
		engine: c.Engine, server: c.Server, about: c.About, rates: c.Rates, slots: c.Slots, holder: c.Holder, differs: c.Differs, engines: c.Engines, strict: c.Strict, samples: samples{every: sampleEvery}, bare: c.Bare,
		fetcher: c.Fetcher, pairs: c.Pairs, log: c.Log,
		role: c.Role, worker: workerOf(c.Server), workers: c.Workers, takes: c.NoStates, decoding: c.Decoding, prefixes: c.Prefixes,
		running: running{changed: c.Changed, tasks: map[*protocol.Task]*course{}},
		ahead:   ahead{budget: c.AheadBudget, fetched: map[*protocol.Task]fetched{}},
	}
}

// Run runs one task and returns the next hop or the result. If the context ends, the error is its cause.
func (s *Stage) Run(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
	run := s.generate
	switch {
	case t.Stage == jobs.StagePrefill:
		run = s.prefill
	case handsOver(t):
		run = s.decodeState
	case t.Stage == jobs.StageDecode && t.Handover != nil && t.Handover.Prefill != nil:
		run = s.decode
	}
	outcome, err := run(ctx, t)
	if err != nil || outcome.Next == nil {
		s.running.end(t)
		if err != nil && ctx.Err() != nil {
			return protocol.Outcome{}, context.Cause(ctx)
		}
		return outcome, err
	}
	s.running.hop(t)
	settled := outcome.Settled
	outcome.Settled = func(done bool) {
		s.running.end(t)
		if settled != nil {
			settled(done)
		}
	}
	return outcome, nil
}

const (
	longestSilence = 15 * time.Minute // that a worker that has measured nothing yet expects of a long prompt
	leastFileTime  = 30 * time.Second // for an engine to write or read a KV state
	slowestDisk    = 50 << 20         // bytes a second
)

// request is the engine's view of the task. Prompt processing may be silent for three times as
// long as this worker's own rate says, where all slots share the engine, and for what else it does beside.
func (s *Stage) request(t *protocol.Task, beside time.Duration) engine.Request {
	req := engine.RequestOf(t.Job)
	req.Progress = t.Progress
	t.Expect(min(3*s.rates.PrefillTime(t.Job.TextBytes())*time.Duration(s.slots.Size()), longestSilence) + beside)
	return req
}

// fileTime is how long an engine may be silent while it writes or reads a KV state of so many bytes.
func fileTime(bytes int64) time.Duration {
	return leastFileTime + time.Duration(bytes/slowestDisk)*time.Second
}

// computed keeps what computing a prompt showed of the engine. The engine did so for a time that ended so long ago.
func (s *Stage) computed(j *jobs.Job, tokens, computed int, took, ago time.Duration) {
	if j.Embed != nil { // many short texts at once, which are no prompt
		return
	}
	end := time.Now().Add(-ago)
	s.rates.ObservePrefill(j.TextBytes(), tokens, computed, s.slots.MeanBusy(end.Add(-took), end), took)
}
