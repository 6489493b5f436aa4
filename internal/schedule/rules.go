package schedule

import (
	"fmt"
	"math"
	"os"
)

// rule is how free slots go on after the action that is being looked at.
type rule struct {
	// feed is for prefill machines: a whole request is begun there only if decode has work for so many times as long as that, the next prompt and its
	// way to the decode machine take. 0 has them do nothing but whole requests, +Inf none.
	feed float64
	// soonest has them take the way in which the job itself ends sooner instead.
	soonest bool
	// gate is how many jobs for each decode slot are handed over, but not done, at most; 0 is any number.
	gate int
	// idle has prefill machines do nothing.
	idle bool
	// whole is for decode machines: what they do with nothing to go on from.
	whole decodeRule
}

// gateSlots is the gate of plan disaggregated: internal/queue/pressure.go.
const gateSlots = 2

type decodeRule int

const (
	neverWhole decodeRule = iota // wait
	sooner                       // a whole request, if computing its prompt takes less than waiting
	always                       // a whole request
)

// horizon is how many jobs of the intake are followed for a decision: what comes later hardly changes what is best now.
const horizon = 512

// autoRules are those under which plan auto is followed. Each is the best for some machines and loads; who knows the future, decides by the best.
func autoRules() []rule {
	var list []rule
	for _, d := range []decodeRule{neverWhole, always} {
		for _, p := range []rule{{feed: 1}, {feed: 0.5}, {soonest: true}, {feed: 0}} {
			p.whole = d
			list = append(list, p)
		}
	}
	return list
}

// choose is what a slot does under the simulation's rule.
func (m *simulation) choose(sl *slot) Action {
	x := &m.Machines[sl.machine]
	if x.Decode {
		return m.chooseDecode(sl, x)
	}
	if m.left == 0 || m.rule.idle {
		return Wait
	}
	kind := m.head()
	t := &x.Times[kind]
	prompt := t.Prompt
	if sl.prefix != m.Kinds[kind].Prefix {
		prompt += t.Prefix
	}
	if m.rule.feed == 0 && !m.rule.soonest {
		return Whole
	}
	d := m.decodeWork(kind)
	if d.slots == 0 {
		return Whole
	}
	if m.rule.gate > 0 && d.jobs >= m.rule.gate*d.slots {
		return Wait
	}
	if math.IsInf(m.rule.feed, 1) && m.rule.gate > 0 {
		return HandOver
	}
	e := &m.engines[sl.machine]
	whole := max(0, e.turn-m.now) + prompt + t.Generate[0]*m.shares[sl.machine][e.answers]
	hand := max(prompt+t.Save+d.move, d.dry) + d.after
	lead := whole + t.Prompt + t.Save + d.move
	switch {
	case math.IsInf(m.rule.feed, 1):
		if d.dry >= ahead*lead {
			return Wait
		}
		return HandOver
	case m.left <= m.lastOnes || m.rule.soonest: // the last one ends where it ends soonest
		if whole <= hand {
			return Whole
		}
		return HandOver
	case d.dry >= m.rule.feed*lead:
		return Whole
	}
	return HandOver
}

func (m *simulation) chooseDecode(sl *slot, x *Machine) Action {
	wait := math.Inf(1)
	if len(m.ready) > 0 && x.Takes {
		if wait = m.ready[0].At - m.now; wait <= 0 {
			return Continue
		}
	}
	if m.left == 0 {
		return Wait
	}
	kind := m.head()
	t := &x.Times[kind]
	prompt := t.Prompt
	if sl.prefix != m.Kinds[kind].Prefix {
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

// decoding is what the decode machines have to do.
type decoding struct {
	slots int
	jobs  int     // that they have, or will have been handed
	dry   float64 // for how long there is work, on average
	after float64 // what one more job takes there
	move  float64 // and its way to them
}

func (m *simulation) decodeWork(kind int) (d decoding) {
	machines := 0
	d.jobs = len(m.ready) + len(m.queue)
	for i := range m.Machines {
		x, e := &m.Machines[i], &m.engines[i]
		if !x.Decode {
			for k := range e.slots {
				if sl := &e.slots[k]; sl.state == atPrompt && sl.hand {
					d.jobs++
				}
			}
			continue
		}
		if !x.Takes {
			continue
		}
		machines++
		n := len(x.Slots)
		d.slots += n
		each := m.shares[i][n-1] / float64(n) // of the machine's time, for a second of an answer alone
		d.dry += max(0, e.turn-m.now)
		for k := range e.slots {
			switch sl := &e.slots[k]; sl.state {
			case atPrompt:
				d.dry += sl.answer * each
				d.jobs++
			case atAnswer:
				d.dry += (sl.at - e.work) * each
				d.jobs++
			}
		}
		if from := max(e.at, e.turn); e.answers > 0 && m.now > from {
			d.dry -= (m.now - from) / m.shares[i][e.answers-1] * each * float64(e.answers)
		}
		if machines == 1 {
			for _, r := range m.ready {
				d.dry += x.Times[r.Kind].Restore + x.Times[r.Kind].Generate[0]*each
			}
			for _, kind := range m.queue {
				d.dry += x.Times[kind].Restore + x.Times[kind].Generate[0]*each
			}
		}
		t := &x.Times[kind]
		d.after += t.Restore + t.Generate[0]*m.shares[i][n-1]
		d.move = t.Move
	}
	if machines > 0 {
		d.dry /= float64(machines)
		d.after /= float64(machines)
	}
	return d
}

var last = func() int { v := 1; fmt.Sscan(os.Getenv("LAST"), &v); return v }()
var ahead = func() float64 { v := 1.5; fmt.Sscan(os.Getenv("AHEAD"), &v); return v }()

// mayHand reports whether decode needs more work.
func (m *simulation) mayHand(sl *slot) bool {
	if m.left == 0 {
		return false
	}
	x := &m.Machines[sl.machine]
	kind := m.head()
	t := &x.Times[kind]
	prompt := t.Prompt
	if sl.prefix != m.Kinds[kind].Prefix {
		prompt += t.Prefix
	}
	e := &m.engines[sl.machine]
	d := m.decodeWork(kind)
	whole := max(0, e.turn-m.now) + prompt + t.Generate[0]*m.shares[sl.machine][e.answers]
	return d.dry < ahead*(whole+t.Prompt+t.Save+d.move)
}
