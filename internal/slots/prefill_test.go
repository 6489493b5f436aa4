package slots

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tandem/internal/tinymodel"
)

// TestClass computes the prompts of a class, whose shared part is told or found, and hands each over.
func TestClass(t *testing.T) {
	const prefix, students = 900, 10
	for _, tt := range []struct {
		shape tinymodel.Shape
		slots int
		told  bool
	}{
		{tinymodel.Llama, 3, false}, {tinymodel.Qwen3MoE, 1, true},
		{tinymodel.GPTOSS, 1, true}, {tinymodel.GPTOSS, 3, true}, {tinymodel.GPTOSS, 1, false}, {tinymodel.GPTOSS, 3, false},
		{tinymodel.GraniteHybrid, 3, true}, {tinymodel.GraniteHybrid, 1, false},
	} {
		t.Run(fmt.Sprintf("%s %d slots told %t", tt.shape, tt.slots, tt.told), func(t *testing.T) {
			s := setup{spec: tinymodel.TinyShape(tt.shape, tinymodel.BPE), slots: tt.slots}
			a, b := start(t, s), start(t, s)
			rubric := a.prompt(t, 1000, prefix).Tokens
			computed, own := 0, 0
			for i := range students {
				p := a.prompt(t, uint64(i), prefix+200+10*i, rubric...)
				own += len(p.Tokens) - prefix
				if tt.told {
					p.Shared = prefix
				}
				sl := a.acquire(t, p)
				done, err := sl.Prefill(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				computed += done.Computed
				f, err := sl.Export(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				sl.Release()
				to := b.acquire(t, p)
				if _, err := to.Import(t.Context(), p, b.receive(t, f)); err != nil {
					t.Fatal(err)
				}
				got, err := say(t.Context(), to, p)
				to.Release()
				if err != nil || got.computed != 1 {
					t.Errorf("student %d: %+v, %v", i, got, err)
				}
				if i%4 == 0 && got.text != b.cold(t, p).text {
					t.Errorf("student %d: %q after the hand-over, and not without", i, got.text)
				}
			}
			prefixes := prefix * tt.slots
			if !tt.told && tt.shape != tinymodel.Llama {
				prefixes += prefix // the first of a class shows nothing of what is shared
			}
			if limit := (prefixes + own) * 11 / 10; computed > limit {
				t.Errorf("%d tokens computed for %d prompts with %d shared and together %d own tokens, want at most %d", computed, students, prefix, own, limit)
			}
		})
	}
}

// While one slot's prompt is computed no other long one is begun, until its state is exported, its answer begins or it is given up; a short one, and one of
// which all but a little is cached, waits for nobody.
func TestPromptsHaveTurns(t *testing.T) {
	m := start(t, setup{spec: tinymodel.TinyShape(tinymodel.Llama, tinymodel.BPE), slots: 2})
	long := m.prompt(t, 1, fillsBatch+100)
	prefilled := func(p Prompt) <-chan *Slot {
		done := make(chan *Slot, 1)
		go func() {
			sl, err := m.Acquire(t.Context(), p.Tokens)
			if err == nil {
				_, err = sl.Prefill(t.Context(), p)
			}
			if err != nil {
				t.Error(err)
			}
			done <- sl
		}()
		return done
	}
	for i, end := range map[uint64]func(sl *Slot){
		2: func(sl *Slot) {
			if _, err := sl.Export(t.Context(), long); err != nil {
				t.Error(err)
			}
		},
		3: func(sl *Slot) {
			if _, err := say(t.Context(), sl, long); err != nil {
				t.Error(err)
			}
		},
		4: func(sl *Slot) { sl.Release() },
	} {
		first := m.acquire(t, long)
		first.erase(t.Context())
		began := time.Now()
		if _, err := first.Prefill(t.Context(), long); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		short := <-prefilled(m.prompt(t, 10*i, fillsBatch/4))
		short.Release()
		waits := prefilled(m.prompt(t, i, fillsBatch+100))
		until(t, "the second long prompt has a slot", func() bool { return len(m.pool.free) == 0 })
		select {
		case <-waits:
			t.Fatalf("case %d: the second prompt was computed before the first one's turn had ended", i)
		case <-time.After(3 * took): // enough for it, were it not to wait
		}
		end(first)
		(<-waits).Release()
		first.Release()
	}
}

// A prompt that is shorter than what is said to be shared, or is all shared, is computed all the same.
func TestOddSharedParts(t *testing.T) {
	m := start(t, setup{spec: tinymodel.TinyShape(tinymodel.GPTOSS, tinymodel.BPE)})
	for _, n := range []int{2, 3, 400} {
		for _, shared := range []int{-1, 1, n - 2, n - 1, n, n + 1, 100_000} {
			p := m.prompt(t, uint64(n), n)
			p.Shared = shared
			sl := m.acquire(t, p)
			sl.erase(t.Context())
			done, err := sl.Prefill(t.Context(), p)
			if err != nil || done.Computed+done.Cached != n-1 || done.Computed < n-1 {
				t.Errorf("%d tokens of which %d are shared: %+v, %v", n, shared, done, err)
			}
			if _, err := sl.Export(t.Context(), p); err != nil {
				t.Errorf("%d tokens of which %d are shared: %v", n, shared, err)
			}
			sl.Release()
		}
	}
}

func TestRecent(t *testing.T) {
	class := func(begin, length int, own ...int32) []int32 { return append(count(begin, begin+length), own...) }
	for name, tt := range map[string]struct {
		before [][]int32
		prompt []int32
		want   int
	}{
		"nothing before":            {nil, class(0, 500, 1), 0},
		"too little in common":      {[][]int32{class(0, 255, 1)}, class(0, 255, 2), 0},
		"just enough":               {[][]int32{class(0, 256, 1)}, class(0, 256, 2), 256},
		"too small a part":          {[][]int32{class(0, 300, 1)}, slices.Concat(count(0, 300), count(9000, 12000)), 0},
		"the same again":            {[][]int32{class(0, 500, 1)}, class(0, 500, 1), 0},
		"a part of an earlier one":  {[][]int32{class(0, 500, 1)}, class(0, 500), 0},
		"the longest":               {[][]int32{class(0, 300, 1), class(0, 900, 1), class(7, 900, 1)}, class(0, 900, 2), 900},
		"chance makes some longer":  {[][]int32{class(0, 900, 1, 2), class(0, 900, 3, 4)}, class(0, 900, 1, 5), 900},
		"far shorter is not chance": {[][]int32{class(0, 800, 1, 2), class(0, 900, 3, 4)}, class(0, 900, 1, 5), 900},
	} {
		var r recent
		for _, p := range tt.before {
			r.add(p)
		}
		if got := r.shared(tt.prompt); got != tt.want {
			t.Errorf("%s: %d tokens are shared, want %d", name, got, tt.want)
		}
	}
	var r recent
	for i := range 3 * maxRecent {
		r.add(class(1000*i, 300))
	}
	if len(r.prompts) != maxRecent || r.shared(class(1000*(2*maxRecent), 300, 7)) != 0 || r.shared(class(1000*(3*maxRecent-1), 290, 7)) != 290 {
		t.Errorf("%d prompts are remembered, want the last %d", len(r.prompts), maxRecent)
	}
}
