package engine_test

import (
	"math"
	"testing"
	"time"

	"tandem/internal/engine"
	"tandem/internal/jobs"
	"tandem/internal/schedule"
)

// Of a state only what is new is moved to a worker that has the rows of what its jobs share.
func TestMoveOfWhatIsNew(t *testing.T) {
	var r engine.Rates
	r.ObserveLink("spark", 1e9, time.Second)
	rates := r.With(&engine.Mover{BytesPerToken: 100_000, FixedBytes: 50_000})
	z := engine.Size{Tokens: 10_000, Prefix: 6_000, Generated: 100, Key: "key"}
	for rows, want := range map[int]float64{0: 1.00005, 6000: 0.40005, 20_000: 0.00005} {
		o := engine.Outlook{
			Model: "m", Sizes: []engine.Size{z}, Intake: []schedule.Lot{{Kind: 0, Count: 1}}, Relay: 1,
			Workers: []engine.Peer{
				{Worker: "p", Role: jobs.RolePrefill, Machine: "spark", Slots: 1},
				{Worker: "d", Role: jobs.RoleDecode, Machine: "mac", Slots: 1, Rates: rates, Rows: map[string]int{"key": rows, "other": 10_000}},
			},
		}
		s := o.Scene()
		if got := s.Machines[1].Times[0].Move; math.Abs(got-want) > 1e-6 {
			t.Errorf("%d tokens there: moved in %v s, want %v", rows, got, want)
		}
	}
}
