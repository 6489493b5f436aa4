package slots

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// count is the tokens from a to b.
func count(a, b int) []int32 {
	var tokens []int32
	for ; a < b; a++ {
		tokens = append(tokens, int32(a))
	}
	return tokens
}

func TestChoose(t *testing.T) {
	long := count(0, 100)
	for name, tt := range map[string]struct {
		free  []*cache
		plain bool
		want  int
	}{
		"longest prefix":                {[]*cache{{id: 0, held: long[:20], used: 1}, {id: 1, held: long[:60], used: 2}, {id: 2}}, true, 1},
		"all of it, and more":           {[]*cache{{id: 0, held: long[:99], used: 1}, {id: 1, held: append(slices.Clone(long), 7), used: 2}}, true, 1},
		"not used for longest":          {[]*cache{{id: 0, held: []int32{9}, used: 5}, {id: 1, held: []int32{9}, used: 3}, {id: 2, held: []int32{9}, used: 4}}, true, 1},
		"never used":                    {[]*cache{{id: 0, held: []int32{9}, used: 5}, {id: 1}}, true, 1},
		"equal prefixes":                {[]*cache{{id: 0, held: long[:50], used: 2}, {id: 1, held: long[:50], used: 1}}, true, 1},
		"too short a prefix to care":    {[]*cache{{id: 0, held: long[:9], used: 1}, {id: 1}}, true, 1},
		"just long enough":              {[]*cache{{id: 0, held: long[:10], used: 1}, {id: 1}}, true, 0},
		"no common prefix at its start": {[]*cache{{id: 0, held: long[1:], used: 1}, {id: 1, used: 0}}, true, 1},
		"no way back":                   {[]*cache{{id: 0, held: append(long[:60:60], 7), used: 1}, {id: 1, held: long[:20], used: 2}}, false, 1},
		"a way back":                    {[]*cache{{id: 0, held: append(long[:60:60], 7), marks: []int{30, 55, 61}, used: 1}, {id: 1, held: long[:50], used: 2}}, false, 0},
	} {
		if got := choose(tt.free, long, tt.plain); got.id != tt.want {
			t.Errorf("%s: slot %d, want %d", name, got.id, tt.want)
		}
	}
}

func TestPoolWaits(t *testing.T) {
	p := newPool(1, true)
	if err := p.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := p.take(count(0, 40), nil)
	if n := p.cached(count(0, 30)); n != 30 {
		t.Errorf("%d tokens will be cached when the slot is free, want 30", n)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if err := p.wait(ctx); !errors.Is(err, enough) {
		t.Errorf("no free slot: %v, want the cause", err)
	}
	p.release(c)
	if err := p.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := p.take(nil, map[int]bool{0: true}); again != nil {
		t.Errorf("slot %d, which another request is in", again.id)
	}
	if again := p.take(nil, nil); again != c {
		t.Errorf("slot %v, want the released one", again)
	}
}

// What a cache that cannot be stepped back can be used for.
func TestMarks(t *testing.T) {
	c := &cache{}
	c.hold(count(0, 50), false)
	c.hold(count(0, 80), false)
	own := append(count(0, 60), 7, 7, 7)
	for _, step := range []struct {
		do   func()
		want int // of own
	}{
		{func() {}, 50},
		{func() { c.hold(own[:62], false) }, 62},
		{func() { c.hold(own, true) }, 63},
		{func() { c.expect(own[:61]) }, 50},
		{func() { c.expect(own[:40]) }, 0},
		{func() { c.hold(own[:45], false) }, 45},
		{func() { c.forget() }, 0},
	} {
		step.do()
		if got := c.use(own, false); got != step.want {
			t.Errorf("%d tokens can be used, want %d: held %d, marks %v", got, step.want, len(c.held), c.marks)
		}
	}
}
