package schedule_test

import (
	"math"

	"tandem/internal/schedule"
)

// belief is what is measured of a machine by whoever decides: that it is slower than it was is known after two measurements.
type belief struct{ prompt, answer guessed }

type guessed struct {
	factor float64
	seen   int
}

func newBelief() belief { return belief{guessed{factor: 1}, guessed{factor: 1}} }

func (g *guessed) measured(factor float64) {
	if g.seen++; g.seen >= 2 {
		g.factor = factor
	}
}

func (b *belief) computed(factor float64)  { b.prompt.measured(factor) }
func (b *belief) generated(factor float64) { b.answer.measured(factor) }

// believed are the times of a job on a machine, as everybody believes.
func (w *world) believed(m *machine, j *job) schedule.Times {
	n, bytes := j.prompt(), w.fleet.StateBytes(j.prompt())
	p, g := m.belief.prompt.factor, m.belief.answer.factor
	t := schedule.Times{
		Prompt: p * m.PrefillSeconds(n, j.prefix), Prefix: p * m.PrefillSeconds(j.prefix, 0),
		Save: bytes / m.SaveBytesPerSecond, Restore: bytes / m.RestoreBytesPerSecond, Move: bytes / w.fleet.LinkBytesPerSecond,
	}
	for busy := 1; busy <= m.Slots; busy++ {
		t.Generate = append(t.Generate, g*float64(j.guess)*m.TokenSeconds(n+j.guess/2, busy))
	}
	return t
}

// scene is what is believed of a slot, as internal/pipeline does.
func (s *slot) scene(now float64) schedule.Slot {
	known := schedule.Slot{Prefix: s.holds + 1}
	if s.job == nil {
		return known
	}
	known.Hand, known.Kind = s.hands, 2
	if s.first > 0 {
		known.Free = max(0.01, s.answers())
		return known
	}
	before := s.began + s.before - now
	if before <= 0 {
		before = max(0.01, (now-s.began)/10)
	}
	if known.Free = before + s.gen; !s.hands {
		known.First = before
	}
	return known
}

// answers is for how long the slot's answer is believed to go on.
func (s *slot) answers() float64 {
	alone := s.m.TokenSeconds(s.job.prompt()+s.job.answer/2, 1)
	made := float64(s.job.answer) - s.left/alone
	perSecond := float64(s.job.guess) / s.gen
	if made > 16 && s.spent > 0 {
		perSecond = made / s.spent
	}
	return max(float64(s.job.guess)-made, 0.1*made) / perSecond
}

// seen is what the jobs were like that were at the head of the intake.
type seen struct {
	last    *job
	n       float64
	average [3]float64
}

func (s *seen) note(j *job) {
	if j == s.last {
		return
	}
	s.last = j
	s.n = min(s.n+1, 5)
	for i, v := range [...]int{j.prefix, j.own, j.guess} {
		s.average[i] += (float64(v) - s.average[i]) / s.n
	}
}

func (s *seen) typical(class int) *job {
	return &job{class: class, prefix: int(s.average[0]), own: int(s.average[1]), guess: int(s.average[2])}
}

// following is what the jobs behind the next one are like on average, as that says.
func (w *world) following() *job {
	behind := w.intake[1:]
	j := &job{class: w.intake[0].class}
	for _, b := range behind {
		j.prefix, j.own, j.guess = j.prefix+b.prefix, j.own+b.own, j.guess+b.guess
	}
	n := max(1, len(behind))
	j.prefix, j.own, j.guess = j.prefix/n, j.own/n, j.guess/n
	return j
}

// scene is what a worker knows when one of its slots is free: the next job, what those behind it are like, and what jobs were like lately.
func (w *world) scene(m *machine, free *slot) (s *schedule.Scene, slot int) {
	head := w.intake[0]
	w.seen.note(head)
	kinds := []*job{head, w.following(), w.seen.typical(head.class)}
	s = &schedule.Scene{Intake: []schedule.Lot{{Kind: 0, Count: 1}, {Kind: 1, Count: len(w.intake) - 1}}}
	for _, k := range kinds {
		s.Kinds = append(s.Kinds, schedule.Kind{Prefix: k.class + 1, Bytes: w.fleet.StateBytes(k.prompt())})
	}
	for _, x := range w.machines {
		sm := schedule.Machine{Decode: x.decodes(), Takes: x.decodes()}
		for _, k := range kinds {
			sm.Times = append(sm.Times, w.believed(x, k))
		}
		for _, sl := range x.slots {
			if sl == free {
				slot = len(sm.Slots)
			}
			sm.Slots = append(sm.Slots, sl.scene(w.now))
		}
		s.Machines = append(s.Machines, sm)
	}
	for _, r := range w.relay {
		ready := schedule.Ready{At: -1, Kind: 2}
		if r.to != nil {
			ready.At, ready.Machine = max(0, r.at-w.now), r.to.index
		}
		s.Relay = append(s.Relay, ready)
	}
	return s, slot
}

// auto decides as the workers do.
func auto(w *world, m *machine, s *slot) (wake float64) {
	if m.decodes() {
		if j := w.ready(m); j != nil {
			w.begin(s, j, restore, generate)
			return 0
		}
	}
	if len(w.intake) == 0 {
		return 0
	}
	scene, slot := w.scene(m, s)
	best, options := scene.Decide(m.index, slot)
	if w.log != nil {
		w.log("%7.2f %s: %v of %+v, %d left, relay %d", w.now, m.Name, best.Action, options, len(w.intake), len(w.relay))
	}
	switch {
	case math.IsInf(best.End, 1) || best.Action == schedule.Whole:
		w.begin(s, w.take(), compute, generate)
	case best.Action == schedule.HandOver:
		w.begin(s, w.take(), compute, save)
	default:
		return w.now + min(max(best.Next, 0.02), 5)
	}
	return 0
}

// wholeMachines gives whoever is free the next request, as a load balancer does.
func wholeMachines(w *world, _ *machine, s *slot) float64 {
	if len(w.intake) > 0 {
		w.begin(s, w.take(), compute, generate)
	}
	return 0
}

// local leaves everything to the decode machines.
func local(w *world, m *machine, s *slot) float64 {
	if m.decodes() {
		return wholeMachines(w, m, s)
	}
	return 0
}

// disaggregated hands everything over, and lets two jobs for each decode slot run or wait there.
func disaggregated(w *world, m *machine, s *slot) float64 {
	if m.decodes() {
		if j := w.ready(m); j != nil {
			w.begin(s, j, restore, generate)
		}
		return 0
	}
	room := -len(w.relay)
	for _, x := range w.machines {
		for _, sl := range x.slots {
			if x.decodes() {
				room += 2
			}
			if sl.job != nil {
				room--
			}
		}
	}
	if room > 0 && len(w.intake) > 0 {
		w.begin(s, w.take(), compute, save)
	}
	return 0
}
