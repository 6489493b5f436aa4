package schedule

import (
	"cmp"
	"math"
	"slices"
)

// slot is one of a machine's in a simulation.
type slot struct {
	machine int
	free    float64 // when it has ended what it does
	wake    float64 // when it looks for more; +Inf if nothing is known that would change anything for it
	waits   bool
	warm    bool
}

// simulation follows a scene under a rule.
type simulation struct {
	*Scene
	rule  rule
	now   float64
	slots []slot
	ready []Ready // by time
	links []float64
	lot   int // of the intake, and how many were taken of it
	taken int
	left  int // in the intake
	Forecast
	done int
}

// horizon is how many jobs of the intake are followed, for each slot: what comes later hardly changes what is best now.
const horizon = 96

// simulate follows the scene to its end. The slot of a machine begins with the first action; a machine below 0 is none.
func (s *Scene) simulate(r rule, machine, nth int, first Action) Forecast {
	m := simulation{Scene: s, rule: r, ready: slices.Clone(s.Relay), links: make([]float64, len(s.Machines))}
	at := -1
	for i := range s.Machines {
		for k, sl := range s.Machines[i].Slots {
			if i == machine && k == nth {
				at, sl.Free = len(m.slots), 0
			}
			m.slots = append(m.slots, slot{machine: i, free: sl.Free, wake: sl.Free, warm: sl.Warm})
			if sl.Hand && sl.Free > 0 && len(s.Intake) > 0 {
				m.offer(sl.Free, s.Intake[0].Kind)
			}
		}
	}
	for _, l := range s.Intake {
		m.left += l.Count
	}
	m.left = min(m.left, horizon*len(m.slots))
	if at >= 0 && !m.act(at, first) {
		return Forecast{End: math.Inf(1)}
	}
	for m.left > 0 || len(m.ready) > 0 {
		next := 0
		for i := range m.slots {
			if m.slots[i].wake < m.slots[next].wake {
				next = i
			}
		}
		if math.IsInf(m.slots[next].wake, 1) {
			return Forecast{End: math.Inf(1)} // nobody takes what is left
		}
		m.now = max(m.now, m.slots[next].wake)
		if m.act(next, m.choose(next)) && !m.slots[next].waits {
			m.news()
		}
	}
	if m.done > 0 {
		m.Mean /= float64(m.done)
	}
	for i := range m.slots {
		m.End = max(m.End, m.slots[i].free)
	}
	return m.Forecast
}

// act has a slot begin something now, and reports whether it can.
func (m *simulation) act(i int, a Action) bool {
	sl := &m.slots[i]
	machine := &m.Machines[sl.machine]
	switch a {
	case Continue:
		r := m.firstReady()
		if r < 0 || m.ready[r].At > m.now || !machine.Takes {
			return false
		}
		t := &machine.Times[m.ready[r].Kind]
		m.ready = slices.Delete(m.ready, r, r+1)
		sl.warm = true
		m.begin(i, 0, t.Restore+t.generate(m.busy(i)))
		m.end(sl.free)
	case Whole:
		if m.left == 0 {
			return false
		}
		t := &machine.Times[m.take()]
		m.begin(i, m.prompt(sl, t), t.generate(m.busy(i)))
		m.end(sl.free)
	case HandOver:
		if m.left == 0 || machine.Decode || !m.anyTakes() {
			return false
		}
		kind := m.take()
		t := &machine.Times[kind]
		m.begin(i, m.prompt(sl, t)+t.Save, 0)
		m.offer(sl.free, kind)
	default:
		sl.waits, sl.wake = true, m.change(i)
		if m.Next == 0 {
			m.Next = sl.wake
		}
	}
	return true
}

// news has those that wait know of what has begun.
func (m *simulation) news() {
	for i := range m.slots {
		if sl := &m.slots[i]; sl.waits {
			sl.wake = min(sl.wake, m.change(i))
		}
	}
}

// prompt is what a prompt takes in a slot, which has the shared prefix then.
func (m *simulation) prompt(sl *slot, t *Times) float64 {
	p := t.Prompt
	if !sl.warm {
		p += t.Prefix
	}
	sl.warm = true
	return p
}

// begin has a slot do something that nothing else of the machine can be done beside, and then something that can.
func (m *simulation) begin(i int, alone, beside float64) {
	sl := &m.slots[i]
	if alone > 0 {
		for k := range m.slots {
			if o := &m.slots[k]; k != i && o.machine == sl.machine && o.free > m.now {
				o.free += alone
				o.wake = max(o.wake, o.free)
			}
		}
	}
	sl.free = m.now + alone + beside
	sl.wake, sl.waits = sl.free, false
}

// end counts a job that is done.
func (m *simulation) end(at float64) {
	m.done++
	m.Mean += at
}

// offer has a KV state ready as soon as a decode machine can have fetched it.
func (m *simulation) offer(at float64, kind int) {
	to := -1
	for i := range m.Machines {
		if m.Machines[i].Decode && m.Machines[i].Takes && (to < 0 || m.links[i] < m.links[to]) {
			to = i
		}
	}
	if to < 0 {
		return
	}
	m.links[to] = max(m.links[to], at) + m.Machines[to].Times[kind].Move
	r := Ready{m.links[to], kind}
	place, _ := slices.BinarySearchFunc(m.ready, r, func(a, b Ready) int { return cmp.Compare(a.At, b.At) })
	m.ready = slices.Insert(m.ready, place, r)
}

func (m *simulation) firstReady() int {
	best := -1
	for i, r := range m.ready {
		if best < 0 || r.At < m.ready[best].At {
			best = i
		}
	}
	return best
}

// take takes the next job of the intake.
func (m *simulation) take() (kind int) {
	for m.taken >= m.Intake[m.lot].Count {
		m.lot, m.taken = m.lot+1, 0
	}
	m.taken++
	m.left--
	return m.Intake[m.lot].Kind
}

// next is the kind of the next job of the intake.
func (m *simulation) next() int {
	lot, taken := m.lot, m.taken
	for taken >= m.Intake[lot].Count {
		lot, taken = lot+1, 0
	}
	return m.Intake[lot].Kind
}

// busy is how many slots of a slot's machine are at work, it included.
func (m *simulation) busy(i int) int {
	n := 1
	for k := range m.slots {
		if k != i && m.slots[k].machine == m.slots[i].machine && m.slots[k].free > m.now {
			n++
		}
	}
	return n
}

// change is when something changes next for a slot that waits: another has ended its work, or a state is ready.
func (m *simulation) change(i int) float64 {
	at := math.Inf(1)
	for k := range m.slots {
		if f := m.slots[k].free; k != i && f > m.now {
			at = min(at, f)
		}
	}
	for _, r := range m.ready {
		if r.At > m.now {
			at = min(at, r.At)
		}
	}
	return at
}

func (m *simulation) anyTakes() bool {
	return slices.ContainsFunc(m.Machines, func(x Machine) bool { return x.Decode && x.Takes && len(x.Slots) > 0 })
}
