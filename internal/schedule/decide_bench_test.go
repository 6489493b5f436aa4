package schedule_test

import (
	"fmt"
	"testing"

	"tandem/internal/schedule"
)

// BenchmarkDecide is the tenth decision of the prefill machines, when all slots have something to do.
func BenchmarkDecide(b *testing.B) {
	for _, f := range fleets(b) {
		if f.Name != "spark-mac-qwen" && f.Name != "four-slots" && f.Name != "two-and-two" {
			continue
		}
		for _, n := range []int{60, 1000} {
			b.Run(fmt.Sprintf("%s/%d", f.Name, n), func(b *testing.B) {
				var tenth *schedule.Scene
				decisions := 0
				newWorld(f, load{jobs: spread}.make(n, 1, limits), func(w *world, m *machine, s *slot) float64 {
					if !m.decodes() && len(w.intake) > 0 {
						if decisions++; decisions == 10 {
							tenth, _ = w.scene(m, s)
						}
					}
					return auto(w, m, s)
				}).run()
				for b.Loop() {
					tenth.Decide(0, 0)
				}
			})
		}
	}
}
