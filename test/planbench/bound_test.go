package main

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"tandem/test/rig/paced/fleet"
)

// twins are a prefill and a decode machine: 1 s for 1,000 tokens of prompt and 10 tokens a second on both, and states that move at once.
func twins() *fleet.Fleet {
	f := &fleet.Fleet{Model: "m", BytesPerToken: 1, LinkBytesPerSecond: 1e12}
	for _, role := range []string{"prefill", "decode"} {
		f.Machines = append(f.Machines, fleet.Machine{
			Name: role, Role: role, Slots: 1, Prefill: []fleet.Point{{Tokens: 1000, Value: 1}}, Decode: []fleet.Point{{Tokens: 0, Value: 10}},
			SaveBytesPerSecond: 1e12, RestoreBytesPerSecond: 1e12,
		})
	}
	return f
}

func TestBoundByHand(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*fleet.Fleet)
		jobs []kind
		want float64
	}{
		{"one job has nobody to share with", nil, same(kind{0, 1000, 10})(1), 2},
		{"four jobs, two for each machine", nil, same(kind{0, 1000, 10})(4), 4},
		{"three jobs of two halves: one is handed over", nil, same(kind{0, 1000, 10})(3), 3},
		{"a prefill machine that cannot generate computes prompts only", func(f *fleet.Fleet) {
			f.Machines[0].Decode[0].Value = 1e-3
			f.Machines[0].Prefill[0].Value = 0.1
		}, same(kind{0, 1000, 10})(10), 10},
		{"a link that takes 4 s a state: whole jobs only, of which one machine gets two", func(f *fleet.Fleet) { f.LinkBytesPerSecond = 250 }, same(kind{0, 1000, 10})(3), 4},
		{"the same with saving", func(f *fleet.Fleet) { f.Machines[0].SaveBytesPerSecond = 250 }, same(kind{0, 1000, 10})(3), 4},
		{"the same with reading", func(f *fleet.Fleet) { f.Machines[1].RestoreBytesPerSecond = 250 }, same(kind{0, 1000, 10})(3), 4},
		// The prefill machine generates nothing: 1 s for the prefix and ten times 0.5 s; the decode machine is busy for ten times 1 s.
		{"the prefix once, the own part of each", func(f *fleet.Fleet) {
			f.Machines[0].Decode[0].Value = 1e-3
			f.Machines[1].Prefill[0].Value = 1e3
			f.Machines[1].Decode[0].Value = 100
		}, same(kind{1000, 500, 10})(10), 6},
		{"nothing ends before the longest job", nil, append(same(kind{0, 1000, 10})(2), kind{0, 1000, 100}), 11},
		{"four slots of which each is half as fast", func(f *fleet.Fleet) {
			f.Machines[0].Prefill[0].Value, f.Machines[1].Prefill[0].Value = 1e-9, 1e-9
			f.Machines[0].Decode[0].Value = 1e-3
			f.Machines[1].Slots, f.Machines[1].Busy = 4, map[int]float64{2: 1.5, 4: 2}
		}, same(kind{0, 1000, 10})(8), 4},
		{"two slots that gain nothing, but for the token that the others get beside a prompt: four times 0.9 s, and 1 s for each answer", func(f *fleet.Fleet) {
			f.Machines[0].Prefill[0].Value, f.Machines[0].Decode[0].Value = 1e4, 1e-3
			f.Machines[1].Slots, f.Machines[1].Busy = 2, map[int]float64{2: 2}
		}, same(kind{0, 1000, 10})(4), 7.6},
		{"a machine three times slower than its tables: 6 s a job, beside 2 s", func(f *fleet.Fleet) {
			f.Machines[0].Slower = 3
			f.Machines[0].SaveBytesPerSecond = 1
		}, same(kind{0, 1000, 10})(4), 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := twins()
			if tt.set != nil {
				tt.set(f)
			}
			got, err := bound(f, tt.jobs, careful)
			if err != nil || math.Abs(got-tt.want) > 1e-3*tt.want {
				t.Errorf("bound = %.4f, %v; want %.4f", got, err, tt.want)
			}
		})
	}
}

// TestNoScheduleIsBelowTheBound lets simple schedules run on every fleet and load: none may end sooner.
func TestNoScheduleIsBelowTheBound(t *testing.T) {
	files, err := filepath.Glob("../fleets/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("fleets: %v, %v", files, err)
	}
	for _, file := range files {
		f, err := fleet.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range allLoads() {
			for _, n := range []int{16, 60} {
				jobs := l.kinds(n)
				least, err := bound(f, jobs, 5)
				if err != nil {
					t.Fatalf("%s, %s, %d jobs: %v", f.Name, l.Name, n, err)
				}
				slices.SortFunc(jobs, func(a, b kind) int { return b.Answer - a.Answer }) // the longest first does best
				best, known := math.Inf(1), map[answering]float64{}
				for hand := 0; hand <= n; hand += max(1, n/12) { // so many are handed over, the others go whole to whoever is free
					best = min(best, simulate(f, jobs, hand, known))
				}
				t.Logf("%-24s %-14s %2d jobs: bound %7.1f s, simple schedule %7.1f s, %.3f of it", f.Name, l.Name, n, least, best, best/least)
				if best < least*(1-1e-9) {
					t.Errorf("%s, %s, %d jobs: a schedule takes %.3f s, and the bound says %.3f s", f.Name, l.Name, n, best, least)
				}
			}
		}
	}
}

// answering is a job's answer on a machine.
type answering struct {
	machine int
	kind    kind
}

// simulate runs jobs one at a time on each machine: the first so many are handed over by the first prefill machine to whichever decode machine is free
// first, the others go whole to whoever is. It returns when the last one ends. answers are remembered in a map.
func simulate(f *fleet.Fleet, jobs []kind, hand int, answers map[answering]float64) (end float64) {
	free, known, wire := make([]float64, len(f.Machines)), make([]bool, len(f.Machines)), 0.0
	prompt := func(i int, k kind) float64 {
		t := promptSeconds(&f.Machines[i], k)
		if !known[i] {
			known[i] = true
			t += slower(&f.Machines[i]) * f.Machines[i].PrefillSeconds(k.Shared, 0)
		}
		return t
	}
	answer := func(i int, k kind) float64 {
		if _, ok := answers[answering{i, k}]; !ok {
			answers[answering{i, k}] = generate(&f.Machines[i], k, 1)
		}
		return answers[answering{i, k}]
	}
	soonest := func(role string) (at int) {
		at = -1
		for i, m := range f.Machines {
			if (role == "" || m.Role == role) && (at < 0 || free[i] < free[at]) {
				at = i
			}
		}
		return at
	}
	p := slices.IndexFunc(f.Machines, func(m fleet.Machine) bool { return m.Role == "prefill" })
	for i, k := range jobs {
		if i >= hand {
			at := soonest("")
			free[at] += prompt(at, k) + answer(at, k)
			end = max(end, free[at])
			continue
		}
		bytes := f.StateBytes(k.prompt())
		free[p] += prompt(p, k) + slower(&f.Machines[p])*bytes/f.Machines[p].SaveBytesPerSecond
		wire = max(wire, free[p]) + bytes/f.LinkBytesPerSecond
		d := soonest("decode")
		free[d] = max(free[d], wire) + slower(&f.Machines[d])*bytes/f.Machines[d].RestoreBytesPerSecond + answer(d, k)
		end = max(end, free[d])
	}
	return end
}
