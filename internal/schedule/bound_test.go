package schedule_test

import (
	"math"

	"tandem/internal/rig/paced/fleet"
)

// bound is how long a fleet needs at least for jobs whose answers are known, whatever the schedule. Each job takes seconds of some of three
// things: the prefill machines, the decode machines and the links. However these are weighed, the way that costs a job least gives a lower bound of the
// whole (the dual of a linear programme over the ways of the jobs); the weights are chosen by which it is greatest. A machine that computes
// prompts computes each shared prefix once, but a decode machine that gets states finds it there. Nothing ends before its longest job does, either.
// All prefill machines of the fleet are alike, and all decode machines.
func bound(f *fleet.Fleet, list []*job) float64 {
	w := newWorld(f, list, nil)
	p, d := w.side("prefill"), w.side("decode")
	position, longest := 0, 0.0
	for _, j := range list {
		position = max(position, j.prompt()+j.answer)
	}
	count := map[job]int{}
	classes := map[int]*job{}
	for _, j := range list {
		count[job{prefix: j.prefix, own: j.own, answer: j.answer}]++
		classes[j.class] = j
	}
	ways := map[job][]way{}
	for j := range count {
		ways[j] = w.ways(p[0], d[0], &j, position)
		longest = max(longest, alone(w, p[0], d[0], &j))
	}
	prefixP, prefixD := 0.0, 0.0
	for _, j := range classes {
		prefixP += p[0].slower() * p[0].PrefillSeconds(j.prefix, 0)
		prefixD += d[0].slower() * d[0].PrefillSeconds(j.prefix, 0)
	}
	least := math.Inf(1)
	for computing := range len(p) + 1 { // prefill machines that compute at all
		capacity := way{float64(computing), float64(len(d)), float64(len(d))}
		fixed := way{float64(computing) * prefixP, 0, 0}
		open := 0
		if computing == 0 {
			fixed[1], open = prefixD, 2 // whole on a decode machine is all that is left
		}
		least = min(least, dual(count, ways, capacity, fixed, open))
	}
	return max(least, longest)
}

// way is what a job takes of the prefill machines, the decode machines and the links, in seconds.
type way [3]float64

func (w *world) side(role string) (list []*machine) {
	for _, m := range w.machines {
		if m.Role == role {
			list = append(list, m)
		}
	}
	return list
}

// ways are: handed over, whole on a prefill machine, whole on a decode machine.
func (w *world) ways(p, d *machine, j *job, position int) []way {
	n := j.prompt()
	bytes := w.fleet.StateBytes(n)
	prompt := func(m *machine) float64 {
		chunks := math.Ceil(float64(j.own) / chunk)
		gain := float64(m.Slots-1) * chunks * m.TokenSeconds(position, 1) * m.share(m.Slots) / float64(m.Slots) // of the others
		return max(0, m.slower()*m.PrefillSeconds(n, j.prefix)-gain)
	}
	answer := func(m *machine) float64 {
		return float64(j.answer) * m.TokenSeconds(n+j.answer/2, 1) * m.share(m.Slots) / float64(m.Slots)
	}
	return []way{
		{prompt(p) + p.slower()*bytes/p.SaveBytesPerSecond, answer(d) + d.slower()*bytes/d.RestoreBytesPerSecond, bytes / w.fleet.LinkBytesPerSecond},
		{prompt(p) + answer(p), 0, 0},
		{0, prompt(d) + answer(d), 0},
	}
}

// alone is how long a job takes at least.
func alone(w *world, p, d *machine, j *job) float64 {
	prompt := func(m *machine) float64 { return m.slower() * m.PrefillSeconds(j.prompt(), j.prefix) }
	answer := func(m *machine) float64 {
		return m.slower() * float64(j.answer) * m.TokenSeconds(j.prompt()+j.answer/2, 1)
	}
	bytes := w.fleet.StateBytes(j.prompt())
	move := p.slower()*bytes/p.SaveBytesPerSecond + bytes/w.fleet.LinkBytesPerSecond + d.slower()*bytes/d.RestoreBytesPerSecond
	return min(prompt(p)+move+answer(d), prompt(p)+answer(p), prompt(d)+answer(d))
}

// dual is the greatest bound of all weights; the ways from open on may be taken.
func dual(count map[job]int, ways map[job][]way, capacity, fixed way, open int) float64 {
	value := func(x way) float64 { // weights of one second of each machine and link
		total, scale := 0.0, 0.0
		for i := range x {
			scale += x[i] * capacity[i]
			total += x[i] * fixed[i]
		}
		if scale == 0 {
			return 0
		}
		for j, n := range count {
			cost := math.Inf(1)
			for _, w := range ways[j][open:] {
				cost = min(cost, x[0]*w[0]+x[1]*w[1]+x[2]*w[2])
			}
			total += float64(n) * cost
		}
		return total / scale
	}
	best, at := 0.0, [2]float64{0.5, 0.1} // the prefill machines' share, and the links'
	for step := 0.25; step > 1e-4; {
		moved := false
		for _, d := range [][2]float64{{step, 0}, {-step, 0}, {0, step}, {0, -step}, {step, -step}, {-step, step}} {
			next := [2]float64{at[0] + d[0], at[1] + d[1]}
			if next[0] < 0 || next[1] < 0 || next[0]+next[1] > 1 {
				continue
			}
			if v := value(way{next[0], 1 - next[0] - next[1], next[1]}); v > best {
				best, at, moved = v, next, true
			}
		}
		if !moved {
			step /= 2
		}
	}
	return best
}
