package enginetest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// Pair is two engines with the same model, as on two machines: the KV state moves from one to the
// other as a copy of a file. Both must say that they move states.
type Pair struct {
	Prefill, Decode engine.Engine
	Slots           int   // of each
	Tokens          []int // lengths of the prompts to hand over, roughly; 64 and 500 if empty
	LineTokens      int   // of a line of the suite's code, roughly; 22 if 0, as with the stand-ins' vocabularies

	// Window is the model's sliding window, 0 without. llama-server computes the last tokens of a prompt that is
	// shorter than it again, although it need not: up to 8.
	Window int
}

// Handover holds a pair to what a hand-over promises: the text that the prefill engine would have gone
// on to write, one prompt token computed on the decode side, and no harm from a state that is not right.
func Handover(t *testing.T, p Pair) {
	if len(p.Tokens) == 0 {
		p.Tokens = []int{64, 500}
	}
	for _, e := range []engine.Engine{p.Prefill, p.Decode} {
		if err := e.Load(patient(t)); err != nil {
			t.Fatalf("Load: %v", err)
		}
	}
	there, here := p.kvTransfer(t, p.Prefill), p.kvTransfer(t, p.Decode)
	if d := here.Fingerprint.Differences(there.Fingerprint, true); len(d) > 0 {
		t.Fatalf("the engines' fingerprints differ: %s", strings.Join(d, "; "))
	}
	for _, n := range p.Tokens {
		t.Run(fmt.Sprintf("%d tokens", n), func(t *testing.T) { p.check(t, p.sized("Grade", n), n) })
	}
	t.Run("kinds of requests", func(t *testing.T) {
		for _, r := range requests() {
			t.Run(r.name, func(t *testing.T) { p.check(t, r.req, 0) })
		}
	})
	t.Run("one token", func(t *testing.T) {
		req := p.sized("One", 64)
		req.Options.NumPredict = new(1)
		p.check(t, req, 0)
	})
	t.Run("all slots at once", p.atOnce)
	t.Run("class", p.class)
	t.Run("wrong states", p.wrong)
}

func (p Pair) kvTransfer(t *testing.T, e engine.Engine) *engine.KVTransfer {
	t.Helper()
	d, err := e.Describe(patient(t))
	if err != nil {
		t.Fatalf("Describe: %v", err)
	}
	if d.KVTransfer == nil {
		t.Fatalf("%s moves no states: %s", d.Engine, d.NoKVTransfer)
	}
	return d.KVTransfer
}

// export prefills a request and returns what can be handed over.
func (p Pair) export(t testing.TB, req engine.Request) engine.Prefilled {
	t.Helper()
	req.Export = true
	pre, err := p.Prefill.Prefill(patient(t), req)
	if err != nil {
		t.Fatalf("Prefill: %v", err)
	}
	if pre.Kind != jobs.KindState || pre.State == nil {
		t.Fatalf("Prefill hands over %s (%s: %s); want a state", pre.Kind, pre.Failure, pre.Note)
	}
	s := pre.State
	info, err := os.Stat(s.Path)
	if err != nil {
		t.Fatalf("the state's file: %v", err)
	}
	if info.Size() != s.Bytes || s.Tokens != pre.PromptTokens-1 || len(s.First) < 2 || s.Saved <= 0 {
		t.Fatalf("a state of %d bytes and %d tokens, %d predictions, saved in %v; the file has %d bytes and the prompt %d tokens",
			s.Bytes, s.Tokens, len(s.First), s.Saved, info.Size(), pre.PromptTokens)
	}
	if info.Mode().Perm()&0o007 != 0 {
		t.Errorf("the state's file is %v; others must not read it", info.Mode())
	}
	return pre
}

