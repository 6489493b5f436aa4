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
	most         int         // jobs of the intake that are followed
	shares       [][]float64 // of each machine: by how much each answer is slower while so many go on
	prefillSlots int

	rule    rule
	now     float64
	engines []engine
	queue   []int   // kinds of the jobs whose states nobody fetches yet
	ready   []Ready // of the others, by time
	links   []float64
	lot     int // of the intake, and how many were taken of it
	taken   int
	left    int   // in the intake
	busy    int   // slots
	waits   *slot // the first action's, if that is to wait
	done    int   // jobs
	Forecast
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
		m.shares = append(m.shares, x.shares())
		m.engines[i].slots = make([]slot, len(x.Slots))
		if !x.Decode {
			m.prefillSlots += len(x.Slots)
		}
	}
	return m
}

// shares is by how much each answer is slower while one, two, … of the machine's slots generate.
func (x *Machine) shares() []float64 {
	list := []float64{1}
	for n := 1; n < len(x.Slots); n++ {
		list = append(list, list[n-1])
		for _, t := range x.Times {
			if g := t.Generate; len(g) > n && g[0] > 0 {
				list[n] = g[n] / g[0]
				break
			}
		}
	}
	return list
}

// reset begins anew.
func (m *simulation) reset(r rule) {
	m.rule, m.now, m.lot, m.taken, m.left, m.busy, m.waits, m.done, m.Forecast = r, 0, 0, 0, 0, 0, nil, 0, Forecast{}
	m.ready, m.queue = m.ready[:0], m.queue[:0]
	clear(m.links)
	for _, r := range m.Relay {
		if r.At < 0 {
			m.queue = append(m.queue, r.Kind)
		} else {
			m.ready = append(m.ready, r)
			m.links[r.Machine] = max(m.links[r.Machine], r.At)
		}
	}
	slices.SortStableFunc(m.ready, byTime)
	for _, l := range m.Intake {
		m.left += l.Count
	}
	m.left = min(m.left, m.most)
	for i := range m.Machines {
		m.resume(i)
	}
	m.fetch()
}

// resume has a machine go on with what it does.
func (m *simulation) resume(machine int) {
	slots, e := m.Machines[machine].Slots, &m.engines[machine]
	e.turn, e.answers, e.work, e.at = 0, 0, 0, 0
	generating := 0
	for _, s := range slots {
		if s.Free > 0 && !s.Hand {
			generating++
		}
	}
	for k, s := range slots {
		sl := &e.slots[k]
		*sl = slot{machine: machine, prefix: s.Prefix}
		if !(s.Free > 0) {
			continue
		}
		m.busy++
		switch {
		case s.Hand:
			sl.state, sl.at, sl.hand, sl.kind = atPrompt, s.Free, true, s.Kind
		case s.First > 0:
			sl.state, sl.at, sl.answer = atPrompt, s.First, (s.Free-s.First)/m.shares[machine][generating-1]
		default:
			sl.state, sl.at = atAnswer, s.Free/m.shares[machine][generating-1]
			e.answers++
			continue
		}
		e.turn = max(e.turn, sl.at)
	}
}

