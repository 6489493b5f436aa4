package schedule_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"tandem/test/rig/paced/fleet"
)

// job is one request, in tokens. What its answer will be, nobody knows who decides.
type job struct {
	class  int // of those that share a prefix
	prefix int
	own    int
	answer int
	limit  int // of the answer; 0 if none was asked for
	guess  int // what everybody believes of the answer
}

func (j *job) prompt() int { return j.prefix + j.own }

// world carries decisions out over machines that behave like the engines of a fleet: states are written and read while a machine does
// nothing else, a prompt is computed by chunks before any answer goes on, and answers share what is left. It is exact where
// [schedule.Scene] is rough, and it knows what every job really takes.
type world struct {
	fleet    *fleet.Fleet
	policy   policy
	now      float64
	intake   []*job
	relay    []*state
	links    []float64 // when the link to each machine is free
	machines []*machine
	taken    int // slots given so far
	seen     seen
	ended    []float64 // when jobs ended
	bytes    float64   // of states that were moved
	log      func(format string, args ...any)
}

// state is a KV state on its way.
type state struct {
	job *job
	to  *machine // whose worker fetches it; nil if none has room yet
	at  float64  // when it is there
}

// policy is what a machine's free slot begins, if anything. wake is when to ask again if nothing changes before.
type policy func(w *world, m *machine, s *slot) (wake float64)

// machine is an engine with its worker.
type machine struct {
	*fleet.Machine
	index  int
	slots  []*slot
	turn   *slot   // whose chunk or state it is at; nil if all answers go on
	until  float64 // when that ends
	wake   float64
	belief belief
}

// slot is one request of a machine.
type slot struct {
	m      *machine
	job    *job // nil: it is free
	steps  []step
	number int     // in the order of the requests
	done   int     // tokens of the prompt
	left   float64 // of the answer, in seconds of one alone
	spent  float64 // on the answer so far, but for what others of the machine had their turn
	hands  bool
	holds  int // the class whose prefix is in its cache; -1 if none
	used   int // number of its last request

	began, first float64 // the request, and its answer
	before, gen  float64 // what everybody believes that they take
}

type step int

const (
	restore step = iota
	compute
	save
	generate
)

func newWorld(f *fleet.Fleet, list []*job, p policy) *world {
	w := &world{fleet: f, policy: p, intake: slices.Clone(list), links: make([]float64, len(f.Machines))}
	for i := range f.Machines {
		m := &machine{Machine: &f.Machines[i], index: i, belief: newBelief()}
		for range m.Slots {
			m.slots = append(m.slots, &slot{m: m, holds: -1})
		}
		w.machines = append(w.machines, m)
	}
	return w
}

func (m *machine) decodes() bool { return m.Role == "decode" }

// slower is by what the machine's times are multiplied.
func (m *machine) slower() float64 { return cmp.Or(m.Slower, 1) }

// run returns when the last job has ended.
func (w *world) run() float64 {
	total := len(w.intake)
	for range 1000 * (total + 10) {
		w.offer()
		next := math.Inf(1)
		for _, m := range w.machines {
			next = min(next, w.next(m))
		}
		for _, s := range w.relay {
			if s.to != nil && s.at > w.now {
				next = min(next, s.at)
			}
		}
		if math.IsInf(next, 1) {
			break
		}
		for _, m := range w.machines {
			w.advance(m, next)
		}
		w.now = next
	}
	if len(w.ended) != total {
		panic(fmt.Sprintf("%d of %d jobs have ended after %.1f s: %d wait, %d states", len(w.ended), total, w.now, len(w.intake), len(w.relay)))
	}
	return w.ended[total-1]
}

// offer asks for what free slots should begin, until nothing more begins.
func (w *world) offer() {
	for again := true; again; {
		again = false
		w.fetch()
		for _, m := range w.machines {
			m.wake = math.Inf(1)
			if s := m.free(w); s != nil {
				wake := w.policy(w, m, s)
				if s.job != nil {
					again = true
				} else if wake > w.now {
					m.wake = wake
				}
			}
		}
	}
	for _, m := range w.machines {
		if m.turn == nil {
			w.takeTurn(m)
		}
	}
}

// free is the slot of a machine that the next request would get: one with its prefix, else the one that was idle longest.
func (m *machine) free(w *world) (best *slot) {
	better := func(a, b *slot) bool {
		if len(w.intake) > 0 && (a.holds == w.intake[0].class) != (b.holds == w.intake[0].class) {
			return a.holds == w.intake[0].class
		}
		return a.used < b.used
	}
	for _, s := range m.slots {
		if s.job == nil && (best == nil || better(s, best)) {
			best = s
		}
	}
	return best
}

// fetch has decode machines fetch states: one for each slot beyond those that are at work. A state that waits for its machine's slot
// goes to another machine that has one free.
func (w *world) fetch() {
	for _, s := range w.relay {
		best, room := s.to, 0
		if s.to != nil && w.room(s.to, 0) >= 0 {
			continue // it will not wait
		}
		ahead := 0
		if s.to == nil {
			ahead = 1
		}
		for _, m := range w.machines {
			if r := w.room(m, ahead); m.decodes() && r > room {
				best, room = m, r
			}
		}
		if best == s.to {
			continue
		}
		bytes := w.fleet.StateBytes(s.job.prompt())
		w.links[best.index] = max(w.links[best.index], w.now) + bytes/w.fleet.LinkBytesPerSecond
		s.to, s.at = best, w.links[best.index]
		w.bytes += bytes
	}
}

