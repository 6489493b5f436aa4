package schedule

import (
	"cmp"
	"math"
	"slices"
)

// simulation follows a scene under a rule. A machine computes prompts and moves states one at a time, while none of its answers goes on;
// these go on side by side.
type simulation struct {
	*Scene
	most   int         // jobs of the intake that are followed
	shares [][]float64 // of each machine: by how much an answer is slower while so many go on

	rule     rule
	lastOnes int
	now      float64
	engines  []engine
	queue    []int   // kinds of the jobs whose states nobody fetches yet
	ready    []Ready // of the others, by time
	links    []float64
	lot      int // of the intake, and how many were taken of it
	taken    int
	left     int // in the intake
	busy     int // slots
	waits    *slot
	Forecast
	done int
}

// engine is a machine as it goes on.
type engine struct {
	slots   []slot
	turn    float64 // until when it is at prompts and states
	answers int     // that go on otherwise
	work    float64 // what each of these has got since the beginning, in seconds of one alone
	at      float64 // when that was so
}

// slot is one of a machine's.
type slot struct {
	machine int
	state   slotState
	at      float64 // idle: when it looks for more; at a prompt: its end; at an answer: what the engine's work is at its end
	answer  float64 // at a prompt: what its answer takes alone
	hand    bool    // at a prompt: its state is handed over
	kind    int     // of its job, if so
	prefix  int     // in its cache
}

type slotState int

const (
	idle slotState = iota
	atPrompt
	atAnswer
)

// simulation prepares to follow so many jobs of the intake.
func (s *Scene) simulation(most int) *simulation {
	m := &simulation{Scene: s, most: most, engines: make([]engine, len(s.Machines)), links: make([]float64, len(s.Machines))}
	for i := range s.Machines {
		x := &s.Machines[i]
		share := []float64{1}
		for n := 1; n < len(x.Slots); n++ {
			share = append(share, share[n-1])
			for _, t := range x.Times {
				if g := t.Generate; len(g) > n && g[0] > 0 {
					share[n] = g[n] / g[0]
					break
				}
			}
		}
		m.shares = append(m.shares, share)
		m.engines[i].slots = make([]slot, len(x.Slots))
	}
	return m
}

// reset begins anew.
func (m *simulation) reset(r rule) {
	m.rule, m.now, m.lot, m.taken, m.left, m.busy, m.waits, m.Forecast, m.done = r, 0, 0, 0, 0, 0, nil, Forecast{}, 0
	m.ready, m.queue = m.ready[:0], m.queue[:0]
	for _, r := range m.Relay {
		if r.At < 0 {
			m.queue = append(m.queue, r.Kind)
		} else {
			m.ready = append(m.ready, r)
		}
	}
	clear(m.links)
	for _, l := range m.Intake {
		m.left += l.Count
	}
	m.left = min(m.left, m.most)
	for i := range m.Machines {
		x, e := &m.Machines[i], &m.engines[i]
		e.turn, e.answers, e.work, e.at = 0, 0, 0, 0
		for _, sl := range x.Slots {
			if sl.Free > 0 && !sl.Hand {
				e.answers++
			}
		}
		for k, from := range x.Slots {
			sl := &e.slots[k]
			*sl = slot{machine: i, prefix: from.Prefix}
			if from.Free <= 0 {
				continue
			}
			m.busy++
			switch {
			case from.Hand:
				*sl = slot{machine: i, prefix: from.Prefix, state: atPrompt, at: from.Free, hand: true, kind: from.Kind}
				e.turn = max(e.turn, from.Free)
			case from.First > 0:
				*sl = slot{machine: i, prefix: from.Prefix, state: atPrompt, at: from.First, answer: (from.Free - from.First) / m.shares[i][e.answers-1]}
				e.turn = max(e.turn, from.First)
			default:
				*sl = slot{machine: i, prefix: from.Prefix, state: atAnswer, at: from.Free / m.shares[i][e.answers-1]}
			}
		}
		for k := range e.slots {
			if sl := &e.slots[k]; sl.state == atPrompt && !sl.hand {
				e.answers--
			}
		}
	}
}

