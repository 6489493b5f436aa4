package engine_test

import (
	"testing"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
)

// prompts has prompts of so many tokens computed at a speed, one after the other, alone.
func prompts(r *engine.Rates, perSecond float64, tokens ...int) {
	for _, n := range tokens {
		r.ObservePrefill(0, n, n, 1, time.Duration(float64(n)/perSecond*float64(time.Second)))
	}
}

// A machine that has changed is believed at the second job; one value does not do that, nor do some that vary.
func TestRatesFollowAMachineThatChanges(t *testing.T) {
	for name, c := range map[string]struct {
		then     func(r *engine.Rates)
		low, top float64 // of prompts of 2,000 tokens, which were computed at 900 a second
	}{
		"three times slower, one job":  {func(r *engine.Rates) { prompts(r, 300, 2000) }, 700, 900},
		"three times slower, two jobs": {func(r *engine.Rates) { prompts(r, 300, 2000, 2000) }, 300, 470},
		"four jobs":                    {func(r *engine.Rates) { prompts(r, 300, 2000, 2000, 2000, 2000) }, 300, 330},
		"three times faster, two jobs": {func(r *engine.Rates) { prompts(r, 2700, 2000, 2000) }, 2100, 2700},
		"one absurd job":               {func(r *engine.Rates) { prompts(r, 1e9, 2000) }, 900, 1800},
		"one absurd job, then as ever": {func(r *engine.Rates) { prompts(r, 1e9, 2000); prompts(r, 900, 2000, 2000, 2000) }, 900, 1020},
		"one up, one down":             {func(r *engine.Rates) { prompts(r, 1800, 2000); prompts(r, 500, 2000) }, 800, 1100},
		"somewhat slower, two jobs":    {func(r *engine.Rates) { prompts(r, 700, 2000, 2000) }, 800, 900},
		// Values of several lengths, each far from what was known of its own: that is the machine, at all lengths.
		"at other lengths": {func(r *engine.Rates) { prompts(r, 200, 8000); prompts(r, 300, 500) }, 300, 600},
		// Values of one other length may be of that length alone.
		"at one other length": {func(r *engine.Rates) { prompts(r, 200, 8000, 8000, 8000) }, 899, 901},
	} {
		t.Run(name, func(t *testing.T) {
			var r engine.Rates
			for range 5 {
				prompts(&r, 900, 500, 2000)
				prompts(&r, 600, 8000)
			}
			c.then(&r)
			if got := r.Snapshot().PrefillByLength["2k"]; got < c.low || got > c.top {
				t.Errorf("%v tokens a second, want %v to %v", got, c.low, c.top)
			}
		})
	}
}

// What is kept of save, restore, check and links follows likewise.
func TestOtherRatesFollowAMachineThatChanges(t *testing.T) {
	var r engine.Rates
	observe := func(factor time.Duration) {
		r.ObserveSave(1000, 1e8, 0, 100*time.Millisecond*factor)
		r.ObserveRestore(1e8, 100*time.Millisecond*factor, 10*time.Millisecond*factor)
		r.ObserveLink("spark", 1e8, 100*time.Millisecond*factor)
	}
	observe(1)
	observe(1)
	observe(3)
	observe(3)
	now := r.Snapshot()
	for name, got := range map[string]float64{
		"save": 1e9 / now.SaveBytesPerSecond, "restore": 1e9 / now.RestoreBytesPerSecond, "link": 1e9 / now.LinkBytesPerSecond["spark"], "check": now.CheckSeconds / 0.01,
	} {
		if got < 1.9 || got > 3 {
			t.Errorf("%s takes %v times as long, want about three times", name, got)
		}
	}
}

// The first hand-over measures a link, however small its state is; one that can tell the speed replaces what the first could not.
func TestLinkIsKnownAfterItsFirstHandover(t *testing.T) {
	link := func(r *engine.Rates) engine.Speed {
		return engine.SpeedsOf("m", protocol.RoleDecode, r.Snapshot()).Link("spark")
	}
	var r engine.Rates
	if got := link(&r); got.Measured {
		t.Errorf("a link that was never used: %+v", got)
	}
	unused := link(&r).Value
	r.ObserveLink("spark", 1000, 2*time.Second) // nothing but latency
	if got := link(&r); !got.Measured || got.Value != unused {
		t.Errorf("after a state of 1,000 bytes: %+v, want it measured, at %v as before", got, unused)
	}
	r.ObserveLink("spark", 1e7, 100*time.Millisecond)
	r.ObserveLink("spark", 1000, 2*time.Second)
	if got := link(&r); !got.Measured || got.Value != 1e8 {
		t.Errorf("after 10 MB in 0.1 s: %+v, want 1e8 bytes a second", got)
	}
}
