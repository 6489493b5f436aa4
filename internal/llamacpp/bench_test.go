package llamacpp

import (
	"fmt"
	"sync"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/slots"
	"tandem/internal/tinymodel"
)

// BenchmarkGenerate shows what the two steps cost, beside one chat request for the same prompt: 500
// words, of which the last few are new each time, and 8 tokens of answer.
func BenchmarkGenerate(b *testing.B) {
	e := supervised(b, Options{NumCtx: 4096})
	request := func(n int) engine.Request { return ask(prose(1, 500)+prose(uint64(n), 20), 8) }
	b.Run("engine", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			if _, err := e.Generate(b.Context(), request(n), ignore); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("direct", func(b *testing.B) {
		s, err := e.connect(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for n := 0; b.Loop(); n++ {
			chat := chatOf(request(n))
			chat.Placement = slots.Placement{CachePrompt: true, Stream: true}
			if err := s.Stream(b.Context(), "/v1/chat/completions", chat, func() {}, func(*slots.Event) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkMeasure shows how long a worker measures an engine at its start, and how near it comes to what then happens: the speed that was
// measured as a multiple of that of prompts of about 300 tokens and answers of 100, one at a time and in all slots.
func BenchmarkMeasure(b *testing.B) {
	for name, spec := range map[string]tinymodel.Spec{"tiny": tinymodel.Tiny(tinymodel.BPE), "visible": tinymodel.Visible(tinymodel.BPE)} {
		for _, count := range []int{1, 4} {
			b.Run(fmt.Sprintf("%s/%d", name, count), func(b *testing.B) {
				e := supervised(b, Options{NumCtx: 8192, Slots: count, ModelFile: modelOf(b, spec)})
				about, err := e.Describe(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				var rates engine.Rates
				for b.Loop() {
					rates = engine.Rates{}
					if err := rates.Measure(b.Context(), e, about, count); err != nil {
						b.Fatal(err)
					}
				}
				speeds := engine.SpeedsOf("m", protocol.RoleDecode, rates.Snapshot())
				one := together(b, e, 1)[0]
				b.ReportMetric(speeds.Prefill(one.PromptTokens, one.PromptTokens-one.ComputedTokens).Value/engine.PerSecond(one.ComputedTokens, one.PrefillDuration), "prefill/actual")
				b.ReportMetric(speeds.Decode(one.PromptTokens).Value/engine.PerSecond(one.GeneratedTokens-1, one.DecodeDuration), "decode/actual")
				all := together(b, e, count)[0]
				b.ReportMetric(speeds.DecodeBusy(all.PromptTokens, count).Value/engine.PerSecond(all.GeneratedTokens-1, all.DecodeDuration), "busy/actual")
			})
		}
	}
}

// together runs so many requests at once.
func together(b *testing.B, e *Engine, count int) []engine.Completion {
	done := make([]engine.Completion, count)
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() {
			var err error
			if done[i], err = e.Generate(b.Context(), ask(prose(uint64(10*count+i), 200), 100), ignore); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	return done
}
