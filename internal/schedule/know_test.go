package schedule_test

import "testing"

func TestKnow(t *testing.T) {
	for _, n := range []int{60, 16} {
		for _, f := range fleets(t) {
			for _, name := range []string{"class-spread", "class-mixed", "giant"} {
				for _, order := range []string{"fifo", "longest", "short1"} {
					var sum [3]float64
					for i, known := range []float64{0, -1, 1} {
						for seed := range uint64(8) {
							for _, l := range loads() {
								if l.name == name {
									list := l.make(n, seed, known)
									sum[i] += newWorld(f, orders[order](list), auto).run() / bound(f, list) / 8
								}
							}
						}
					}
					t.Logf("%d %-16s %-13s %-8s %.3f", n, f.Name, name, order, sum)
				}
			}
		}
	}
}
