package slots

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/tinymodel"
)

// kinds are models of every shape and both kinds of tokenizers.
func kinds() []tinymodel.Spec {
	list := []tinymodel.Spec{tinymodel.Tiny(tinymodel.SentencePiece)}
	for _, shape := range tinymodel.Shapes() {
		list = append(list, tinymodel.TinyShape(shape, tinymodel.BPE))
	}
	return list
}

func TestHandOver(t *testing.T) {
	for _, spec := range kinds() {
		for _, slots := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s %s %d slots", spec.Shape, spec.Tokenizer, slots), func(t *testing.T) {
				a, b := start(t, setup{spec: spec, slots: slots}), start(t, setup{spec: spec, slots: slots})
				for i, n := range []int{2, 64, 500, 2000, 2000, 300} {
					handOver(t, a, b, a.prompt(t, uint64(i), n))
				}
				if left := append(a.files(t), b.files(t)...); len(left) != 6 {
					t.Errorf("files are left: %q", left)
				}
			})
		}
	}
}

// handOver hands a prompt over and compares what is then said on both sides.
func handOver(t *testing.T, a, b *machine, p Prompt) {
	t.Helper()
	n := len(p.Tokens)
	from := a.acquire(t, p)
	defer from.Release()
	done, err := from.Prefill(t.Context(), p)
	if err != nil || done.Computed+done.Cached != n-1 {
		t.Fatalf("prefill of %d tokens: %+v, %v", n, done, err)
	}
	f, err := from.Export(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(f.Path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != f.Bytes || f.Tokens != n-1 || len(f.First) != firstTokens || f.Saved <= 0 {
		t.Errorf("state of %d tokens and %d bytes with %d predictions in %v; file %v", f.Tokens, f.Bytes, len(f.First), f.Saved, info.Mode())
	}
	transfer, err := b.KVTransfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if most := transfer.BytesPerToken*int64(f.Tokens) + transfer.FixedBytes; f.Bytes > most || f.Bytes < transfer.BytesPerToken*int64(f.Tokens) {
		t.Errorf("a state of %d tokens has %d bytes, computed were at most %d·%d+%d", f.Tokens, f.Bytes, f.Tokens, transfer.BytesPerToken, transfer.FixedBytes)
	}
	moved := b.receive(t, f)
	if err := os.Remove(f.Path); err != nil {
		t.Fatal(err)
	}
	to := b.acquire(t, p)
	defer to.Release()
	imported, err := to.Import(t.Context(), p, moved)
	if err != nil {
		t.Fatalf("import of %d tokens: %v", n-1, err)
	}
	if imported.Tokens != n-1 || imported.Restored <= 0 || imported.Checked <= 0 || imported.Divergence > 0.001 {
		t.Errorf("%d tokens: imported %+v", n, imported)
	}
	want, err := say(t.Context(), from, p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := say(t.Context(), to, p)
	if err != nil {
		t.Fatal(err)
	}
	if got.text != want.text || got.text == "" {
		t.Errorf("%d tokens: %q after the hand-over, %q without", n, got.text, want.text)
	}
	if got.cached < b.Proof(n-1) || got.cached+got.computed != n {
		t.Errorf("%d tokens: %d cached and %d computed after the hand-over", n, got.cached, got.computed)
	}
	if b.Proof(n-1) == n-1 && got.computed != 1 {
		t.Errorf("%d tokens: %d computed after the hand-over, want 1", n, got.computed)
	}
}

// States move also with a quantised cache, and without flash attention.
func TestHandOverOfOtherCaches(t *testing.T) {
	for name, flags := range map[string][]string{
		"q8_0":               {"--cache-type-k", "q8_0", "--cache-type-v", "q8_0"},
		"no flash attention": {"--flash-attn", "off"},
	} {
		for _, shape := range tinymodel.Shapes() {
			t.Run(fmt.Sprintf("%s %s", name, shape), func(t *testing.T) {
				s := setup{spec: tinymodel.TinyShape(shape, tinymodel.BPE), slots: 2, flags: flags}
				a, b := start(t, s), start(t, s)
				handOver(t, a, b, a.prompt(t, 1, 700))
				ours, err := b.KVTransfer(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				s.flags = nil
				theirs, err := start(t, s).KVTransfer(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if d := ours.Fingerprint.Differences(theirs.Fingerprint, true); len(d) == 0 || !strings.Contains(strings.Join(d, " "), "same --cache-type") && !strings.Contains(strings.Join(d, " "), "--flash-attn on") {
					t.Errorf("a server with the usual cache differs by %q", d)
				}
			})
		}
	}
}

// TestImportsAtOnce imports four states into four slots, while all of them generate, again and again.
func TestImportsAtOnce(t *testing.T) {
	for _, shape := range []tinymodel.Shape{tinymodel.Llama, tinymodel.GPTOSS} {
		t.Run(string(shape), func(t *testing.T) {
			s := setup{spec: tinymodel.TinyShape(shape, tinymodel.BPE), slots: 4}
			a, b := start(t, s), start(t, s)
			var all sync.WaitGroup
			for i := range 12 {
				p := a.prompt(t, uint64(i), 300+i)
				f := b.receive(t, a.export(t, p))
				want := a.cold(t, p)
				all.Go(func() {
					sl, err := b.Acquire(t.Context(), p.Tokens)
					if err != nil {
						t.Error(err)
						return
					}
					defer sl.Release()
					if _, err := sl.Import(t.Context(), p, f); err != nil {
						t.Errorf("import %d: %v", i, err)
						return
					}
					got, err := say(t.Context(), sl, p)
					if err != nil || got.computed != 1 || got.text != want.text {
						t.Errorf("import %d of twelve into four slots: %+v, %v; want %q", i, got, err, want.text)
					}
				})
			}
			all.Wait()
		})
	}
}

// What is not exactly as in the other engine must stay far from the bound, and what is wrong far beyond.
func TestDivergence(t *testing.T) {
	for _, shape := range tinymodel.Shapes() {
		t.Run(string(shape), func(t *testing.T) {
			spec := tinymodel.TinyShape(shape, tinymodel.BPE)
			m := start(t, setup{spec: spec})
			spec.Seed = 2
			other := start(t, setup{spec: spec})
			predict := func(m *machine, p Prompt, pieces int) prediction {
				sl := m.acquire(t, p)
				defer sl.Release()
				sl.erase(t.Context())
				for i := range pieces {
					if _, err := sl.compute(t.Context(), p.Tokens[:(len(p.Tokens)-1)*(i+1)/pieces], p.progress); err != nil {
						t.Fatal(err)
					}
				}
				got, err := sl.predict(t.Context(), p.Tokens)
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			var before prediction
			for i, n := range []int{30, 200, 500, 1000} {
				p := m.prompt(t, uint64(i), n)
				cached := predict(m, p, 1)
				for pieces, what := range []string{"cold", "", "in two pieces", "in three pieces"} {
					if d := divergence(cached, predict(m, p, pieces)); d > maxDivergence/8 {
						t.Errorf("%d tokens, %s: divergence %.4f, want far below %v", n, what, d, maxDivergence)
					}
				}
				if d := divergence(cached, predict(other, p, 1)); d < 1.5*maxDivergence {
					t.Errorf("%d tokens, other weights: divergence %.4f, want far above %v", n, d, maxDivergence)
				}
				if d := divergence(cached, before); i > 0 && d < 1.5*maxDivergence {
					t.Errorf("%d tokens, another prompt: divergence %.4f, want far above %v", n, d, maxDivergence)
				}
				before = cached
			}
		})
	}
}

func divergence(a, b prediction) float64 { return engine.Divergence(a.tokens, b.tokens) }
