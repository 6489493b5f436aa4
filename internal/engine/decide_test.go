package engine_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// flat are rates that are the same at all lengths.
func flat(prefill, decode float64) protocol.Rates {
	r := protocol.Rates{
		PrefillByLength: map[string]float64{}, DecodeByLength: map[string]float64{},
		SaveBytesPerSecond: 4e9, RestoreBytesPerSecond: 4e9, CheckSeconds: 0.02,
	}
	for _, length := range protocol.RateLengths {
		r.PrefillByLength[length], r.DecodeByLength[length] = prefill, decode
	}
	return r
}

func speeds(role jobs.Stage, prefill, decode float64) engine.Speeds {
	return engine.SpeedsOf("some-model:latest", role, flat(prefill, decode))
}

// question is of 8,000 tokens and a state of 800 MB; the machines are the ones that the system is made for, roughly.
func question(change func(q *engine.Question)) engine.Question {
	q := engine.Question{
		Tokens: 8000, UncachedPrefill: 8000, UncachedDecode: 8000, Generated: 1200, StateBytes: 800e6,
		Prefill: speeds(protocol.RolePrefill, 4000, 50), Decode: speeds(protocol.RoleDecode, 1000, 100),
		Link: engine.Speed{Value: 1e9, Measured: true},
	}
	change(&q)
	return q
}

func TestDecide(t *testing.T) {
	tests := []struct {
		name   string
		change func(q *engine.Question)
		want   engine.Way
		line   string // that the decision's begins with
	}{
		{
			"as it is meant", func(*engine.Question) {}, engine.WayHandover, // 8 s − (2 + 0.2 + 0.8 + 0.2 + 0.04) s
			"hand over: saves 4.8 s of 8.0 s (8,000 tokens uncached, state 800 MB, link 1.0 GB/s)",
		},
		{
			"no state can be moved", func(q *engine.Question) { q.NoHandover = "the fingerprints differ" }, engine.WayDecode,
			"re-prefill: 8,000 tokens uncached, no KV state can be handed over: the fingerprints differ",
		},
		{
			"equal machines", func(q *engine.Question) { q.Prefill = speeds(protocol.RolePrefill, 1000, 100) }, engine.WayDecode,
			"re-prefill: 8,000 tokens uncached, hand-over would cost 1.2 s more (link 1.0 GB/s)",
		},
		{
			"a slow link", func(q *engine.Question) { q.Link.Value = 100e6 }, engine.WayDecode,
			"re-prefill: 8,000 tokens uncached, hand-over would cost 2.4 s more (link 100 MB/s)",
		},
		{
			"the prefix is cached there", func(q *engine.Question) { q.UncachedDecode = 1204 }, engine.WayDecode,
			"re-prefill: 1,204 tokens uncached, hand-over would cost 2.0 s more (link 1.0 GB/s)",
		},
		{
			"the prefix is cached on both sides, and little is left", func(q *engine.Question) { q.UncachedDecode, q.UncachedPrefill = 300, 300 }, engine.WayDecode,
			"re-prefill: 300 tokens uncached, hand-over would cost",
		},
		{
			"the prompt is cached here", func(q *engine.Question) { q.UncachedPrefill = 1 }, engine.WayHandover, "hand over: saves 6.8 s of 8.0 s",
		},
		{
			"a short answer, and a link that is not fast", func(q *engine.Question) { q.Generated, q.Link.Value = 16, 200e6 }, engine.WayPrefill,
			"whole on the prefill machine: 2.3 s, 4.3 s less than with the decode machine (8,000 tokens uncached on it, 8,000 there)",
		},
		{
			"a long answer, and a link that is not fast", func(q *engine.Question) { q.Generated, q.Link.Value = 2000, 200e6 }, engine.WayHandover, "hand over: saves",
		},
		{
			"a queue before the decode machine", func(q *engine.Question) { q.QueueDecode = time.Minute }, engine.WayPrefill,
			"whole on the prefill machine: 26.0 s, 47.0 s less than with the decode machine",
		},
		{
			"a queue that ends while the prompt is computed here", func(q *engine.Question) { q.QueueDecode = 2 * time.Second }, engine.WayHandover,
			"hand over: saves 6.8 s of 10.0 s",
		},
		{
			"a queue here", func(q *engine.Question) { q.QueuePrefill = time.Minute }, engine.WayDecode, "re-prefill: 8,000 tokens uncached, hand-over would cost 55.2 s more",
		},
		{
			"nobody to decode", func(q *engine.Question) { q.NoDecode = true }, engine.WayPrefill, "whole on the prefill machine: 26.0 s, since there is no live decode machine",
		},
		{
			"nothing measured", func(q *engine.Question) {
				q.Prefill, q.Decode = engine.SpeedsOf("gpt-oss:120b", protocol.RolePrefill, protocol.Rates{}), engine.SpeedsOf("gpt-oss:120b", protocol.RoleDecode, protocol.Rates{})
				q.Link.Measured = false
			}, engine.WayHandover, "hand over: saves 821 ms of 5.4 s (8,000 tokens uncached, state 800 MB, link 1.0 GB/s; not measured yet: prefill machine, decode machine, link)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := engine.Decide(question(tt.change))
			if d.Way != tt.want || !strings.HasPrefix(d.String(), tt.line) {
				t.Errorf("went %q: %s\nwant %q: %s…\ncosts %+v", d.Way, d, tt.want, tt.line, d.Ways())
			}
			if strings.ContainsAny(d.String(), "\n") {
				t.Errorf("decision of more than a line: %q", d)
			}
		})
	}
}

