package schedule_test

import (
	"math"

	"tandem/test/rig/paced/fleet"
)

// load5 is what jobs take, in seconds: of the prefill machines, of the decode machines, of the links; and, of the first two again, what they
// spend on jobs that are handed over.
type load5 [5]float64

// bound is how long a fleet needs at least for jobs whose answers are known, whatever the schedule. However the seconds of a [load5] are weighed, the
// way that costs a job least gives a lower bound of all of them (the dual of a linear programme over the ways of the jobs); the weights are those by
// which it is greatest. Decode machines go on from no state before the first one can be there, and prefill machines hand nothing over when there is no
// time any more to go on from it. A prefill machine that computes prompts computes each shared prefix once; a decode machine finds it in a state.
// Nothing ends before the longest job would by itself. All prefill machines of the fleet are alike, and all decode machines.
func bound(f *fleet.Fleet, list []*job) float64 {
	w := newWorld(f, list, nil)
	p, d := w.side("prefill"), w.side("decode")
	position, longest, head, tail := 0, 0.0, math.Inf(1), math.Inf(1)
	for _, j := range list {
		position = max(position, j.prompt()+j.answer)
	}
	count, classes := map[job]int{}, map[int]*job{}
	ways := map[job][]load5{}
	for _, j := range list {
		kind := job{prefix: j.prefix, own: j.own, answer: j.answer}
		count[kind]++
		classes[j.class] = j
		if ways[kind] != nil {
			continue
		}
		ways[kind] = w.ways(p[0], d[0], j, position)
		a := w.alone(p[0], d[0], j)
		longest = max(longest, min(a.first+a.rest, a.prefill, a.decode))
		head, tail = min(head, a.first+p[0].slower()*p[0].PrefillSeconds(j.prefix, 0)), min(tail, a.rest)
	}
	prefixP, prefixD := 0.0, 0.0
	for _, j := range classes {
		prefixP += p[0].slower() * p[0].PrefillSeconds(j.prefix, 0)
		prefixD += d[0].slower() * d[0].PrefillSeconds(j.prefix, 0)
	}
	least, n := math.Inf(1), float64(len(d))
	for computing := range len(p) + 1 { // prefill machines that compute at all
		c := float64(computing)
		capacity, lost := load5{c, n, n, c, n}, load5{c * prefixP, 0, 0, c * (prefixP + tail), n * head}
		open := 0
		if computing == 0 {
			lost, open = load5{1: prefixD}, 2 // whole on a decode machine is all that is left
		}
		least = min(least, dual(count, ways, capacity, lost, open))
	}
	return max(least, longest)
}

func (w *world) side(role string) (list []*machine) {
	for _, m := range w.machines {
		if m.Role == role {
			list = append(list, m)
		}
	}
	return list
}

// ways are what a job takes if it is handed over, whole on a prefill machine, and whole on a decode machine. Answers go on at the machine's best rate; each
// chunk of a prompt brings all others a token, of which none is after the position.
func (w *world) ways(p, d *machine, j *job, position int) []load5 {
	n := j.prompt()
	bytes := w.fleet.StateBytes(n)
	share := func(m *machine) float64 { return m.share(m.Slots) / float64(m.Slots) }
	prompt := func(m *machine) float64 {
		gain := float64(m.Slots-1) * math.Ceil(float64(j.own)/chunk) * m.TokenSeconds(position, 1) * share(m)
		return max(0, m.slower()*m.PrefillSeconds(n, j.prefix)-gain)
	}
	answer := func(m *machine) float64 { return float64(j.answer) * m.TokenSeconds(n+j.answer/2, 1) * share(m) }
	handing := prompt(p) + p.slower()*bytes/p.SaveBytesPerSecond
	going := answer(d) + d.slower()*bytes/d.RestoreBytesPerSecond
	return []load5{
		{handing, going, bytes / w.fleet.LinkBytesPerSecond, handing, going},
		{prompt(p) + answer(p), 0, 0, 0, 0},
		{0, prompt(d) + answer(d), 0, 0, 0},
	}
}

// single is how long a job takes by itself, by the ways: until its state is at a decode machine and from then on, or whole.
type single struct{ first, rest, prefill, decode float64 }

func (w *world) alone(p, d *machine, j *job) single {
	prompt := func(m *machine) float64 { return m.slower() * m.PrefillSeconds(j.prompt(), j.prefix) }
	answer := func(m *machine) float64 {
		return m.slower() * float64(j.answer) * m.TokenSeconds(j.prompt()+j.answer/2, 1)
	}
	bytes := w.fleet.StateBytes(j.prompt())
	return single{
		first: prompt(p) + p.slower()*bytes/p.SaveBytesPerSecond + bytes/w.fleet.LinkBytesPerSecond,
		rest:  d.slower()*bytes/d.RestoreBytesPerSecond + answer(d), prefill: prompt(p) + answer(p), decode: prompt(d) + answer(d),
	}
}

// dual is the greatest bound of all weights; the ways from open on may be taken. lost is what the machines cannot use of their time.
func dual(count map[job]int, ways map[job][]load5, capacity, lost load5, open int) float64 {
	value := func(x load5) float64 {
		total, scale := 0.0, 0.0
		for i := range x {
			scale += x[i] * capacity[i]
			total += x[i] * lost[i]
		}
		if scale == 0 {
			return 0
		}
		for j, n := range count {
			cost := math.Inf(1)
			for _, w := range ways[j][open:] {
				sum := 0.0
				for i := range w {
					sum += x[i] * w[i]
				}
				cost = min(cost, sum)
			}
			total += float64(n) * cost
		}
		return total / scale
	}
	at := load5{0.5, 0.5, 0, 0, 0}
	best := value(at)
	for step := 0.25; step > 1e-4; {
		moved := false
		for i := range at {
			for k := range at {
				next := at
				d := min(step, next[i])
				next[i], next[k] = next[i]-d, next[k]+d
				if v := value(next); v > best*(1+1e-9) {
					best, at, moved = v, next, true
				}
			}
		}
		if !moved {
			step /= 2
		}
	}
	return best
}
