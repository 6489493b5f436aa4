package schedule_test

import (
	"testing"

	"tandem/internal/schedule"
)

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{16, 60, 1000} {
		b.Run("", func(b *testing.B) {
			p := schedule.Times{Prompt: 4.6, Prefix: 1.5, Save: 0.3, Generate: []float64{14}}
			d := schedule.Times{Prompt: 10, Prefix: 2, Move: 1.3, Restore: 0.3, Generate: []float64{10}}
			s := &schedule.Scene{Intake: []schedule.Lot{{Kind: 0, Count: n}}, Machines: []schedule.Machine{
				{Slots: make([]schedule.Slot, 1), Times: []schedule.Times{p}},
				{Decode: true, Takes: true, Slots: []schedule.Slot{{Free: 5}}, Times: []schedule.Times{d}},
			}}
			for b.Loop() {
				s.Decide(0, 0)
			}
		})
	}
}
