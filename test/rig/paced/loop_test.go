package paced

import (
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tandem/test/rig/paced/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// table is a machine of round figures: 1,000 prompt tokens and 100 generated ones a second, 1 MB/s for states of 1,000 bytes a token.
func table(slots int) *fleet.Fleet {
	return &fleet.Fleet{Model: "m", BytesPerToken: 1000, LinkBytesPerSecond: 1, Machines: []fleet.Machine{{
		Name: "m", Slots: slots, Prefill: []fleet.Point{{Tokens: 1000, Value: 1}, {Tokens: 10000, Value: 10}}, Decode: []fleet.Point{{Tokens: 0, Value: 100}},
		Busy: map[int]float64{2: 1.5, 4: 2.5}, SaveBytesPerSecond: 1e6, RestoreBytesPerSecond: 1e6,
	}}}
}

// running has a loop work in a bubble of virtual time, and ends it.
func running(t *testing.T, f *fleet.Fleet, scale float64, work func(l *loop)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		l := newLoop(f, &f.Machines[0], scale, 1)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { l.run(stop) })
		work(l)
		close(stop)
		wg.Wait()
	})
}

// ask gives a task to the loop.
func (l *loop) ask(t *testing.T, task *task) *task {
	t.Helper()
	if err := l.submit(task, l.elapsed()); err != nil {
		t.Error(err)
	}
	return task
}

// asked is a completion of n tokens in a slot.
func asked(slot int, prompt []int32, n int) *task {
	k := newTask(slot)
	k.prompt, k.cache, k.answer = prompt, true, compose(prompt, n, n, nil, 0)
	return k
}

// await returns the task's last report.
func (t *task) await() report {
	for r := range t.latest {
		if r.finished {
			return r
		}
	}
	panic("never closed")
}

// numbered are n tokens that begin with shared ones and go on in a way of their own.
func numbered(shared, n, own int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
		if i >= shared {
			list[i] = int32(own*1_000_000 + i)
		}
	}
	return list
}

// near compares seconds.
func near(t *testing.T, what string, got time.Duration, want float64) {
	t.Helper()
	if math.Abs(got.Seconds()-want) > 1e-6 {
		t.Errorf("%s took %v, want %v s", what, got, want)
	}
}

// A hundred requests, one after the other, take what the table says, also on a machine where every timer is late.
func TestTimeFollowsTheTable(t *testing.T) {
	spark, err := fleet.Read("../../../test/fleets/spark-mac-qwen.json")
	if err != nil {
		t.Fatal(err)
	}
	const scale = 0.05
	m := &spark.Machines[0]
	for name, delayed := range map[string]bool{"timers on time": false, "late timers": true} {
		t.Run(name, func(t *testing.T) {
			running(t, spark, scale, func(l *loop) {
				begin, stop := time.Now(), make(chan struct{})
				var wg sync.WaitGroup
				if delayed {
					wg.Go(func() {
						for i := 1; ; i++ {
							select {
							case <-stop:
								return
							case <-time.After(time.Duration(i%10) * time.Millisecond):
								_ = l.do(func() { time.Sleep(3 * time.Millisecond) }) // as if another program had the processor
							}
						}
					})
				}
				want := 0.0
				for i := range 100 {
					prompt := numbered(1000, 1000+50*i, i)
					cached := 1000
					if i == 0 {
						prompt, cached = numbered(1000, 1000, i), 0
					}
					if i == 1 {
						cached = 999 // the last token is always computed, and nothing of the answer's is the next prompt's
					}
					n := 20 + i
					k := asked(0, prompt, n)
					k.stream = i%2 == 0
					r := l.ask(t, k).await()
					takes := m.PrefillSeconds(len(prompt), r.cached)
					decode := 0.0
					for j := 1; j < n; j++ { // the first one is not counted, as llama-server does not
						decode += m.TokenSeconds(len(prompt)+j, 1)
					}
					if r.generated != n || r.cached < cached-1 || math.Abs(r.prefill.Seconds()-takes*scale) > 1e-6 || math.Abs(r.decode.Seconds()-decode*scale) > 1e-6 {
						t.Errorf("request %d: %+v; want %v s and %v s", i, r, takes*scale, decode*scale)
					}
					want += (takes + m.TokenSeconds(len(prompt), 1) + decode) * scale
				}
				took := time.Since(begin).Seconds()
				close(stop)
				wg.Wait()
				if math.Abs(took-want) > 0.01*want {
					t.Errorf("all took %v s, the table says %v s", took, want)
				}
				if !delayed && math.Abs(took-want) > 1e-5 {
					t.Errorf("all took %v s, the table says %v s, and no timer was late", took, want)
				}
			})
		})
	}
}

