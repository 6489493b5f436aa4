package schedule_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// orders are the orders in which jobs are published.
var orders = map[string]func([]*job) []*job{
	"fifo":        func(l []*job) []*job { return l },
	"longest":     func(l []*job) []*job { return by(l, func(j *job) float64 { return -work(j) }) },
	"shortest":    func(l []*job) []*job { return by(l, func(j *job) float64 { return work(j) }) },
	"longprompt":  func(l []*job) []*job { return by(l, func(j *job) float64 { return -float64(j.own) }) },
	"shortprompt": func(l []*job) []*job { return by(l, func(j *job) float64 { return float64(j.own) }) },
	"short1": func(l []*job) []*job {
		l = by(l, func(j *job) float64 { return -work(j) })
		return append([]*job{l[len(l)-1]}, l[:len(l)-1]...)
	},
}

// work weighs a prompt's tokens and an answer's.
func work(j *job) float64 { return float64(j.own) + 25*float64(j.guess) }

func by(l []*job, key func(*job) float64) []*job {
	l = slices.Clone(l)
	slices.SortStableFunc(l, func(a, b *job) int { return cmp.Compare(key(a), key(b)) })
	return l
}

func TestOrders(t *testing.T) {
	for _, known := range []float64{0, 1} {
		for _, n := range []int{60, 16} {
			for _, name := range []string{"fifo", "longest", "longprompt", "short1", "shortest", "shortprompt"} {
				sum, count := 0.0, 0
				worst := 0.0
				per := map[string]float64{}
				for _, f := range fleets(t) {
					for _, l := range loads() {
						if l.name != "class-spread" && l.name != "class-mixed" && l.name != "giant" {
							continue
						}
						for seed := range uint64(6) {
							list := l.make(n, seed, known)
							r := newWorld(f, orders[name](list), auto).run() / bound(f, list)
							sum += r
							count++
							per[f.Name] += r / 18
							worst = max(worst, r)
						}
					}
				}
				t.Logf("known %v, %d jobs, %-12s mean %.4f worst %.3f: %v", known, n, name, sum/float64(count), worst, short(per))
			}
		}
	}
}

func short(m map[string]float64) (s string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		s += fmt.Sprintf(" %s %.3f", k, m[k])
	}
	return s
}