// A hand-over has to save more than the margin.
func TestMarginOfADecision(t *testing.T) {
	for name, tt := range map[string]struct {
		decode, state float64 // seconds that the prompt takes there, and that the hand-over takes beside its prefill of 1 s
		want          engine.Way
	}{
		"saves 149.9 ms of 1.2 s": {1.2, 0.0501, engine.WayDecode},
		"saves 150.1 ms of 1.2 s": {1.2, 0.0499, engine.WayHandover},
		"saves 149.9 ms of 1.5 s": {1.5, 0.3501, engine.WayDecode},
		"saves 150.1 ms of 1.5 s": {1.5, 0.3499, engine.WayHandover},
		"saves 0.999 s of 10 s":   {10, 8.001, engine.WayDecode},
		"saves 1.001 s of 10 s":   {10, 7.999, engine.WayHandover},
		"costs as much":           {1, 0, engine.WayDecode},
		"saves nothing of a lot":  {100, 99, engine.WayDecode},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 4096
			fast := flat(n, 1e6) // the prompt in 1 s
			fast.SaveBytesPerSecond = 1e15
			slow := flat(n/tt.decode, 1e9)
			slow.RestoreBytesPerSecond, slow.CheckSeconds = 1e15, 1e-6 // no time
			d := engine.Decide(engine.Question{
				Tokens: n, UncachedPrefill: n, UncachedDecode: n, Generated: 1e9, StateBytes: 1e6, // never whole on the prefill machine
				Prefill: engine.SpeedsOf("m", protocol.RolePrefill, fast), Decode: engine.SpeedsOf("m", protocol.RoleDecode, slow),
				Link: engine.Speed{Value: 1e6 / max(tt.state-3e-6, 1e-9)},
			})
			if d.Way != tt.want {
				t.Errorf("%s; margin %v, saves %v", d, d.Margin, d.Saves)
			}
		})
	}
}