// simulate follows the scene to its end, as long as that costs less than the limit. The slot of a machine begins with the first action; a machine
// below 0 is none.
func (m *simulation) simulate(r rule, machine, nth int, first Action, limit float64) Forecast {
	m.reset(r)
	m.lastOnes = 0
	for i := range m.Machines {
		if !m.Machines[i].Decode {
			m.lastOnes += len(m.Machines[i].Slots)
		}
	}
	m.lastOnes = max(1, m.lastOnes)
	m.fetch()
	if machine >= 0 && !m.begin(&m.engines[machine], nth, first) {
		return never()
	}
	for m.left > 0 || len(m.queue) > 0 || len(m.ready) > 0 || m.busy > 0 {
		next, at := m.next()
		if math.IsInf(at, 1) || at > limit { // nobody takes what is left
			return never()
		}
		m.now = max(m.now, at)
		if next == nil {
			m.wake()
		} else {
			m.step(next)
		}
	}
	if m.done > 0 {
		m.Mean /= float64(m.done)
	}
	return m.Forecast
}

// begin has the slot that is decided about do its first action, and reports whether it can.
func (m *simulation) begin(e *engine, nth int, first Action) bool {
	sl := &e.slots[nth]
	switch {
	case sl.state == atAnswer:
		e.answers--
		fallthrough
	case sl.state == atPrompt:
		m.busy--
		*sl = slot{machine: sl.machine, prefix: sl.prefix}
	}
	if first == HandOver && !m.mayHand(sl) {
		return false
	}
	if first != Wait {
		return m.act(sl, first)
	}
	if m.busy == 0 && len(m.ready) == 0 && len(m.queue) == 0 && (!m.Machines[sl.machine].Decode || !m.anyPrefill()) {
		return false // else all of them would wait for one another
	}
	m.waits = sl
	for k := range e.slots {
		if e.slots[k].state == idle {
			e.slots[k].at = math.Inf(1)
		}
	}
	return true
}

// next finds what happens next: at a slot, or nil if a state is there.
func (m *simulation) next() (next *slot, at float64) {
	at = math.Inf(1)
	for _, r := range m.ready {
		if r.At > m.now {
			at = r.At
			break
		}
	}
	for i := range m.engines {
		e := &m.engines[i]
		var first *slot
		for k := range e.slots {
			sl := &e.slots[k]
			if sl.state != atAnswer {
				if sl.at < at {
					next, at = sl, sl.at
				}
			} else if first == nil || sl.at < first.at {
				first = sl
			}
		}
		if first != nil {
			if end := max(e.at, e.turn) + (first.at-e.work)*m.shares[i][e.answers-1]; end < at {
				next, at = first, end
			}
		}
	}
	return next, at
}

// step has a slot end what it does, or begin something.
func (m *simulation) step(sl *slot) {
	e := &m.engines[sl.machine]
	switch {
	case sl.state == idle:
		m.act(sl, m.choose(sl))
		return
	case sl.state == atAnswer:
		m.advance(e, sl.machine)
		e.answers--
		m.done++
		m.Mean += m.now
		m.End = m.now
	case sl.hand:
		m.queue = append(m.queue, sl.kind)
	default:
		m.advance(e, sl.machine)
		e.answers++
		sl.state, sl.at = atAnswer, e.work+sl.answer
		return
	}
	m.busy--
	sl.state, sl.at = idle, m.now
	m.fetch()
	m.wake()
}

// wake has those look again who wait for something to change.
func (m *simulation) wake() {
	for i := range m.engines {
		e := &m.engines[i]
		for k := range e.slots {
			if sl := &e.slots[k]; sl.state == idle && sl.at > m.now {
				sl.at = m.now
				if m.waits == sl && m.Next == 0 {
					m.Next = m.now
				}
			}
		}
	}
}

// advance brings the answers of a machine to the present.
func (m *simulation) advance(e *engine, machine int) {
	if from := max(e.at, e.turn); e.answers > 0 && m.now > from {
		e.work += (m.now - from) / m.shares[machine][e.answers-1]
	}
	e.at = m.now
}

