// Package tinymodel writes small language models with random weights as GGUF files, for tests and the demo: real
// engines load them, tokenize, prefill, decode and move their KV caches, fast and without a download. Their text is
// gibberish, but printable gibberish that depends on the whole prompt, so that a lost or mixed-up KV cache shows.
//
// The same Spec gives the same bytes on every machine.
package tinymodel

import (
	"fmt"
	"io"
	"slices"

	"tandem/internal/atomicfile"
)

// Version changes whenever the bytes written for some Spec change. Caches of generated files are keyed by it.
const Version = 1

// Shape is a model architecture, by llama.cpp's name for it.
type Shape string

const (
	// Llama is the plain dense transformer: full attention with rotary positions, gated feed-forward.
	Llama Shape = "llama"
	// Qwen3MoE is the shape of Qwen3-Coder-30B: queries and keys are normalised, and a router chooses experts.
	Qwen3MoE Shape = "qwen3moe"
	// GPTOSS is the shape of gpt-oss-120b: every other layer attends to a sliding window of 128 tokens; attention
	// sinks, biases, experts, rotary positions stretched by YaRN.
	GPTOSS Shape = "gpt-oss"
	// GraniteHybrid is the shape of Granite 4: every other layer is recurrent (Mamba-2) in place of attention.
	GraniteHybrid Shape = "granitehybrid"
)

// Shapes are all of them.
func Shapes() []Shape { return []Shape{Llama, Qwen3MoE, GPTOSS, GraniteHybrid} }

// Tokenizer is the kind of vocabulary. The two kinds differ in what a hand-over of text may break: see BPE and SentencePiece.
type Tokenizer string

const (
	// BPE is byte-level with ranked merges, as in Qwen and GPT models. Detokenizing and tokenizing again is exact.
	BPE Tokenizer = "bpe"
	// SentencePiece is scored pieces with bytes as a fallback, as in Llama 2. It begins each text with a BOS token and
	// a space of its own, so a text cut in two tokenizes differently.
	SentencePiece Tokenizer = "sentencepiece"
)

// Weights is how the matrices are stored. Norms are always float32.
type Weights string

const (
	// F32 is plain float32.
	F32 Weights = "f32"
	// Q8 is llama.cpp's q8_0: blocks of 32 bytes with a float16 scale.
	Q8 Weights = "q8_0"
)

// Spec says which model to write. All fields but Seed are required; Tiny and Visible give complete ones.
type Spec struct {
	Shape     Shape
	Tokenizer Tokenizer
	Weights   Weights
	Layers    int
	Width     int // of the residual stream; a multiple of 32 × Heads, so that a quantised cache can hold a head
	Heads     int // attention heads; a multiple of KVHeads
	KVHeads   int // heads that share one key and value
	FF        int // width of the feed-forward layer, or of each expert; a multiple of 32
	Context   int // tokens the header promises
	Seed      uint64
	Sees      bool   // there is a projector for it: see WriteProjector. It changes nothing here
	Embeds    bool   // it makes embeddings, by the mean over all tokens, and an engine that knows of that generates nothing with it
	Says      string // the answer to every prompt, in place of gibberish, for a llama model with BPE; no word of it twice. Its chat template has tools
}

// Tiny is a llama model of about 4 MB that prefills thousands of tokens a second on one core.
func Tiny(t Tokenizer) Spec { return TinyShape(Llama, t) }

// TinyShape is Tiny in another shape, as fast and at most 5 MB large.
func TinyShape(shape Shape, t Tokenizer) Spec {
	return Spec{Shape: shape, Tokenizer: t, Weights: F32, Layers: 2, Width: 64, Heads: 2, KVHeads: 1, FF: 128, Context: 32768, Seed: 1}
}

// Visible is a llama model of about 120 million parameters (140 MB), large enough that its prefill takes visible
// time: around a hundred tokens a second on one core.
func Visible(t Tokenizer) Spec { return VisibleShape(Llama, t) }

// VisibleShape is Visible in another shape, with as much to compute. Those with experts are files of 450 MB.
func VisibleShape(shape Shape, t Tokenizer) Spec {
	s := Spec{Shape: shape, Tokenizer: t, Weights: Q8, Layers: 12, Width: 768, Heads: 12, KVHeads: 4, FF: 3584, Context: 32768, Seed: 1}
	if shape == Qwen3MoE || shape == GPTOSS {
		s.FF /= expertsUsed
	}
	return s
}

// Validate says which field of s cannot be.
func (s Spec) Validate() error {
	for _, f := range []struct {
		name        string
		value, unit int
	}{
		{"Layers", s.Layers, 1}, {"KVHeads", s.KVHeads, 1}, {"Heads", s.Heads, s.KVHeads}, {"FF", s.FF, q8Block}, {"Context", s.Context, 1},
		{"Width", s.Width, q8Block * s.Heads},
	} {
		if f.value <= 0 || f.unit <= 0 || f.value%f.unit != 0 {
			return fmt.Errorf("model spec: %s is %d, want a positive multiple of %d", f.name, f.value, max(f.unit, 1))
		}
	}
	switch {
	case !slices.Contains(Shapes(), s.Shape):
		return fmt.Errorf("model spec: Shape is %q, want one of %q", s.Shape, Shapes())
	case s.Tokenizer != BPE && s.Tokenizer != SentencePiece:
		return fmt.Errorf("model spec: Tokenizer is %q, want %q or %q", s.Tokenizer, BPE, SentencePiece)
	case s.Says != "" && (s.Shape != Llama || s.Tokenizer != BPE || s.Weights != F32):
		return fmt.Errorf("model spec: Says is %.20q, which only a %s model with %s and %s can say", s.Says, Llama, BPE, F32)
	case s.Weights != F32 && s.Weights != Q8:
		return fmt.Errorf("model spec: Weights is %q, want %q or %q", s.Weights, F32, Q8)
	}
	return nil
}

// Write writes the GGUF file of s to w.
func Write(w io.Writer, s Spec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	v := learnVocabulary(s.Tokenizer)
	template := chatTemplate
	if s.Says != "" {
		template = toolsTemplate
		words, err := s.words()
		if err != nil {
			return err
		}
		for _, w := range words {
			v.tokens = append(v.tokens, token{spelling: w, bytes: w, kind: userToken})
		}
	}
	tensors := s.tensors(v)
	if s.Says != "" {
		s.recite(&v, tensors)
	}
	return write(w, s.Seed, append(s.metadata(), v.metadata(s.Tokenizer, template)...), tensors)
}

// WriteFile writes the GGUF file of s at path. The file appears whole or not at all, also when several processes write it.
func WriteFile(path string, s Spec) error {
	if err := atomicfile.WriteFrom(path, 0o600, func(w io.Writer) error { return Write(w, s) }); err != nil {
		return fmt.Errorf("write model file: %w", err)
	}
	return nil
}