// randomQuestion has any figures that machines may have.
func randomQuestion(r *rand.Rand) engine.Question {
	between := func(low, high float64) float64 { return low + r.Float64()*(high-low) }
	n := 1 + r.IntN(100_000)
	machine := func(role jobs.Stage) engine.Speeds {
		rates := protocol.Rates{
			PrefillByLength: map[string]float64{}, DecodeByLength: map[string]float64{},
			SaveBytesPerSecond: between(1e7, 1e10), RestoreBytesPerSecond: between(1e7, 1e10), CheckSeconds: between(0, 0.2),
		}
		for _, length := range protocol.RateLengths {
			if r.IntN(3) > 0 {
				rates.PrefillByLength[length] = between(20, 20_000)
			}
			if r.IntN(3) > 0 {
				rates.DecodeByLength[length] = between(1, 300)
			}
		}
		return engine.SpeedsOf([]string{"gpt-oss:120b", "qwen3-coder:30b", "x"}[r.IntN(3)], role, rates)
	}
	return engine.Question{
		Tokens: n, UncachedPrefill: 1 + r.IntN(n), UncachedDecode: 1 + r.IntN(n), Generated: r.IntN(4000), StateBytes: int64(n) * int64(1000+r.IntN(300_000)),
		QueuePrefill: time.Duration(r.IntN(2)) * time.Duration(r.IntN(100)) * time.Second, QueueDecode: time.Duration(r.IntN(2)) * time.Duration(r.IntN(100)) * time.Second,
		Prefill: machine(protocol.RolePrefill), Decode: machine(protocol.RoleDecode), Link: engine.Speed{Value: between(1e6, 5e9)},
	}
}

func TestDecisionsAreSound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	chosen := map[engine.Way]int{}
	for range 5000 {
		q := randomQuestion(r)
		d := engine.Decide(q)
		chosen[d.Way]++
		fastest := d.OnDecode
		for _, c := range d.Ways() {
			for _, part := range []float64{c.Queue, c.Prefill, c.Save, c.Transfer, c.Restore, c.Check, c.FirstToken, c.Generate, c.Total} {
				if !(part >= 0) {
					t.Fatalf("%s takes %v s: %+v", c.Way, part, c)
				}
			}
			if c.Total < fastest.Total {
				fastest = c
			}
		}
		for _, c := range d.Ways() {
			if c.Way == d.Way && c.Total-fastest.Total > 2*max(0.15, 0.1*d.OnDecode.Total) {
				t.Fatalf("went %s in %v s, where %s takes %v s", c.Way, c.Total, fastest.Way, fastest.Total)
			}
		}
		if d.Way == engine.WayHandover && d.Saves <= 0.15 {
			t.Fatalf("hands over to save %v s", d.Saves)
		}

		slow := q
		slow.Link.Value = float64(q.StateBytes) / (d.OnDecode.FirstToken + 1) // the transfer alone takes longer than the prompt
		if d := engine.Decide(slow); d.Way == engine.WayHandover {
			t.Fatalf("hands over a link that loses: %s", d)
		}
		faster := q
		faster.Link.Value *= 2
		if engine.Decide(faster).Saves < d.Saves {
			t.Fatal("a faster link makes a hand-over slower")
		}
		more := q
		more.Tokens, more.UncachedDecode = q.Tokens+1, q.UncachedDecode+1
		if more.Decode.Prefill(more.Tokens, more.Tokens-more.UncachedDecode).Value <= q.Decode.Prefill(q.Tokens, q.Tokens-q.UncachedDecode).Value && engine.Decide(more).OnDecode.FirstToken <= d.OnDecode.FirstToken {
			t.Fatal("more to compute takes less time")
		}
		none := q
		none.NoHandover = "it is context only"
		if engine.Decide(none).Way == engine.WayHandover {
			t.Fatal("hands over where it cannot")
		}
	}
	for _, w := range []engine.Way{engine.WayHandover, engine.WayDecode, engine.WayPrefill} {
		if chosen[w] < 50 {
			t.Errorf("%s was chosen %d times of 5000; the questions try too little", w, chosen[w])
		}
	}
}

// published asks about machines of which nothing was measured.
func published(model, cacheType string) func(tokens int) engine.Question {
	prefill, decode := engine.SpeedsOf(model, protocol.RolePrefill, protocol.Rates{}), engine.SpeedsOf(model, protocol.RoleDecode, protocol.Rates{})
	return func(n int) engine.Question {
		return engine.Question{
			Tokens: n, UncachedPrefill: n, UncachedDecode: n, Generated: 400,
			StateBytes: int64(prefill.StateBytes(n, cacheType).Value), Prefill: prefill, Decode: decode, Link: decode.Link("spark"),
		}
	}
}