// What several slots do at once: answers share the machine, a prompt makes them all but stand still, a state has it alone.
func TestSlotsShareTheLoop(t *testing.T) {
	t.Run("answers", func(t *testing.T) {
		running(t, table(4), 1, func(l *loop) {
			var list []*task
			for i := range 2 {
				list = append(list, asked(i, numbered(0, 1, i+1), 100))
			}
			begin := time.Now()
			for _, k := range list {
				l.ask(t, k)
			}
			// The second prompt takes 1 ms, which the first answer gains. Then both go on at 15 ms a token, and the second one's last token
			// would be there within the 10 ms that it takes one alone.
			for _, k := range list {
				k.await()
				near(t, "an answer", time.Since(begin), 0.001+100*0.015)
			}
		})
	})
	t.Run("a prompt", func(t *testing.T) {
		running(t, table(2), 1, func(l *loop) {
			begin := time.Now()
			first := l.ask(t, asked(0, numbered(0, 1, 1), 100))
			<-time.After(501 * time.Millisecond) // half of it
			second := l.ask(t, asked(1, numbered(0, 5000, 2), 0))
			second.await()
			near(t, "the prompt", time.Since(begin), 0.501+5)
			first.await()
			near(t, "the answer", time.Since(begin), 0.001+5+0.97) // three chunks, so three tokens
		})
	})
	t.Run("two prompts", func(t *testing.T) {
		running(t, table(2), 1, func(l *loop) {
			begin := time.Now()
			first, second := l.ask(t, asked(1, numbered(0, 5000, 1), 0)), l.ask(t, asked(0, numbered(0, 3000, 2), 0))
			first.await()
			near(t, "the first", time.Since(begin), 5)
			if r := second.await(); r.prefill != 3*time.Second {
				t.Errorf("the second prompt took %v, want 3 s", r.prefill)
			}
			near(t, "both", time.Since(begin), 8)
		})
	})
	t.Run("a state", func(t *testing.T) {
		running(t, table(2), 1, func(l *loop) {
			l.ask(t, asked(1, numbered(0, 500, 1), 0)).await()
			begin := time.Now()
			first := l.ask(t, asked(0, numbered(0, 1000, 2), 10))
			save := newTask(1)
			save.move = Save
			l.ask(t, save)
			if r := save.await(); len(r.held) != 500 {
				t.Errorf("%d tokens to save, want 500", len(r.held))
			}
			near(t, "the prompt and the state", time.Since(begin), 1+0.5)
			first.await()
			near(t, "all", time.Since(begin), 1+0.5+0.1)
		})
	})
	t.Run("one that waits for its slot", func(t *testing.T) {
		running(t, table(2), 1, func(l *loop) {
			begin := time.Now()
			prompt := numbered(0, 1000, 1)
			first, second := l.ask(t, asked(0, prompt, 10)), l.ask(t, asked(0, prompt, 10))
			first.await()
			if r := second.await(); r.cached != 999 {
				t.Errorf("%d tokens cached, want 999", r.cached)
			}
			near(t, "both", time.Since(begin), 1+0.1+0.001+0.1)
		})
	})
}

