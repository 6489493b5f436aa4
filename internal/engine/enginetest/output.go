package enginetest

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tandem/internal/engine"
	"tandem/jobs"
)

// handover: what Decode writes for a prompt that was prefilled equals what Generate writes.
func (s *suite) handover(t *testing.T) {
	list := requests()
	generated := make([]engine.Completion, len(list))
	prefilled := make([]engine.Prefilled, len(list))

	s.cold(t)
	for i, r := range list {
		generated[i] = s.generate(t, r.req)
	}
	s.cold(t)
	for i, r := range list {
		p, err := s.Engine.Prefill(patient(t), r.req)
		if err != nil {
			t.Fatalf("%s: Prefill: %v", r.name, err)
		}
		// An engine may leave the prompt's last token to the decode side (the N−1 rule).
		if seen := p.CachedTokens + p.ComputedTokens; p.PromptTokens != generated[i].PromptTokens ||
			seen != p.PromptTokens && seen != p.PromptTokens-1 || p.Duration <= 0 {
			t.Errorf("%s: Prefill counts %d cached and %d computed of %d tokens in %v; Generate had %d",
				r.name, p.CachedTokens, p.ComputedTokens, p.PromptTokens, p.Duration, generated[i].PromptTokens)
		}
		if p.ModelDigest != s.about.ModelDigest {
			t.Errorf("%s: Prefill names the model %q, Describe %q", r.name, p.ModelDigest, s.about.ModelDigest)
		}
		switch p.Kind {
		case jobs.KindContext:
			if len(p.Context) == 0 {
				t.Errorf("%s: a context without tokens", r.name)
			}
		case jobs.KindNone, jobs.KindState:
		default:
			t.Errorf("%s: hand-over kind %q", r.name, p.Kind)
		}
		prefilled[i] = p
	}
	s.cold(t)
	for i, r := range list {
		c := s.complete(t, r.req, func(ctx context.Context, req engine.Request, emit engine.Emit) (engine.Completion, error) {
			return s.Engine.Decode(ctx, req, prefilled[i], emit)
		})
		want := generated[i]
		if prefilled[i].Kind != jobs.KindState && c.CachedTokens != want.CachedTokens {
			t.Errorf("%s: not like with like: Decode found %d tokens cached, Generate %d", r.name, c.CachedTokens, want.CachedTokens)
		}
		if !sameText(c, want) || c.FinishReason != want.FinishReason || c.GeneratedTokens != want.GeneratedTokens {
			t.Errorf("%s: Prefill and Decode differ from Generate:\n %q %q %s %d\n %q %q %s %d", r.name,
				c.Text, c.Thinking, c.FinishReason, c.GeneratedTokens, want.Text, want.Thinking, want.FinishReason, want.GeneratedTokens)
		}
		if c.PromptTokens != want.PromptTokens {
			t.Errorf("%s: Decode counts %d prompt tokens, Generate %d", r.name, c.PromptTokens, want.PromptTokens)
		}
		if len(c.Warnings) > 0 {
			t.Errorf("%s: warnings %q", r.name, c.Warnings)
		}
	}
}

// counts: a longer prompt has more tokens, and counting them does not depend on the answer's length.
func (s *suite) counts(t *testing.T) {
	short := s.generate(t, greedy("Count:\n"+code(4), 2))
	long := s.generate(t, greedy("Count:\n"+code(12), 4))
	again := s.generate(t, greedy("Count:\n"+code(12), 8))
	if long.PromptTokens <= short.PromptTokens || again.PromptTokens != long.PromptTokens {
		t.Errorf("4 lines have %d prompt tokens, 12 lines %d and then %d", short.PromptTokens, long.PromptTokens, again.PromptTokens)
	}
}

// cachedPrompt: what was computed a moment ago is found in the cache, and said so.
func (s *suite) cachedPrompt(t *testing.T) {
	if s.Slots > 1 {
		t.Log("not shown with several slots: the second request may go to another one")
		return
	}
	req := greedy("Remember:\n"+code(10), 2)
	s.cold(t)
	first := s.generate(t, req)
	second := s.generate(t, req)
	if _, cannot := s.Cannot[CacheCounts]; cannot {
		if second.CachedTokens != 0 {
			t.Errorf("an engine that cannot count cached tokens counts %d", second.CachedTokens)
		}
		return
	}
	if first.CachedTokens > first.PromptTokens/2 || second.CachedTokens < second.PromptTokens/2 {
		t.Errorf("%d of %d tokens were cached at first, then %d; want few, then most", first.CachedTokens, first.PromptTokens, second.CachedTokens)
	}
}

// length: num_predict is a limit, and reaching it is the reason to finish.
func (s *suite) length(t *testing.T) {
	for _, n := range []int{1, 2, 8} {
		c := s.generate(t, greedy("Tell me a long story.", n))
		if c.GeneratedTokens != n || c.FinishReason != "length" {
			t.Errorf("num_predict %d: %d tokens, finished by %s; want the limit to end it (the suite needs a model that goes on)", n, c.GeneratedTokens, c.FinishReason)
		}
	}
}

