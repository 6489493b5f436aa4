package main

import (
	"cmp"
	"fmt"
	"math"

	"tandem/test/rig/paced/fleet"
)

// bound is how many seconds the fleet needs at least for the jobs, whatever the schedule: the least T that a linear programme over the ways of the jobs
// allows. Ways are: whole on a machine, or handed over from a prefill machine to a decode machine; each machine and each link has T seconds of work to
// give. A job goes one way, so that the number of jobs of a kind on a way is a whole one.
//
// Where schedules differ, the bound takes what suits it: nobody waits for anybody; with several slots a machine always generates at its best rate; only own
// parts travel over the link; the two checks of a hand-over, of one token each, are free. The shared prefix is computed once by each prefill machine that
// computes prompts at all. A decode machine finds it in the first state that it gets, so it is charged only if no prefill machine takes part.
// And nothing ends before the longest job would, by the fastest way, on an idle fleet whose caches hold the prefix.
//
// More effort, in nodes of the search, brings the bound closer to the truth.
func bound(f *fleet.Fleet, jobs []kind, effort int) (float64, error) {
	p := problem{ways: ways(f)}
	index := map[kind]int{}
	longest, position := 0.0, 0
	for _, k := range jobs {
		position = max(position, k.prompt()+k.Answer)
	}
	for _, k := range jobs {
		i, seen := index[k]
		if !seen {
			i = len(index)
			index[k] = i
			p.counts = append(p.counts, 0)
			costs, fastest := make([][]float64, len(p.ways)), math.Inf(1)
			for j, w := range p.ways {
				costs[j], fastest = w.loads(f, k, position), min(fastest, w.alone(f, k))
			}
			p.costs = append(p.costs, costs)
			longest = max(longest, fastest)
		}
		p.counts[i]++
	}
	least := math.Inf(1)
	all := 1<<len(f.Machines) - 1
	for computing := all; computing > 0; computing-- { // the sets of machines that compute prompts, as bits
		p.open, p.fixed = make([]bool, len(p.ways)), once(f, jobs[0].Shared, computing)
		for i, w := range p.ways {
			p.open[i] = computing>>w.prompt&1 == 1
		}
		t, err := p.least(least, effort)
		if err != nil {
			return 0, fmt.Errorf("bound %s: %w", f.Name, err)
		}
		least = min(least, t)
		if jobs[0].Shared == 0 {
			break // nothing is charged for taking part
		}
	}
	return max(least, longest), nil
}

// once is what each machine and link must do for the shared prefix, in seconds, if the machines of the set compute prompts.
func once(f *fleet.Fleet, shared, computing int) []float64 {
	list, prefill := make([]float64, 2*len(f.Machines)), false
	for i, m := range f.Machines {
		prefill = prefill || computing>>i&1 == 1 && m.Role == "prefill"
	}
	for i := range f.Machines {
		m := &f.Machines[i]
		if computing>>i&1 == 1 && (m.Role == "prefill" || !prefill) {
			list[i] = slower(m) * m.PrefillSeconds(shared, 0)
		}
	}
	return list
}

const (
	rough   = 20
	careful = 200
)

// way is one of the ways that a job can go.
type way struct {
	prompt int // index of the machine that computes the prompt
	answer int // and of the one that generates; another one if the state is handed over
}

func (w way) handsOver() bool { return w.prompt != w.answer }

func ways(f *fleet.Fleet) (list []way) {
	for i, p := range f.Machines {
		list = append(list, way{i, i})
		for j, d := range f.Machines {
			if p.Role == "prefill" && d.Role == "decode" {
				list = append(list, way{i, j})
			}
		}
	}
	return list
}

// loads are the seconds that a job of the kind takes of each machine and, behind these, of the link that begins at each machine, beside answers that go on
// up to a position.
func (w way) loads(f *fleet.Fleet, k kind, position int) []float64 {
	list := make([]float64, 2*len(f.Machines))
	p, d := &f.Machines[w.prompt], &f.Machines[w.answer]
	list[w.prompt] += promptSeconds(p, k) - besides(p, k, position)
	list[w.answer] += answerSeconds(d, k)
	if w.handsOver() {
		bytes := f.StateBytes(k.prompt())
		list[w.prompt] += slower(p) * bytes / p.SaveBytesPerSecond
		list[w.answer] += slower(d) * bytes / d.RestoreBytesPerSecond
		list[len(f.Machines)+w.prompt] = f.BytesPerToken * float64(k.Own) / f.LinkBytesPerSecond
	}
	return list
}

// alone is how long the job takes if nothing else runs.
func (w way) alone(f *fleet.Fleet, k kind) float64 {
	p, d := &f.Machines[w.prompt], &f.Machines[w.answer]
	t := besides(p, k, 0) + generate(d, k, 1) - answerSeconds(d, k)
	for _, seconds := range w.loads(f, k, 0) {
		t += seconds
	}
	return t
}

func slower(m *fleet.Machine) float64 { return cmp.Or(m.Slower, 1) }

func promptSeconds(m *fleet.Machine, k kind) float64 {
	return slower(m) * m.PrefillSeconds(k.prompt(), k.Shared)
}

// chunk is how many tokens of a prompt an engine computes before those that generate have a turn.
const chunk = 2048

// besides is how much of the time that a prompt takes the others that generate on the machine lose nothing by: each chunk brings them a token, as if it
// were generated alone.
func besides(m *fleet.Machine, k kind, position int) (t float64) {
	if m.Slots == 1 {
		return 0
	}
	token := slower(m) * m.TokenSeconds(position, m.Slots-1)
	for from := k.Shared; from < k.prompt(); from += chunk {
		t += min(token, slower(m)*m.PrefillSeconds(min(from+chunk, k.prompt()), from))
	}
	return t
}

// generate is how long an answer takes of which so many are generated at once.
func generate(m *fleet.Machine, k kind, busy int) (t float64) {
	for i := range k.Answer {
		t += slower(m) * m.TokenSeconds(k.prompt()+i, busy)
	}
	return t
}

// answerSeconds is the share of the machine's time that an answer takes, with as many beside it as suits it best.
func answerSeconds(m *fleet.Machine, k kind) float64 {
	least := math.Inf(1)
	for busy := 1; busy <= m.Slots; busy++ {
		least = min(least, generate(m, k, busy)/float64(busy))
	}
	return least
}
