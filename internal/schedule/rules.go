package schedule

import "math"

// rule is how free slots go on after the action that is being looked at.
type rule struct {
	prefill prefillRule
	feed    float64 // of feeds
	whole   bool    // decode machines with no state to go on from take whole requests; else they wait
}

type prefillRule int

const (
	// feeds hands over until decode has work for as long as a whole request here, and then the next prompt and its way to the decode machine,
	// would take, times feed; then it takes whole requests. The last ones end where they end soonest.
	feeds    prefillRule = iota
	soonest              // each request goes the way on which it ends soonest by itself
	wholes               // nothing but whole requests
	gated                // plan disaggregated: all are handed over, as long as decode has no more than two jobs a slot
	inactive             // plan local
)

// gate is how many jobs for each decode slot are handed over and not done with plan disaggregated: see internal/queue/pressure.go.
const gate = 2

// enough is for how many times as long as [feeds] says decode has work at most. What is at decode machines stays there, also if they turn out to be
// slower than was believed, or answers longer; and it is on their disks.
const enough = 1.5

// horizon is how many jobs of the intake are followed for a decision.
const horizon = 512

// autoRules are those under which plan auto is followed. Each is the best for some machines and loads; who knows the future, decides by the best.
func autoRules() []rule {
	return []rule{
		{feeds, 1, false}, {feeds, 0.5, false}, {soonest, 0, false}, {wholes, 0, false},
		{feeds, 1, true}, {feeds, 0.5, true}, {soonest, 0, true}, {wholes, 0, true},
	}
}

// rules are those of a plan.
func (p Plan) rules() []rule {
	switch p {
	case Disaggregated:
		return []rule{{prefill: gated}}
	case Local:
		return []rule{{prefill: inactive, whole: true}}
	}
	return autoRules()
}

// choose is what a free slot does under the simulation's rule.
func (m *simulation) choose(sl *slot) Action {
	x := &m.Machines[sl.machine]
	switch {
	case x.Decode:
		if x.Takes && m.there(sl.machine) >= 0 {
			return Continue
		}
		if m.left > 0 && m.rule.whole {
			return Whole
		}
		return Wait
	case m.left == 0 || m.rule.prefill == inactive:
		return Wait
	case m.rule.prefill == wholes:
		return Whole
	}
	l := m.look(sl)
	switch {
	case m.left == 1 && m.rule.whole && m.wholeElsewhere() < min(l.whole, l.handed):
		return Wait // the last one ends where it ends soonest
	case l.slots == 0:
		return Whole
	case m.rule.prefill == gated:
		if l.jobs < gate*l.slots {
			return HandOver
		}
		return Wait
	case m.rule.prefill == soonest || m.left <= m.prefillSlots:
		if l.whole <= l.handed {
			return Whole
		}
	case l.work >= m.rule.feed*l.lead:
		return Whole
	}
	if l.work >= enough*l.lead {
		return Wait
	}
	return HandOver
}

// wholeElsewhere is how long it takes a decode machine to have done the next job whole.
func (m *simulation) wholeElsewhere() float64 {
	kind, best := m.head(), math.Inf(1)
	for i := range m.Machines {
		x, e := &m.Machines[i], &m.engines[i]
		if !x.Decode {
			continue
		}
		work := 0.0
		if e.busy() == len(x.Slots) {
			work = m.remaining(i)
		}
		for k := range e.slots {
			prompt := x.Times[kind].Prompt
			if e.slots[k].prefix != m.Kinds[kind].Prefix {
				prompt += x.Times[kind].Prefix
			}
			best = min(best, work+prompt+x.Times[kind].Generate[0])
		}
	}
	return best
}

// mayHand reports whether decode has less work than enough.
func (m *simulation) mayHand(sl *slot) bool {
	if m.left == 0 || !m.anyTakes() {
		return false
	}
	l := m.look(sl)
	return l.work < enough*l.lead
}

// look is what a prefill machine's free slot sees.
type look struct {
	slots  int     // of the decode machines
	jobs   int     // that these have, or will have been handed
	work   float64 // for how long these have work, on average
	whole  float64 // when the next job ends if it stays here
	handed float64 // when it ends if it is handed over
	lead   float64 // when another one can be at a decode machine if it stays here
}

func (m *simulation) look(sl *slot) (l look) {
	kind := m.head()
	t := &m.Machines[sl.machine].Times[kind]
	e := &m.engines[sl.machine]
	prompt := t.Prompt
	if sl.prefix != m.Kinds[kind].Prefix {
		prompt += t.Prefix
	}
	machines, after, move := 0.0, 0.0, 0.0
	l.jobs = len(m.ready) + len(m.queue)
	for i := range m.Machines {
		x, d := &m.Machines[i], &m.engines[i]
		switch {
		case !x.Decode:
			for k := range d.slots {
				if d.slots[k].state == atPrompt && d.slots[k].hand {
					l.jobs++
				}
			}
		case x.Takes:
			if machines == 0 {
				l.work += m.waiting(i)
			}
			machines++
			l.slots += len(x.Slots)
			l.jobs += d.busy()
			l.work += m.remaining(i)
			after += x.Times[kind].Restore + x.Times[kind].Generate[0]*m.shares[i][len(x.Slots)-1]
			move = x.Times[kind].Move
		}
	}
	l.whole = max(0, e.turn-m.now) + prompt + t.Generate[0]*m.shares[sl.machine][e.answers]
	if machines == 0 {
		l.handed = math.Inf(1)
		return l
	}
	l.work, after = l.work/machines, after/machines
	l.handed = max(prompt+t.Save+move, l.work) + after
	l.lead = l.whole + t.Prompt + t.Save + move
	return l
}

// remaining is for how long a machine has work still, if its slots stay as many.
func (m *simulation) remaining(machine int) float64 {
	e := &m.engines[machine]
	work := 0.0
	for k := range e.slots {
		switch sl := &e.slots[k]; sl.state {
		case atPrompt:
			work += sl.answer
		case atAnswer:
			work += sl.at - e.work
		}
	}
	if from := max(e.at, e.turn); e.answers > 0 && m.now > from {
		work -= (m.now - from) / m.shares[machine][e.answers-1] * float64(e.answers)
	}
	return max(0, e.turn-m.now) + work*m.each(machine)
}

// waiting is for how long a decode machine would have work with the states that wait.
func (m *simulation) waiting(machine int) (work float64) {
	times := m.Machines[machine].Times
	for _, r := range m.ready {
		work += times[r.Kind].Restore + times[r.Kind].Generate[0]*m.each(machine)
	}
	for _, kind := range m.queue {
		work += times[kind].Restore + times[kind].Generate[0]*m.each(machine)
	}
	return work
}

// each is how long a machine needs for a second of an answer alone, with all slots at work.
func (m *simulation) each(machine int) float64 {
	n := len(m.shares[machine])
	return m.shares[machine][n-1] / float64(n)
}
