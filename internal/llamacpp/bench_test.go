package llamacpp

import (
	"testing"

	"tandem/internal/engine"
	"tandem/internal/slots"
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