// simulate follows the scene to its end, as long as that costs less than the limit. The slot of a machine begins with the first action; a machine
// below 0 is none.
func (m *simulation) simulate(r rule, machine, nth int, first Action, limit float64) Forecast {
	m.reset(r)
	if machine >= 0 && !m.begin(&m.engines[machine], nth, first) {
		return never()
	}
	for m.left > 0 || len(m.queue) > 0 || len(m.ready) > 0 || m.busy > 0 {
		next, at := m.next()
		if at > limit || math.IsInf(at, 1) { // nobody takes what is left
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
	if sl.state != idle {
		if sl.state == atAnswer {
			e.answers--
		}
		m.busy--
		*sl = slot{machine: sl.machine, prefix: sl.prefix}
	}
	if first != Wait {
		return (first != HandOver || m.mayHand(sl)) && m.act(sl, first)
	}
	if m.busy == 0 && len(m.ready) == 0 && len(m.queue) == 0 && (!m.Machines[sl.machine].Decode || m.prefillSlots == 0) {
		return false // else all might wait for one another
	}
	m.waits = sl
	for k := range e.slots {
		if e.slots[k].state == idle {
			e.slots[k].at = math.Inf(1)
		}
	}
	return true
}

// next finds what happens next: at a slot, or nil if a state is there. Of slots that look for work at the same time those of prefill machines go first, as
// they mostly do: who decodes looks what there is before it asks for any.
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
				if sl.at < at || sl.at == at && next != nil && m.Machines[next.machine].Decode && !m.Machines[i].Decode {
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
		i := m.there(sl.machine)
		if i < 0 || !x.Takes {
			return false
		}
		kind := m.ready[i].Kind
		m.ready = slices.Delete(m.ready, i, i+1)
		sl.prefix, sl.hand, sl.answer = m.Kinds[kind].Prefix, false, x.Times[kind].Generate[0]
		m.compute(sl, x.Times[kind].Restore)
		m.fetch()
	case Whole:
		if m.left == 0 {
			return false
		}
		kind := m.take()
		sl.hand, sl.answer = false, x.Times[kind].Generate[0]
		m.compute(sl, m.prompt(sl, kind))
	case HandOver:
		if m.left == 0 || x.Decode || !m.anyTakes() {
			return false
		}
		kind := m.take()
		sl.hand, sl.kind = true, kind
		m.compute(sl, m.prompt(sl, kind)+x.Times[kind].Save)
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

// fetch has decode machines fetch states: beside those for free slots one for each slot, which waits there. One that waits goes to a machine that has
// nothing else to do: with plan auto, when the intake is empty.
func (m *simulation) fetch() {
	for len(m.queue) > 0 {
		to := m.roomiest(1)
		if to < 0 {
			break
		}
		kind := m.queue[0]
		m.queue = slices.Delete(m.queue, 0, 1)
		m.move(kind, to)
	}
	if m.left > 0 && m.rule.prefill != gated {
		return
	}
	for i := 0; i < len(m.ready); i++ {
		if r := m.ready[i]; m.room(r.Machine, 0) < 0 {
			if to := m.roomiest(0); to >= 0 {
				m.ready = slices.Delete(m.ready, i, i+1)
				m.move(r.Kind, to)
			}
		}
	}
}

// move has a machine fetch a state.
func (m *simulation) move(kind, to int) {
	m.links[to] = max(m.links[to], m.now) + m.Machines[to].Times[kind].Move
	r := Ready{m.links[to], kind, to}
	place, _ := slices.BinarySearchFunc(m.ready, r, byTime)
	m.ready = slices.Insert(m.ready, place, r)
}

// roomiest is the machine that has the most room for a state, so many waiting for each slot; of equals, whose link is free first. It is -1 if none has any.
func (m *simulation) roomiest(ahead int) (to int) {
	to, most := -1, 0
	for i := range m.Machines {
		if room := m.room(i, ahead); room > most || room > 0 && room == most && m.links[i] < m.links[to] {
			to, most = i, room
		}
	}
	return to
}

// room is how many states more a machine would fetch, if so many wait for each slot; below 0 if it has too many.
func (m *simulation) room(machine, ahead int) int {
	x, e := &m.Machines[machine], &m.engines[machine]
	if !x.Decode || !x.Takes {
		return 0
	}
	room := (1+ahead)*len(e.slots) - e.busy()
	for _, r := range m.ready {
		if r.Machine == machine {
			room--
		}
	}
	return room
}

// there is which of ready a machine can go on from now; -1 if none.
func (m *simulation) there(machine int) int {
	return slices.IndexFunc(m.ready, func(r Ready) bool { return r.Machine == machine && r.At <= m.now })
}

func byTime(a, b Ready) int { return cmp.Compare(a.At, b.At) }

// busy is how many slots are at work.
func (e *engine) busy() (n int) {
	for k := range e.slots {
		if e.slots[k].state != idle {
			n++
		}
	}
	return n
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
