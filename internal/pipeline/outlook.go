package pipeline

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/schedule"
	"tandem/jobs"
)

// slotCount is how many requests this worker's engine computes at once.
func (s *Stage) slotCount() int {
	if s.slots == nil {
		return 1
	}
	return s.slots.Size()
}

// Next says whether this worker, which has a free slot, should take the next job of the intake now, one of plan auto, or leave it to others.
func (s *Stage) Next(b protocol.Backlog) protocol.Choice {
	if b.Head == nil {
		return protocol.Choice{}
	}
	size := s.size(b.Head)
	s.seen.note(b.Head.ID, size)
	s.running.unexpect(func(e expected) bool { return e.job == b.Head.ID })
	peers := s.workers()
	intake := b.Intake - expectedBy(peers, &b)
	if intake <= 0 {
		return protocol.Choice{Again: seconds(leastWait)} // others are about to fetch it
	}
	_, denied := s.mayExport(b.Head)
	o := s.outlook(b.Head, size, s.noHandover(denied), peers, intake, b.Relay)
	best, options, ok := o.Next(s.worker)
	s.log.Debug("looked ahead", "job", b.Head.ID, "best", best, "options", options, "intake", o.Intake, "relay", o.Relay, "workers", o.Running())
	switch {
	case !ok:
		return protocol.Choice{Take: s.role == protocol.RolePrefill, Again: time.Second} // somebody must
	case best.Action == schedule.Wait, best.Action == schedule.Continue:
		return protocol.Choice{Leave: seconds(min(2*best.Next, longestLeave)), Again: seconds(min(max(best.Next, leastWait), longestLook))}
	}
	s.running.expect(b.Head.ID, b.Place, s.course(b.Head.Model, size, best.Action == schedule.HandOver, 0, s.running.prompts()))
	return protocol.Choice{Take: true, Why: s.way(best, options, intake)}
}

// expectedBy is how many jobs of the intake other workers are about to fetch. One that was just fetched may still be called so.
func expectedBy(peers []engine.Peer, b *protocol.Backlog) (n int) {
	for _, p := range peers {
		for _, r := range p.Running {
			if r.Expected && b.Has(r.Place) {
				n++
			}
		}
	}
	return n
}

// What waits is looked at again after so many seconds, and left for so many at most.
const (
	leastWait    = 0.02
	longestLook  = 5
	longestLeave = 600
)

// Running is what this worker is at.
func (s *Stage) Running() []protocol.Running { return s.running.list() }

// outlook is what this worker knows of the work that there is, and of the others at one moment. None is why a prefill worker can hand over no KV state
// of the next job.
func (s *Stage) outlook(head *jobs.Job, size engine.Size, none string, peers []engine.Peer, intake, relay int) *engine.Outlook {
	about := s.about()
	self := engine.Peer{
		Worker: s.worker, Role: s.role, Machine: machineOf(s.server), Slots: s.slotCount(), Rates: s.rates.With(about.KVTransfer), Running: s.running.list(),
		Rows: s.Rows(),
	}
	self.Prefixes, self.Copies = s.prefixes.Held()
	if self.NoStates = s.takes(); about.KVTransfer != nil {
		self.CacheType = about.KVTransfer.Fingerprint.CacheK
	}
	workers := append([]engine.Peer{self}, peers...)
	if s.role == protocol.RolePrefill {
		for i := range workers {
			workers[i].NoStates = cmp.Or(workers[i].NoStates, none)
		}
	}
	return &engine.Outlook{
		Model: head.Model, Workers: workers, Sizes: []engine.Size{size, s.following(head, size), s.seen.average(size)},
		Intake: []schedule.Lot{{Kind: 0, Count: min(intake, 1)}, {Kind: 1, Count: max(0, intake-1)}}, Relay: relay, Typical: 2,
	}
}

// following is what the jobs behind the next one are like: as it says, or else as those were that came before.
func (s *Stage) following(next *jobs.Job, size engine.Size) engine.Size {
	f := next.Following
	if f.Jobs == 0 || f.PromptBytes == 0 {
		return s.seen.average(size)
	}
	text := engine.TextOf(next)
	text.Bytes, text.Limit = f.PromptBytes/f.Jobs, -1
	text.Shared = min(text.Shared, text.Bytes)
	if f.AnswerTokens > 0 {
		text.Limit = f.AnswerTokens / f.Jobs
	}
	return s.sizeOf(next.Model, text)
}

// size estimates a job by its text, and what answers were like so far.
func (s *Stage) size(j *jobs.Job) engine.Size { return s.sizeOf(j.Model, engine.TextOf(j)) }

func (s *Stage) sizeOf(model string, text engine.Text) engine.Size {
	self := engine.Peer{Role: s.role, Rates: s.rates.Snapshot()}
	workers := append([]engine.Peer{self}, s.workers()...)
	return text.Size(engine.BytesPerToken(workers[:1]).Value, engine.Answer(model, text.Kind, text.Limit, workers).Value)
}

// way says in words what was chosen, and why.
func (s *Stage) way(best schedule.Option, options []schedule.Option, waiting int) string {
	line := map[schedule.Action]string{
		schedule.HandOver: "hand over", schedule.Whole: "whole on the " + string(s.role) + " machine",
	}[best.Action]
	for _, o := range options {
		if o.Action == best.Action {
			continue
		}
		other := map[schedule.Action]string{
			schedule.HandOver: "by handing over", schedule.Whole: "whole on the " + string(s.role) + " machine", schedule.Wait: "left to another machine",
		}[o.Action]
		return line + fmt.Sprintf(": %d waiting jobs will have ended in %.1f s; %s, in %.1f s", waiting, best.End, other, o.End)
	}
	return line + fmt.Sprintf(": %d waiting jobs will have ended in %.1f s; nothing else was possible", waiting, best.End)
}

// seen is what jobs were like lately. It is safe for concurrent use.
type seen struct {
	mu      sync.Mutex
	last    string // job
	n       float64
	tokens  float64
	prefix  float64
	answers float64
}

// note takes the size of a job, once.
func (s *seen) note(job string, z engine.Size) {
	const most = 5 // jobs that count
	s.mu.Lock()
	defer s.mu.Unlock()
	if job == s.last {
		return
	}
	s.last = job
	s.n = min(s.n+1, most)
	share := 1 / s.n
	s.tokens += (float64(z.Tokens) - s.tokens) * share
	s.prefix += (float64(z.Prefix) - s.prefix) * share
	s.answers += (float64(z.Generated) - s.answers) * share
}

// average is what a job is like, if it shares the prefix of the next one.
func (s *seen) average(next engine.Size) engine.Size {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		return next
	}
	return engine.Size{Tokens: max(1, int(s.tokens)), Prefix: int(s.prefix), Generated: int(s.answers), Key: next.Key}
}