func TestCancelledAtOnce(t *testing.T) {
	running(t, table(1), 1, func(l *loop) {
		begin := time.Now()
		prompt := numbered(0, 5000, 1)
		stopped, waits, next := l.ask(t, asked(0, prompt, 100)), l.ask(t, asked(0, prompt, 100)), asked(0, prompt, 100)
		<-time.After(3 * time.Second) // in the middle of the second chunk
		for _, k := range []*task{waits, stopped} {
			if err := l.do(func() { l.cancel(k) }); err != nil {
				t.Error(err)
			}
		}
		if r := l.ask(t, next).await(); r.cached != chunkTokens {
			t.Errorf("%d tokens cached, want those of the first chunk", r.cached)
		}
		near(t, "all", time.Since(begin), 3+2.952+1)

		answering := l.ask(t, asked(0, prompt, 100))
		<-time.After(501 * time.Millisecond)
		if err := l.do(func() { l.cancel(answering) }); err != nil {
			t.Error(err)
		}
		held := slices.Concat(prompt, tokens(answering.answer.whole)[:49]) // of 50 tokens, since nothing was computed from the last
		if r := l.ask(t, asked(0, slices.Concat(held, held[:10]), 1)).await(); r.cached != 5049 {
			t.Errorf("%d tokens cached, want 5,049", r.cached)
		}
	})
}

// Who names no slot gets the one with the longest common beginning, or else the one that was used least recently.
func TestSlotOfTheBestCache(t *testing.T) {
	running(t, table(3), 1, func(l *loop) {
		for i, prompt := range [][]int32{numbered(50, 1000, 1), numbered(500, 1000, 2), numbered(50, 1000, 3)} {
			l.ask(t, asked(i, prompt, 1)).await()
		}
		for _, tt := range []struct {
			prompt []int32
			slot   int
			cached int
		}{
			{numbered(500, 1000, 4), 1, 500},
			{numbered(400, 1000, 5), 1, 400},
			{numbered(50, 1000, 6), 0, 50}, // too little of it: the oldest
			{numbered(0, 1000, 7), 2, 0},
			{numbered(0, 1000, 8), 1, 0},
		} {
			k := l.ask(t, asked(-1, tt.prompt, 1))
			if r := k.await(); k.slot.id != tt.slot || r.cached != tt.cached {
				t.Errorf("slot %d with %d tokens cached, want slot %d and %d", k.slot.id, r.cached, tt.slot, tt.cached)
			}
		}
	})
}

func TestTimelineAndSlower(t *testing.T) {
	running(t, table(2), 0.5, func(l *loop) {
		l.ask(t, asked(1, numbered(0, 5000, 1), 100)).await()
		save := newTask(1)
		save.move = Save
		l.ask(t, save).await()
		if err := l.do(func() { l.slower = 3 }); err != nil {
			t.Fatal(err)
		}
		l.ask(t, asked(0, numbered(0, 1000, 1), 100))
		<-time.After(2 * time.Second)
		var got Timeline
		if err := l.do(func() { got = l.timeline(); l.forget() }); err != nil {
			t.Fatal(err)
		}
		saved := 3 + 0.5*5.099 // the answer's last token is not in the state
		want := [][]Span{
			{{Prefill, saved, saved + 1.5}, {Decode, saved + 1.5, saved + 2}},
			{{Prefill, 0, 2.5}, {Decode, 2.5, 3}, {Save, 3, saved}},
		}
		for i, spans := range got.Slots {
			same := slices.EqualFunc(spans, want[i], func(a, b Span) bool {
				return a.Kind == b.Kind && math.Abs(a.Begin-b.Begin) < 1e-6 && math.Abs(a.End-b.End) < 1e-6
			})
			if !same {
				t.Errorf("slot %d: %v, want %v", i, spans, want[i])
			}
		}
		if got.Machine != "m" || got.Start != l.start.UnixNano() {
			t.Errorf("machine %q since %d", got.Machine, got.Start)
		}
		if err := l.do(func() { got = l.timeline() }); err != nil {
			t.Fatal(err)
		}
		if len(got.Slots[0]) != 1 || len(got.Slots[1]) != 0 {
			t.Errorf("after forgetting: %v; want what is still being done", got.Slots)
		}
	})
}
