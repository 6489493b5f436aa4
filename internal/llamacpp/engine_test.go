package llamacpp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/slots"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

func TestPrefillAndDecodeEqualGenerate(t *testing.T) {
	for _, tokenizer := range tokenizers {
		t.Run(string(tokenizer), func(t *testing.T) {
			e := supervised(t, Options{ModelFile: model(t, tokenizer), NumCtx: 4096})
			for i, words := range []int{1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 40, 41, 42, 43, 44} {
				r := ask(fmt.Sprint(i, prose(uint64(i), words)), 24)
				evict(t, e)
				whole := generate(t, e, r)
				evict(t, e)
				p, err := e.Prefill(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				c, err := e.Decode(t.Context(), r, p, ignore)
				if err != nil {
					t.Fatal(err)
				}
				if c.Text != whole.Text || c.FinishReason != whole.FinishReason || c.Text == "" {
					t.Errorf("%d words: decode says %q (%s), generate %q (%s)", words, c.Text, c.FinishReason, whole.Text, whole.FinishReason)
				}
				if direct := direct(t, e, r); c.Text != direct {
					t.Errorf("%d words: decode says %q, one request to llama-server %q", words, c.Text, direct)
				}
				n := whole.PromptTokens
				if p.PromptTokens != n || p.CachedTokens != 0 || p.ComputedTokens != n-1 || p.Kind != jobs.KindNone {
					t.Errorf("prefill of %d tokens reports %+v", n, p)
				}
				if c.PromptTokens != n || c.CachedTokens != n-1 || c.ComputedTokens != 1 || len(c.Warnings) > 0 {
					t.Errorf("decode after prefill of %d tokens reports %+v", n, c)
				}
				if whole.CachedTokens != 0 || whole.ComputedTokens != n || len(whole.Warnings) > 0 {
					t.Errorf("cold generation after %d tokens reports %+v", n, whole)
				}
				if whole.PrefillDuration <= 0 || whole.DecodeDuration <= 0 || whole.FirstToken <= 0 || whole.GeneratedTokens < 1 || whole.GeneratedTokens > 24 {
					t.Errorf("durations or tokens are missing from %+v", whole)
				}
			}
		})
	}
}

// direct asks the server itself, cold, in one request.
func direct(t *testing.T, e *Engine, r engine.Request) string {
	t.Helper()
	evict(t, e)
	s, err := e.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	chat := chatOf(r)
	chat.Placement = slots.Placement{CachePrompt: true}
	if err := s.Call(t.Context(), "/v1/chat/completions", chat, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Choices[0].Message.Content
}

func TestDescribe(t *testing.T) {
	e := supervised(t, Options{Model: "tiny:latest", Slots: 2, NumCtx: 512, CacheType: "q8_0"})
	d, err := e.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Engine != "llamacpp" || d.Version == "" || d.Model != "tiny:latest" || !d.Loaded || d.Slots != 2 || d.ContextTokens != 512 {
		t.Errorf("description %+v", d)
	}
	if len(d.ModelDigest) != 64 {
		t.Errorf("digest %q, want SHA-256 in hex", d.ModelDigest)
	}
	if len(d.Handover) != 1 || d.Handover[0] != jobs.KindNone {
		t.Errorf("hand-over %v, want none", d.Handover)
	}
}

func TestCommonPrefixIsFoundInItsSlot(t *testing.T) {
	e := supervised(t, Options{Slots: 2, NumCtx: 4096})
	class := [2]string{prose(1, 400), prose(2, 400)}
	for i, r := range []engine.Request{ask(class[0]+"first", 4), ask(class[1]+"second", 4)} {
		if c := generate(t, e, r); c.CachedTokens > c.PromptTokens/10 {
			t.Fatalf("job %d of a new class found %d of %d tokens", i, c.CachedTokens, c.PromptTokens)
		}
	}
	for i := range 6 {
		r := ask(class[i%2]+prose(uint64(10+i), 20), 4)
		if c := generate(t, e, r); c.CachedTokens < c.PromptTokens*8/10 || c.CachedTokens+c.ComputedTokens != c.PromptTokens {
			t.Errorf("job %d of class %d found %d of %d tokens and computed %d", i, i%2, c.CachedTokens, c.PromptTokens, c.ComputedTokens)
		}
	}
}

func TestParallelRequestsHaveSlotsOfTheirOwn(t *testing.T) {
	e := supervised(t, Options{Slots: 3, NumCtx: 2048})
	var all sync.WaitGroup
	for i := range 9 {
		all.Go(func() {
			r := ask(prose(uint64(i), 150), 16)
			p, err := e.Prefill(t.Context(), r)
			if err == nil {
				_, err = e.Decode(t.Context(), r, p, ignore)
			}
			if err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		})
	}
	all.Wait()
}

func TestMessagesAndStop(t *testing.T) {
	e := supervised(t, Options{ModelFile: model(t, tinymodel.SentencePiece), NumCtx: 1024})
	r := ask("", 40)
	r.System, r.Prompt = "", ""
	r.Messages = []jobs.Message{
		{Role: jobs.RoleSystem, Content: "You grade homework."}, {Role: jobs.RoleUser, Content: "x <- 1"},
		{Role: jobs.RoleAssistant, Content: "Well done."}, {Role: jobs.RoleUser, Content: "And y?"},
	}
	whole := generate(t, e, r)
	stop := whole.Text[len(whole.Text)/2 : len(whole.Text)/2+3]
	r.Options.Stop = []string{stop}
	c := generate(t, e, r)
	if before, _, _ := strings.Cut(whole.Text, stop); c.Text != before || c.FinishReason != "stop" {
		t.Errorf("stopped at %q: %q (%s), want the beginning of %q", stop, c.Text, c.FinishReason, whole.Text)
	}
	r.Options.Stop = nil
	r.Messages = append(r.Messages, jobs.Message{Role: jobs.RoleAssistant, Content: "It is"})
	if c := generate(t, e, r); strings.HasPrefix(c.Text, "It is") || c.Text == "" {
		t.Errorf("the answer %q repeats what it was to continue", c.Text)
	}
}

func TestSeedRepeats(t *testing.T) {
	e := supervised(t, Options{NumCtx: 1024})
	r := ask(prose(3, 30), 24)
	r.Options = jobs.Options{NumPredict: new(24), Temperature: new(1.5), Seed: new(int64(7)), TopK: new(100), TopP: new(0.99), MinP: new(0.0), RepeatPenalty: new(1.1)}
	a, b := generate(t, e, r), generate(t, e, r)
	r.Options.Seed = new(int64(8))
	if c := generate(t, e, r); a.Text != b.Text || a.Text == c.Text {
		t.Errorf("seeds 7, 7 and 8 gave %q, %q and %q; want the first two equal and the third different", a.Text, b.Text, c.Text)
	}
}

func TestFormat(t *testing.T) {
	e := supervised(t, Options{NumCtx: 1024})
	r := ask("How many points?", 200)
	r.Format = json.RawMessage(`{"type":"object","properties":{"points":{"type":"integer","minimum":0,"maximum":9},"why":{"type":"string","maxLength":8}},"required":["points","why"]}`)
	var answer struct {
		Points *int
		Why    *string
	}
	c := generate(t, e, r)
	if err := json.Unmarshal([]byte(c.Text), &answer); err != nil || answer.Points == nil || answer.Why == nil || c.FinishReason != "stop" {
		t.Errorf("answer %q (%s) does not fit the schema: %v", c.Text, c.FinishReason, err)
	}
	r.Format = json.RawMessage(`"json"`)
	if c := generate(t, e, r); !strings.HasPrefix(strings.TrimSpace(c.Text), "{") {
		t.Errorf("answer %q is no JSON object", c.Text)
	}
	r.Format = json.RawMessage(`{"type":"objekt"}`)
	_, err := e.Generate(t.Context(), r, ignore)
	if jobs.CodeOf(err) != jobs.CodeEngineRefused || !strings.Contains(err.Error(), "objekt") {
		t.Errorf("a bad schema gave %v (%s)", err, jobs.CodeOf(err))
	}
}

func TestThinkingIsKeptApart(t *testing.T) {
	e := attachedTo(t, "--chat-template-file", write(t, "thinker.jinja", standintest.Thinker), "--ctx-size", "1024", "--parallel", "1")
	for think, thinks := range map[jobs.Think]bool{"": true, jobs.ThinkOn: true, jobs.ThinkHigh: true, jobs.ThinkOff: false} {
		r := ask("x <- 1", 12)
		r.Think = think
		var text, thinking strings.Builder
		c, err := e.Generate(t.Context(), r, func(piece jobs.Chunk) error {
			text.WriteString(piece.Text)
			thinking.WriteString(piece.Thinking)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if (c.Thinking != "") != thinks || (c.Text != "") == thinks || len(c.Warnings) > 0 {
			t.Errorf("think %q: text %q, thinking %q, warnings %q", think, c.Text, c.Thinking, c.Warnings)
		}
		if text.String() != c.Text || thinking.String() != c.Thinking {
			t.Errorf("think %q: emitted %q and %q, completed %q and %q", think, &text, &thinking, c.Text, c.Thinking)
		}
	}
}

func TestTooLongIsRefusedBeforeItIsComputed(t *testing.T) {
	e := supervised(t, Options{NumCtx: 512})
	for name, r := range map[string]engine.Request{
		"prompt":  ask(prose(1, 2000), 4),
		"num_ctx": {Prompt: "x", Options: jobs.Options{NumCtx: new(100_000)}},
	} {
		_, err := e.Prefill(t.Context(), r)
		if jobs.CodeOf(err) != jobs.CodeContextOverflow || !strings.Contains(err.Error(), "512") {
			t.Errorf("%s: error %v (%s), want context_overflow that names 512", name, err, jobs.CodeOf(err))
		}
	}
	c, err := e.Generate(t.Context(), ask("x", 100_000), ignore)
	if err != nil || c.FinishReason != "length" || c.PromptTokens+c.GeneratedTokens < 500 {
		t.Errorf("a full context gave %d+%d tokens, reason %q, error %v", c.PromptTokens, c.GeneratedTokens, c.FinishReason, err)
	}
}

func TestCancelAndEmitErrorStopTheServer(t *testing.T) {
	e := supervised(t, Options{NumCtx: 32768})
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := e.Generate(ctx, ask("x", 1_000_000), func(jobs.Chunk) error {
		cancel(jobs.ErrCancelled)
		return nil
	})
	if !errors.Is(err, jobs.ErrCancelled) {
		t.Errorf("cancelled in mid answer: %v, want the cause", err)
	}
	broken := errors.New("nobody listens")
	if _, err := e.Generate(t.Context(), ask("y", 1_000_000), func(jobs.Chunk) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("emit failed: %v, want its error", err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	progress := 0
	r := ask(prose(9, 8000), 4)
	r.Progress = func() {
		if progress++; progress == 3 { // rendered, begun, first batch computed
			cancel(jobs.ErrDraining)
		}
	}
	if _, err := e.Prefill(ctx, r); !errors.Is(err, jobs.ErrDraining) {
		t.Errorf("cancelled in mid prompt: %v, want the cause", err)
	}
	// The slot is free again as soon as the server has noticed, and what it computed is not lost.
	r.Progress = nil
	p, err := e.Prefill(t.Context(), r)
	if err != nil || p.CachedTokens+p.ComputedTokens != p.PromptTokens-1 {
		t.Errorf("after the cancellations: %+v, %v", p, err)
	}
}