// room is how many states more a machine has slots for, and so many more for each of its slots.
func (w *world) room(m *machine, ahead int) int {
	room := ahead * m.Slots
	for _, s := range m.slots {
		if s.job == nil {
			room++
		}
	}
	for _, s := range w.relay {
		if s.to == m {
			room--
		}
	}
	return room
}

// ready takes the first state that is there for a machine.
func (w *world) ready(m *machine) *job {
	i := slices.IndexFunc(w.relay, func(s *state) bool { return s.to == m && s.at <= w.now+1e-9 })
	if i < 0 {
		return nil
	}
	j := w.relay[i].job
	w.relay = slices.Delete(w.relay, i, i+1)
	return j
}

// take takes the next job of the intake.
func (w *world) take() *job {
	j := w.intake[0]
	w.intake = w.intake[1:]
	return j
}

// begin has a slot do the steps of a job.
func (w *world) begin(s *slot, j *job, steps ...step) {
	w.taken++
	s.job, s.steps, s.number, s.used, s.began, s.first, s.spent = j, steps, w.taken, w.taken, w.now, 0, 0
	s.hands = slices.Contains(steps, save)
	s.done = 0
	if steps[0] == restore {
		s.done = j.prompt()
	} else if s.holds == j.class {
		s.done = j.prefix
	}
	busy := 0
	for _, other := range s.m.slots {
		if other.job != nil {
			busy++
		}
	}
	t := w.believed(s.m, j)
	s.gen = t.Generate[busy-1]
	switch {
	case steps[0] == restore:
		s.before = t.Restore
	case s.hands:
		s.before, s.gen = t.Prompt+t.Save, 0
	default:
		s.before = t.Prompt
	}
	if s.done == 0 {
		s.before += t.Prefix
	}
	s.holds = j.class
	s.left = float64(j.answer) * s.m.TokenSeconds(j.prompt()+j.answer/2, 1)
}

// chunk is how many tokens of a prompt a machine computes before others have a turn.
const chunk = 2048

// takeTurn begins what nothing else of the machine can be done beside: a state, else a chunk of a prompt; of each the oldest.
func (w *world) takeTurn(m *machine) {
	var first *slot
	for _, s := range m.slots {
		if s.job == nil || s.steps[0] == generate {
			continue
		}
		if first == nil || cmp.Or(cmp.Compare(turns(s), turns(first)), cmp.Compare(s.number, first.number)) < 0 {
			first = s
		}
	}
	if m.turn = first; first == nil {
		return
	}
	bytes, seconds := w.fleet.StateBytes(first.job.prompt()), 0.0
	switch first.steps[0] {
	case restore:
		seconds = bytes / m.RestoreBytesPerSecond
	case save:
		seconds = bytes / m.SaveBytesPerSecond
	case compute:
		seconds = m.PrefillSeconds(min(first.done+chunk, first.job.prompt()), first.done)
	}
	m.until = w.now + seconds*m.slower()
}

// turns is 0 for who goes first.
func turns(s *slot) int {
	if s.steps[0] == compute {
		return 1
	}
	return 0
}

// generating are the slots whose answers go on.
func (m *machine) generating() (list []*slot) {
	for _, s := range m.slots {
		if s.job != nil && s.steps[0] == generate {
			list = append(list, s)
		}
	}
	return list
}

// share is how much slower each of so many answers goes on than one alone.
func (m *machine) share(busy int) float64 {
	return m.slower() * m.TokenSeconds(4096, busy) / m.TokenSeconds(4096, 1)
}

// next is when something happens at a machine.
func (w *world) next(m *machine) float64 {
	if m.turn != nil {
		return min(m.until, m.wake)
	}
	at := m.wake
	list := m.generating()
	for _, s := range list {
		at = min(at, w.now+s.left*m.share(len(list)))
	}
	return at
}

// advance has a machine go on until a moment, at which at most one thing ends.
func (w *world) advance(m *machine, to float64) {
	list := m.generating()
	if m.turn != nil {
		if to >= m.until-1e-9 {
			if m.turn.steps[0] == compute {
				for _, s := range list { // gain a token by it
					s.left -= m.TokenSeconds(s.job.prompt(), 1)
				}
			}
			m.turn.end(w, to)
			m.turn = nil
		}
		return
	}
	for _, s := range list {
		s.spent += to - w.now
		if s.left -= (to - w.now) / m.share(len(list)); s.left <= 1e-9 {
			s.end(w, to)
		}
	}
}

// end ends a step.
func (s *slot) end(w *world, now float64) {
	if s.steps[0] == compute {
		if s.done = min(s.done+chunk, s.job.prompt()); s.done < s.job.prompt() {
			return
		}
		s.m.belief.computed(s.m.slower())
	}
	last := s.steps[0]
	s.steps = s.steps[1:]
	switch {
	case len(s.steps) > 0:
		if s.steps[0] == generate {
			s.first = now
		}
		return
	case last == save:
		w.relay = append(w.relay, &state{job: s.job})
	default:
		s.m.belief.generated(s.m.slower())
		w.ended = append(w.ended, now)
	}
	s.job = nil
}