// move copies the state to the decode engine's machine and removes the original.
func (p Pair) move(t testing.TB, pre engine.Prefilled) engine.Prefilled {
	t.Helper()
	d, err := p.Decode.Describe(patient(t))
	if err != nil {
		t.Fatalf("Describe: %v", err)
	}
	data, err := os.ReadFile(pre.State.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(pre.State.Path); err != nil {
		t.Fatal(err)
	}
	moved := *pre.State
	moved.Path = filepath.Join(d.KVTransfer.Dir, "moved-"+filepath.Base(pre.State.Path))
	if err := os.WriteFile(moved.Path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(moved.Path) })
	pre.State = &moved
	return pre
}

// check hands one request over and compares.
func (p Pair) check(t *testing.T, req engine.Request, about int) {
	t.Helper()
	pre := p.move(t, p.export(t, req))
	if about > 0 && math.Abs(float64(pre.PromptTokens-about)) > 0.3*float64(about)+16 {
		t.Errorf("the prompt has %d tokens, meant to be about %d", pre.PromptTokens, about)
	}
	want := p.continued(t, req)
	c := p.decode(t, req, pre)
	if !sameText(c, want) || c.FinishReason != want.FinishReason || c.GeneratedTokens != want.GeneratedTokens {
		t.Errorf("the decode side differs from the prefill side going on by itself:\n %q %q %s %d\n %q %q %s %d",
			c.Text, c.Thinking, c.FinishReason, c.GeneratedTokens, want.Text, want.Thinking, want.FinishReason, want.GeneratedTokens)
	}
}

// continued is what the prefill engine writes when it goes on by itself.
func (p Pair) continued(t testing.TB, req engine.Request) engine.Completion {
	t.Helper()
	c, err := p.Prefill.Generate(patient(t), req, discard)
	if err != nil {
		t.Fatalf("Generate on the prefill side: %v", err)
	}
	return c
}

// decode generates from a state, with the proof that it was used.
func (p Pair) decode(t testing.TB, req engine.Request, pre engine.Prefilled) engine.Completion {
	t.Helper()
	var got emitted
	c, err := p.Decode.Decode(patient(t), req, pre, got.emit)
	if err != nil {
		t.Errorf("Decode: %v", err)
		return c
	}
	if got.text != c.Text || got.thinking != c.Thinking {
		t.Errorf("the pieces do not add up to the completion: %q, want %q", got.text, c.Text)
	}
	most := 1
	if c.PromptTokens <= p.Window {
		most = 8
	}
	if c.CachedTokens != c.PromptTokens-c.ComputedTokens || c.ComputedTokens < 1 || c.ComputedTokens > most || c.PromptTokens != pre.PromptTokens {
		t.Errorf("%d of %d prompt tokens cached and %d computed; the state has %d", c.CachedTokens, c.PromptTokens, c.ComputedTokens, pre.State.Tokens)
	}
	if i := c.Imported; i == nil || i.Tokens != pre.State.Tokens || i.Restored <= 0 || i.Checked <= 0 || i.Divergence < 0 || i.Divergence > 0.01 {
		t.Errorf("no proof that the state was used: %+v", i)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %q", c.Warnings)
	}
	return c
}

// atOnce: each slot takes a state of its own, while the others generate.
func (p Pair) atOnce(t *testing.T) {
	var reqs []engine.Request
	var moved []engine.Prefilled
	var want []engine.Completion
	for i := range 2 * p.Slots {
		req := p.sized(fmt.Sprintf("Student %d", i), 200)
		req.Options.NumPredict = new(24)
		pre := p.export(t, req)
		want = append(want, p.continued(t, req))
		reqs, moved = append(reqs, req), append(moved, p.move(t, pre))
	}
	free := make(chan struct{}, p.Slots)
	var wg sync.WaitGroup
	for i, req := range reqs {
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			if c := p.decode(t, req, moved[i]); !sameText(c, want[i]) {
				t.Errorf("request %d of %d with %d at once: %q, want %q", i, len(reqs), p.Slots, c.Text, want[i].Text)
			}
		})
	}
	wg.Wait()
}

