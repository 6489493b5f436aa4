package schedule_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"tandem/internal/rig/paced/fleet"
	"tandem/internal/schedule"
)

type job struct{ prefix, own, answer int }

// world carries decisions out: what each job really takes is known only to it.
type world struct {
	f        *fleet.Fleet
	jobs     []job
	expected int // answer that everybody expects
	now      float64
	next     int
	slots    []*wslot
	relay    []relayed
	links    []float64
	end      float64
	log      func(string, ...any)
}

type relayed struct {
	at float64
	j  job
}

type wslot struct {
	m        int
	free     float64
	believed float64 // by the others
	hand     *job
	warm     bool
	busy     bool
	wake     float64
}

func (w *world) times(m *fleet.Machine, j job, answer int) schedule.Times {
	n := j.prefix + j.own
	t := schedule.Times{
		Prompt: m.PrefillSeconds(n, j.prefix), Prefix: m.PrefillSeconds(j.prefix, 0),
		Save: w.f.StateBytes(n) / m.SaveBytesPerSecond, Restore: w.f.StateBytes(n)/m.RestoreBytesPerSecond + m.TokenSeconds(n, 1),
		Move: w.f.StateBytes(n) / w.f.LinkBytesPerSecond,
	}
	for b := 1; b <= m.Slots; b++ {
		t.Generate = append(t.Generate, float64(answer)*m.TokenSeconds(n+answer/2, b))
	}
	return t
}

func (w *world) scene(at int) (s *schedule.Scene, machine, slot int) {
	s = new(schedule.Scene)
	head := w.jobs[min(w.next, len(w.jobs)-1)]
	var typical job
	for _, j := range w.jobs[w.next:] {
		typical.prefix, typical.own = typical.prefix+j.prefix, typical.own+j.own
	}
	if n := len(w.jobs) - w.next; n > 0 {
		typical.prefix, typical.own = typical.prefix/n, typical.own/n
		s.Intake = []schedule.Lot{{Kind: 0, Count: 1}, {Kind: 1, Count: n - 1}}
	} else {
		typical = head
	}
	i := 0
	for mi := range w.f.Machines {
		m := &w.f.Machines[mi]
		x := schedule.Machine{Decode: m.Role == "decode", Takes: m.Role == "decode"}
		for range m.Slots {
			sl := w.slots[i]
			if i == at {
				machine, slot = mi, len(x.Slots)
			}
			x.Slots = append(x.Slots, schedule.Slot{Free: max(0, sl.believed-w.now), Hand: sl.hand != nil, Warm: sl.warm})
			if sl.busy && sl.believed <= w.now {
				x.Slots[len(x.Slots)-1].Free = 0.1
			}
			i++
		}
		x.Times = []schedule.Times{w.times(m, head, w.expected), w.times(m, typical, w.expected)}
		s.Machines = append(s.Machines, x)
	}
	for _, r := range w.relay {
		s.Relay = append(s.Relay, schedule.Ready{At: max(0, r.at-w.now), Kind: 1})
	}
	return s, machine, slot
}

func (w *world) run() float64 {
	for mi := range w.f.Machines {
		for range w.f.Machines[mi].Slots {
			w.slots = append(w.slots, &wslot{m: mi})
		}
	}
	w.links = make([]float64, len(w.f.Machines))
	for steps := 0; ; steps++ {
		if steps > 100000 {
			panic("no end")
		}
		// whatever ends now
		for _, sl := range w.slots {
			if sl.busy && sl.free <= w.now+1e-9 {
				sl.busy = false
				if sl.hand != nil {
					to := -1
					for i := range w.f.Machines {
						if w.f.Machines[i].Role == "decode" && (to < 0 || w.links[i] < w.links[to]) {
							to = i
						}
					}
					w.links[to] = max(w.links[to], w.now) + w.f.StateBytes(sl.hand.prefix+sl.hand.own)/w.f.LinkBytesPerSecond
					w.relay = append(w.relay, relayed{w.links[to], *sl.hand})
					sl.hand = nil
				} else {
					w.end = w.now
				}
			}
		}
		for i, sl := range w.slots {
			if !sl.busy {
				w.offer(i)
			}
		}
		at := math.Inf(1)
		for _, sl := range w.slots {
			if sl.busy {
				at = min(at, sl.free)
			} else if sl.wake > w.now {
				at = min(at, sl.wake)
			}
		}
		for _, r := range w.relay {
			if r.at > w.now {
				at = min(at, r.at)
			}
		}
		if math.IsInf(at, 1) {
			if w.next < len(w.jobs) || len(w.relay) > 0 {
				panic(fmt.Sprintf("stuck at %v with %d jobs and %d states", w.now, len(w.jobs)-w.next, len(w.relay)))
			}
			return w.end
		}
		w.now = at
	}
}

