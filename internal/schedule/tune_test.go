package schedule_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestTune(t *testing.T) {
	t0 := time.Now()
	for _, n := range []int{60, 16} {
		all, na := 0.0, 0
		line := ""
		for _, f := range fleets(t) {
			if o := os.Getenv("FLEET"); o != "" && !strings.Contains(o, f.Name) {
				continue
			}
			sum, count, over := 0.0, 0, 0
			worst, where := 0.0, ""
			for _, l := range loads() {
				seeds, knows := 1, []float64{0}
				if l.name == "class-spread" || l.name == "class-mixed" {
					seeds, knows = 4, []float64{0, 1}
				}
				if l.name == "giant" {
					knows = []float64{0, 1}
				}
				for _, known := range knows {
					for seed := range seeds {
						list := l.make(n, uint64(seed), known)
						b := bound(f, list)
						r := newWorld(f, orders["longest"](list), auto).run() / b
						sum += r / float64(seeds*len(knows))
						other := min(newWorld(f, list, wholeMachines).run(), newWorld(f, list, local).run(), newWorld(f, list, disaggregated).run())
						if r*b > 1.02*other {
							over++
						}
						if r > worst {
							worst, where = r, l.name
						}
						if os.Getenv("V") != "" {
							t.Logf("%-16s %3d %-14s %v %v: %.3f others %.3f", f.Name, n, l.name, known, seed, r, other/b)
						}
					}
				}
				count++
			}
			line += fmt.Sprintf(" | %s %.3f (%.2f %s, %d)", f.Name, sum/float64(count), worst, where, over)
			all += sum
			na += count
		}
		t.Logf("%d: %.4f %s", n, all/float64(na), line)
	}
	t.Log(time.Since(t0))
}