// class: what all prompts share is computed once on the prefill side and never on the decode side.
func (p Pair) class(t *testing.T) {
	const students = 8
	shared := "The rubric, the template and the solution:\n" + code(60)
	computed, whole, own := 0, 0, 0
	for i := range students {
		req := greedy(shared+fmt.Sprintf("Now student %d:\n", i)+p.sized(fmt.Sprint("work ", i), 120).Prompt, 8)
		req.SharedPrefix = len(shared)
		pre := p.export(t, req)
		computed += pre.ComputedTokens
		if i == 0 {
			whole = pre.PromptTokens
			alone := greedy(shared, 1)
			if e, ok := p.Prefill.(engine.Estimator); ok {
				est, err := e.Estimate(patient(t), alone)
				if err != nil {
					t.Fatalf("Estimate: %v", err)
				}
				own = whole - est.PromptTokens
			} else {
				t.Fatal("the engine cannot estimate")
			}
		}
		want := p.continued(t, req)
		if c := p.decode(t, req, p.move(t, pre)); !sameText(c, want) {
			t.Errorf("student %d: %q, want %q", i, c.Text, want.Text)
		}
	}
	prefix := whole - own
	if limit := float64(p.Slots*prefix+students*own) * 1.1; float64(computed) > limit {
		t.Errorf("the prefill side computed %d tokens for %d prompts of %d shared and %d own tokens in %d slots; want at most %.0f",
			computed, students, prefix, own, p.Slots, limit)
	}
}

// wrong: a state that is not the prompt's is refused before anything is emitted, and does no harm.
func (p Pair) wrong(t *testing.T) {
	req := p.sized("The right one", 200)
	for name, spoil := range map[string]func(t *testing.T, pre *engine.Prefilled){
		"of another prompt": func(t *testing.T, pre *engine.Prefilled) {
			other := p.move(t, p.export(t, p.sized("Another prompt", 200)))
			pre.State.Path, pre.State.Bytes, pre.State.Tokens = other.State.Path, other.State.Bytes, other.State.Tokens
		},
		"missing file": func(_ *testing.T, pre *engine.Prefilled) { pre.State.Path += ".gone" },
		"shorter than promised": func(t *testing.T, pre *engine.Prefilled) {
			if err := os.Truncate(pre.State.Path, pre.State.Bytes/2); err != nil {
				t.Fatal(err)
			}
		},
		"other prediction": func(_ *testing.T, pre *engine.Prefilled) {
			first := make([]jobs.TokenProb, len(pre.State.First))
			for i, f := range pre.State.First {
				first[i] = jobs.TokenProb{ID: f.ID + 1, LogProb: f.LogProb}
			}
			pre.State.First = first
		},
	} {
		t.Run(name, func(t *testing.T) {
			pre := p.move(t, p.export(t, req))
			want := p.continued(t, req)
			spoil(t, &pre)
			calls := 0
			_, err := p.Decode.Decode(patient(t), req, pre, func(jobs.Chunk) error { calls++; return nil })
			refused, ok := errors.AsType[*protocol.HandoverError](err)
			if !ok || calls > 0 || refused.Failure == "" {
				t.Fatalf("Decode returned %v after %d pieces; want a *protocol.HandoverError before the first", err, calls)
			}
			if strings.Contains(err.Error(), "total_") {
				t.Errorf("the error quotes the prompt: %v", err)
			}
			c, err := p.Decode.Generate(patient(t), req, discard)
			if err != nil || !sameText(c, want) {
				t.Errorf("computed again: %q (%v), want %q", c.Text, err, want.Text)
			}
			p.check(t, p.sized("The next one after "+name, 100), 0)
		})
	}
}

// sized is a greedy request with a prompt of about so many tokens.
func (p Pair) sized(title string, tokens int) engine.Request {
	return greedy(title+":\n"+code(max(1, (tokens-12)/cmp.Or(p.LineTokens, 22))), 16)
}