// stopWords: the text ends before a stop word.
func (s *suite) stopWords(t *testing.T) {
	req := greedy("Go on until I say stop.", 16)
	s.cold(t)
	whole := s.generate(t, req).Text
	runes := []rune(whole)
	if len(runes) < 6 {
		t.Fatalf("16 tokens make %q, too short to cut", whole)
	}
	word := string(runes[len(runes)/2 : len(runes)/2+2])
	req.Options.Stop = []string{word}
	s.cold(t)
	c := s.generate(t, req)
	want, _, _ := strings.Cut(whole, word)
	if c.Text != want || c.FinishReason != "stop" {
		t.Errorf("with stop word %q: %q, finished by %q; want %q of %q", word, c.Text, c.FinishReason, want, whole)
	}
}

// seeds: with a temperature, the seed decides.
func (s *suite) seeds(t *testing.T) {
	req := greedy("Choose at random.", 16)
	req.Options.Temperature = new(1.0)
	run := func(seed int64) engine.Completion {
		req.Options.Seed = &seed
		s.cold(t)
		return s.generate(t, req)
	}
	one, again, other := run(42), run(42), run(43)
	if !sameText(one, again) {
		t.Errorf("the same seed gave %q and %q", one.Text, again.Text)
	}
	if sameText(one, other) {
		t.Errorf("seeds 42 and 43 both gave %q", one.Text)
	}
}

// schema: the text is JSON that satisfies the schema, whatever the model.
func (s *suite) schema(t *testing.T) {
	if _, cannot := s.Cannot[Formats]; cannot {
		return // Run has said why
	}
	for _, temperature := range []float64{0, 1} {
		req := greedy("Grade the answer as JSON.", 320)
		req.Format = schemaOf(verdict)
		req.Options.Temperature, req.Options.Seed = &temperature, new(int64(1))
		c := s.generate(t, req)
		var got any
		if err := json.Unmarshal([]byte(c.Text), &got); err != nil {
			t.Errorf("temperature %v: %q is no JSON: %v", temperature, c.Text, err)
			continue
		}
		if err := satisfies(verdict, got); err != nil {
			t.Errorf("temperature %v: %q: %v", temperature, c.Text, err)
		}
	}
}

// roles: system prompt and earlier messages reach the model.
func (s *suite) roles(t *testing.T) {
	plain := greedy("What does ungroup do?", 16)
	system := plain
	system.System = "Answer only with numbers."
	talk := chat(16)
	last := talk
	last.Messages = talk.Messages[len(talk.Messages)-1:]
	for _, tt := range []struct {
		name          string
		without, with engine.Request
	}{{"system prompt", plain, system}, {"earlier messages", last, talk}} {
		a, b := s.generate(t, tt.without), s.generate(t, tt.with)
		if b.PromptTokens <= a.PromptTokens || sameText(a, b) {
			t.Errorf("%s: %d prompt tokens and %q without, %d and %q with", tt.name, a.PromptTokens, a.Text, b.PromptTokens, b.Text)
		}
	}
}

// thinking: reasoning is kept apart, in what is emitted and in the completion, and can be switched off.
func (s *suite) thinking(t *testing.T) {
	if s.Thinker == nil {
		return // Run has said why
	}
	req := greedy("Think about medians.", 16)
	req.Think = jobs.ThinkOn
	c := s.complete(t, req, s.Thinker.Generate)
	if c.Thinking == "" {
		t.Errorf("think on: no thinking, text %q", c.Text)
	}
	req.Think = jobs.ThinkOff
	if c := s.complete(t, req, s.Thinker.Generate); c.Thinking != "" || c.Text == "" {
		t.Errorf("think off: thinking %q, text %q", c.Thinking, c.Text)
	}
}

// progress: every call shows signs of life.
func (s *suite) progress(t *testing.T) {
	var signs atomic.Int32
	req := greedy("Are you there?", 4)
	req.Progress = func() { signs.Add(1) }
	s.generate(t, req)
	if n := signs.Swap(0); n < 2 {
		t.Errorf("Generate of 4 tokens gave %d signs of life", n)
	}
	p, err := s.Engine.Prefill(patient(t), req)
	if n := signs.Swap(0); err != nil || n < 1 {
		t.Errorf("Prefill gave %d signs of life (%v)", n, err)
	}
	if _, err := s.Engine.Decode(patient(t), req, p, func(jobs.Chunk) error { return nil }); err != nil || signs.Load() < 2 {
		t.Errorf("Decode of 4 tokens gave %d signs of life (%v)", signs.Load(), err)
	}
}

// concurrent: as many requests at once as there are slots, each with its own answer.
func (s *suite) concurrent(t *testing.T) {
	ctx := patient(t)
	var wg sync.WaitGroup
	for i := range s.Slots {
		wg.Go(func() {
			req := greedy(strings.Repeat("many ", i+1), 8)
			for range 3 {
				var got emitted
				start := time.Now()
				c, err := s.Engine.Generate(ctx, req, got.emit)
				if err != nil {
					t.Errorf("request %d of %d at once: %v", i+1, s.Slots, err)
					return
				}
				got.check(t, c)
				s.check(t, req, c, time.Since(start))
				if _, err := s.Engine.Describe(ctx); err != nil {
					t.Errorf("Describe beside requests: %v", err)
				}
			}
		})
	}
	wg.Wait()
}
