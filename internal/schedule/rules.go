package schedule

import "math"

// rule is how free slots go on after the action that is being looked at.
type rule struct {
	// feed is for prefill machines: a whole request is begun there only if decode has work for so many times as long as that, the next prompt and its
	// way to the decode machine take. 0 has them do nothing but whole requests, +Inf none.
	feed float64
	// soonest has them take the way in which the job itself ends sooner instead.
	soonest bool
	// whole is for decode machines: what they do with nothing to go on from.
	whole decodeRule
}

type decodeRule int

const (
	never  decodeRule = iota // wait
	sooner                   // a whole request, if computing its prompt takes less than waiting
	always                   // a whole request
)

// rules are those under which a scene is followed. Each is the best for some machines and loads; who knows the future, decides by the best.
func rules() []rule {
	var list []rule
	for _, d := range []decodeRule{never, sooner, always} {
		for _, p := range []rule{{feed: math.Inf(1)}, {feed: 1}, {feed: 0.5}, {soonest: true}, {feed: 0}} {
			p.whole = d
			list = append(list, p)
		}
	}
	return list
}

// choose is what a slot does under the simulation's rule.
func (m *simulation) choose(i int) Action {
	sl := &m.slots[i]
	machine := &m.Machines[sl.machine]
	if machine.Decode {
		return m.chooseDecode(sl, machine)
	}
	if m.left == 0 {
		return Wait
	}
	t := &machine.Times[m.next()]
	prompt := t.Prompt
	if !sl.warm {
		prompt += t.Prefix
	}
	whole := prompt + t.generate(m.busy(i))
	dry, after, slots := m.decodeWork()
	move := m.moveTime(m.next())
	hand := max(prompt+t.Save+move, dry) + after
	if slots == 0 {
		hand = math.Inf(1)
	}
	switch {
	case m.left == 1 && m.rule.whole == always && m.wholeElsewhere() < min(whole, hand):
		return Wait // the last one ends where it ends soonest
	case slots == 0 || (m.left == 1 || m.rule.soonest) && whole <= hand:
		return Whole
	case m.left == 1 || m.rule.soonest:
		return HandOver
	case dry >= m.rule.feed*(whole+t.Prompt+t.Save+move):
		return Whole
	}
	return HandOver
}

func (m *simulation) chooseDecode(sl *slot, machine *Machine) Action {
	wait := math.Inf(1)
	if r := m.firstReady(); r >= 0 && machine.Takes {
		if wait = m.ready[r].At - m.now; wait <= 0 {
			return Continue
		}
	}
	if m.left == 0 {
		return Wait
	}
	t := &machine.Times[m.next()]
	prompt := t.Prompt
	if !sl.warm {
		prompt += t.Prefix
	}
	switch m.rule.whole {
	case always:
		return Whole
	case sooner:
		if prompt < wait+t.Restore {
			return Whole
		}
	}
	return Wait
}

// wholeElsewhere is how long it takes a decode machine to have done the next job whole.
func (m *simulation) wholeElsewhere() float64 {
	best := math.Inf(1)
	for i := range m.slots {
		sl := &m.slots[i]
		if machine := &m.Machines[sl.machine]; machine.Decode {
			t := &machine.Times[m.next()]
			took := max(0, sl.free-m.now) + t.Prompt + t.generate(m.busy(i))
			if !sl.warm {
				took += t.Prefix
			}
			best = min(best, took)
		}
	}
	return best
}

// decodeWork is for how long the decode machines have work, on average, and what one more job would take there.
func (m *simulation) decodeWork() (dry, after float64, slots int) {
	work := 0.0
	for i := range m.slots {
		sl := &m.slots[i]
		machine := &m.Machines[sl.machine]
		if !machine.Decode || !machine.Takes {
			continue
		}
		slots++
		work += max(0, sl.free-m.now)
		if m.left > 0 {
			t := &machine.Times[m.next()]
			after += t.Restore + t.generate(len(machine.Slots))
		}
	}
	if slots == 0 {
		return 0, 0, 0
	}
	after /= float64(slots)
	for _, r := range m.ready {
		first := true
		for i := range m.Machines {
			if x := &m.Machines[i]; first && x.Decode && x.Takes {
				work += x.Times[r.Kind].Restore + x.Times[r.Kind].generate(len(x.Slots))
				first = false
			}
		}
	}
	return work / float64(slots), after, slots
}

// moveTime is how long a KV state is on its way.
func (m *simulation) moveTime(kind int) float64 {
	for i := range m.Machines {
		if x := &m.Machines[i]; x.Decode && x.Takes {
			return x.Times[kind].Move
		}
	}
	return 0
}