// act has a slot begin something now, and reports whether it can.
func (m *simulation) act(sl *slot, a Action) bool {
	x := &m.Machines[sl.machine]
	switch a {
	case Continue:
		if len(m.ready) == 0 || m.ready[0].At > m.now || !x.Takes {
			return false
		}
		kind := m.ready[0].Kind
		m.ready = slices.Delete(m.ready, 0, 1)
		sl.prefix = m.Kinds[kind].Prefix
		m.compute(sl, x.Times[kind].Restore)
		sl.answer, sl.hand = x.Times[kind].Generate[0], false
		m.fetch()
	case Whole:
		if m.left == 0 {
			return false
		}
		kind := m.take()
		m.compute(sl, m.prompt(sl, kind))
		sl.answer, sl.hand = x.Times[kind].Generate[0], false
	case HandOver:
		if m.left == 0 || x.Decode || !m.anyTakes() {
			return false
		}
		kind := m.take()
		m.compute(sl, m.prompt(sl, kind)+x.Times[kind].Save)
		sl.kind, sl.hand = kind, true
		m.Handed++
		m.Bytes += m.Kinds[kind].Bytes
	default:
		sl.at = math.Inf(1)
	}
	return true
}

// prompt is what a prompt takes in a slot, which has the shared prefix then.
func (m *simulation) prompt(sl *slot, kind int) float64 {
	t := &m.Machines[sl.machine].Times[kind]
	p := t.Prompt
	if prefix := m.Kinds[kind].Prefix; sl.prefix != prefix {
		p += t.Prefix
		sl.prefix = prefix
	}
	return p
}

// compute has a slot do something that nothing else of the machine can be done beside.
func (m *simulation) compute(sl *slot, seconds float64) {
	e := &m.engines[sl.machine]
	m.advance(e, sl.machine)
	e.turn = max(e.turn, m.now) + seconds
	sl.state, sl.at = atPrompt, e.turn
	m.busy++
}

// fetch has decode machines fetch states: for each slot one that waits there until the slot is free.
func (m *simulation) fetch() {
	if len(m.queue) == 0 {
		return
	}
	to, room := -1, -len(m.ready)
	for i := range m.Machines {
		if x := &m.Machines[i]; !x.Decode || !x.Takes {
			continue
		}
		for k := range m.engines[i].slots {
			room++
			if m.engines[i].slots[k].state == idle {
				room++
			}
		}
		if to < 0 || m.links[i] < m.links[to] {
			to = i
		}
	}
	for ; room > 0 && len(m.queue) > 0; room-- {
		kind := m.queue[0]
		m.queue = slices.Delete(m.queue, 0, 1)
		m.links[to] = max(m.links[to], m.now) + m.Machines[to].Times[kind].Move
		r := Ready{m.links[to], kind}
		place, _ := slices.BinarySearchFunc(m.ready, r, func(a, b Ready) int { return cmp.Compare(a.At, b.At) })
		m.ready = slices.Insert(m.ready, place, r)
		for i := range m.Machines { // the next one over the least busy link
			if x := &m.Machines[i]; x.Decode && x.Takes && m.links[i] < m.links[to] {
				to = i
			}
		}
	}
}

// take takes the next job of the intake.
func (m *simulation) take() (kind int) {
	kind = m.head()
	m.taken++
	m.left--
	return kind
}

// head is the kind of the next job of the intake.
func (m *simulation) head() int {
	for m.taken >= m.Intake[m.lot].Count {
		m.lot, m.taken = m.lot+1, 0
	}
	return m.Intake[m.lot].Kind
}

func (m *simulation) anyTakes() bool {
	return slices.ContainsFunc(m.Machines, func(x Machine) bool { return x.Decode && x.Takes && len(x.Slots) > 0 })
}

func (m *simulation) anyPrefill() bool {
	return slices.ContainsFunc(m.Machines, func(x Machine) bool { return !x.Decode && len(x.Slots) > 0 })
}
