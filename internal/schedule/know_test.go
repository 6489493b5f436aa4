package schedule_test

import (
	"strings"
	"testing"
)

func TestKnow(t *testing.T) {
	for _, n := range []int{60, 16} {
		for _, order := range []string{"fifo", "longest", "longprompt", "short1"} {
			var sum [3]float64
			count := 0
			for _, f := range fleets(t) {
				if !strings.Contains("spark-mac-qwen spark-mac-gptoss weak-prefill equal two-and-two", f.Name) {
					continue
				}
				for _, name := range []string{"class-spread", "class-mixed"} {
					count++
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
				}
			}
			for i := range sum {
				sum[i] /= float64(count)
			}
			t.Logf("%d %-8s %.4f", n, order, sum)
		}
	}
}