func (w *world) offer(i int) {
	sl := w.slots[i]
	m := &w.f.Machines[sl.m]
	sl.wake = math.Inf(1)
	if m.Role == "decode" && len(w.relay) > 0 && w.relay[0].at <= w.now+1e-9 {
		j := w.relay[0].j
		w.relay = w.relay[1:]
		w.begin(i, j, false, func(t schedule.Times, busy int) (float64, float64) { return 0, t.Restore + t.Generate[busy-1] })
		sl.warm = true
		return
	}
	if w.next >= len(w.jobs) {
		return
	}
	s, mi, si := w.scene(i)
	d, opts := s.Decide(mi, si)
	if w.log != nil {
		w.log("%.2f %s: %v of %+v, %d left, relay %d", w.now, m.Name, d.Action, opts, len(w.jobs)-w.next, len(w.relay))
	}
	switch d.Action {
	case schedule.Whole, schedule.HandOver:
		j := w.jobs[w.next]
		w.next++
		hand := d.Action == schedule.HandOver
		w.begin(i, j, hand, func(t schedule.Times, busy int) (float64, float64) {
			p := t.Prompt
			if !sl.warm {
				p += t.Prefix
			}
			if hand {
				return p + t.Save, 0
			}
			return p, t.Generate[busy-1]
		})
		sl.warm = true
	default:
		sl.wake = w.now + d.Next
	}
}

func (w *world) begin(i int, j job, hand bool, took func(schedule.Times, int) (float64, float64)) {
	sl := w.slots[i]
	m := &w.f.Machines[sl.m]
	busy := 1
	for k, o := range w.slots {
		if k != i && o.m == sl.m && o.busy {
			busy++
		}
	}
	alone, beside := took(w.times(m, j, j.answer), busy)
	eAlone, eBeside := took(w.times(m, j, w.expected), busy)
	if m.Slower > 0 {
		alone, beside = alone*m.Slower, beside*m.Slower
	}
	for k, o := range w.slots {
		if k != i && o.m == sl.m && o.busy {
			o.free += alone
			o.believed += alone
		}
	}
	sl.free, sl.believed, sl.busy = w.now+alone+beside, w.now+eAlone+eBeside, true
	if hand {
		sl.hand = &j
	}
}

// bound is the linear programme for jobs of one kind on one slot each.
func bound(f *fleet.Fleet, jobs []job) float64 {
	var P, D *fleet.Machine
	for i := range f.Machines {
		if f.Machines[i].Role == "prefill" {
			P = &f.Machines[i]
		} else {
			D = &f.Machines[i]
		}
	}
	w := &world{f: f}
	var hp, hd, pw, dw, mv float64
	for _, j := range jobs {
		p, d := w.times(P, j, j.answer), w.times(D, j, j.answer)
		hp += p.Prompt + p.Save
		hd += d.Restore + d.Generate[len(d.Generate)-1]/1
		pw += p.Prompt + p.Generate[0]
		dw += d.Prompt + d.Generate[0]
		mv += d.Move
	}
	best := math.Inf(1)
	const grid = 400
	for a := 0; a <= grid; a++ { // handed over
		for b := 0; a+b <= grid; b++ { // whole on P
			x, y := float64(a)/grid, float64(b)/grid
			z := 1 - x - y
			best = min(best, max(x*hp+y*pw, x*hd+z*dw, x*mv))
		}
	}
	return best
}

func TestClosed(t *testing.T) {
	f, err := fleet.Read("../../test/fleets/spark-mac-qwen.json")
	if err != nil {
		t.Fatal(err)
	}
	slow := *f
	slow.Name, slow.LinkBytesPerSecond = "slow-link", 1.1e8
	equal := *f
	equal.Name = "equal"
	equal.Machines = []fleet.Machine{f.Machines[1], f.Machines[1]}
	equal.Machines[0].Role = "prefill"
	weak := *f
	weak.Name = "slowed"
	weak.Machines = []fleet.Machine{f.Machines[0], f.Machines[1]}
	weak.Machines[1].Slower = 3
	for _, f := range []*fleet.Fleet{f, &slow, &equal, &weak} {
		for _, l := range []struct {
			name string
			j    job
			lo   int
		}{
			{"2500-400", job{4500, 2500, 400}, 0}, {"10800-600", job{4500, 10800, 600}, 0}, {"2500-400..1200", job{4500, 2500, 1200}, 400},
			{"1000-400", job{0, 1000, 400}, 0}, {"8000-400", job{0, 8000, 400}, 0}, {"short", job{4500, 2500, 20}, 0},
			{"prefill", job{0, 16000, 100}, 0}, {"decode", job{0, 1000, 1200}, 0},
		} {
			for _, n := range []int{60, 16} {
				r := rand.New(rand.NewPCG(1, 2))
				var list []job
				expected := 0
				for range n {
					j := l.j
					if l.lo > 0 {
						j.answer = l.lo + r.IntN(j.answer-l.lo)
					}
					expected += j.answer
					list = append(list, j)
				}
				w := &world{f: f, jobs: list, expected: expected / n}
				if testing.Verbose() && n == 60 && l.name == "10800-600" {
					w.log = t.Logf
				}
				got, b := w.run(), bound(f, list)
				t.Logf("%s %s %d: %.1f s, bound %.1f, %.3f", f.Name, l.name, n, got, b, got/b)
			}
		}
	}
}
