package schedule_test

import (
	"fmt"
	"math"
	"testing"

	"tandem/internal/schedule"
)

// BenchmarkDecide is a decision of a prefill machine, with all slots at work but one.
func BenchmarkDecide(b *testing.B) {
	for _, f := range fleets(b) {
		if f.Name != "spark-mac-qwen" && f.Name != "four-slots" && f.Name != "two-and-two" {
			continue
		}
		for _, n := range []int{60, 1000} {
			b.Run(fmt.Sprintf("%s/%d", f.Name, n), func(b *testing.B) {
				w := newWorld(f, loads()[2].make(n, 1, nothing), auto)
				w.run()
				w = newWorld(f, loads()[2].make(n, 1, nothing), auto)
				var scene *schedule.Scene
				seen := 0
				w.policy = func(w *world, m *machine, s *slot) float64 {
					if seen++; seen < 30 {
						return auto(w, m, s)
					}
					if scene == nil && !m.decodes() && len(w.intake) > 0 {
						scene, _ = w.scene(m, s)
					}
					return math.Inf(1)
				}
				func() {
					defer func() { _ = recover() }()
					w.run()
				}()
				for b.Loop() {
					scene.Decide(0, 0)
				}
			})
		}
	}
}