// From which length on hand-over pays on the machines of the installation. The figures to compare with were computed from
// the same benchmarks.
func TestCrossoverOfPublishedRates(t *testing.T) {
	for _, tt := range []struct {
		model, cacheType string
		even, pays       int // from so many tokens; 0 is not compared
		at8k, at32k      float64
	}{
		{"gpt-oss:120b", "f16", 0, 1500, 1.4, 1.7},
		{"hf.co/unsloth/gpt-oss-120b-GGUF:Q8_0", "f16", 0, 1500, 1.4, 1.7},
		{"qwen3-coder:30b", "f16", 0, 6000, 1.2, 1.9},
		{"Qwen3-30B-A3B:latest", "q8_0", 2000, 0, 1.3, 2.2},
	} {
		t.Run(tt.model+" "+tt.cacheType, func(t *testing.T) {
			ask := published(tt.model, tt.cacheType)
			even, pays := engine.Crossover(128<<10, ask)
			near := func(what string, got, want, within float64) {
				if want != 0 && (got > want*within || got < want/within) {
					t.Errorf("%s %v, want about %v", what, got, want)
				}
			}
			near("breaks even at", float64(even), float64(tt.even), 1.5)
			near("pays from", float64(pays), float64(tt.pays), 1.5)
			for n, want := range map[int]float64{8192: tt.at8k, 32768: tt.at32k} {
				d := engine.Decide(ask(n))
				near("speed-up", d.OnDecode.FirstToken/d.Handover.FirstToken, want, 1.1)
			}
			if even == 0 || pays < even {
				t.Errorf("breaks even at %d tokens, pays from %d", even, pays)
			}
			if d := engine.Decide(ask(512)); d.Way != engine.WayDecode {
				t.Errorf("512 tokens: %s", d)
			}
			if d := engine.Decide(ask(pays + pays/4)); d.Way != engine.WayHandover {
				t.Errorf("%d tokens: %s", pays+pays/4, d)
			}
		})
	}
	if even, pays := engine.Crossover(128<<10, func(n int) engine.Question {
		q := published("gpt-oss:120b", "f16")(n)
		q.NoHandover = "no"
		return q
	}); even != 0 || pays != 0 {
		t.Errorf("crossover %d, %d where no state can be handed over", even, pays)
	}
}

func TestWait(t *testing.T) {
	for _, tt := range []struct {
		jobs, slots int
		seconds     float64
		want        time.Duration
	}{
		{0, 1, 10, 0}, {1, 1, 10, 5 * time.Second}, {2, 1, 10, 15 * time.Second}, {3, 4, 10, 0}, {4, 4, 10, 1250 * time.Millisecond},
		{8, 4, 10, 11250 * time.Millisecond}, {5, 0, 10, 0}, {5, 1, 0, 0}, {5, 1, -1, 0}, {5, 1, 1e300, 24 * time.Hour},
	} {
		if got := engine.Wait(tt.jobs, tt.slots, tt.seconds); got != tt.want {
			t.Errorf("%d jobs of %v s in %d slots: %v, want %v", tt.jobs, tt.seconds, tt.slots, got, tt.want)
		}
	}
}

func TestTable(t *testing.T) {
	rows := engine.Table([]int{512, 8192}, []string{"f16", "q8_0"}, func(n int, cacheType string) engine.Question {
		return published("qwen3-coder:30b", cacheType)(n)
	})
	if len(rows) != 4 {
		t.Fatalf("rows %+v", rows)
	}
	for i, want := range []struct {
		tokens int
		cache  string
		pays   bool
	}{{512, "f16", false}, {8192, "f16", true}, {512, "q8_0", false}, {8192, "q8_0", true}} {
		r := rows[i]
		if r.Tokens != want.tokens || r.CacheType != want.cache || r.Pays != want.pays || r.SpeedUp != r.Whole/r.Handover || r.Pays != (r.Whole-r.Handover > max(0.15, 0.1*r.Whole)) {
			t.Errorf("row %d: %+v, want %+v", i, r, want)
		}
	}
	if rows[1].StateBytes != 98320*8192 || rows[3].StateBytes >= rows[1].StateBytes {
		t.Errorf("states of %d and %d bytes", rows[1].StateBytes, rows[3].StateBytes)
	}
}
