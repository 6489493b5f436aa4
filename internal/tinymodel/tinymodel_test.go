package tinymodel

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// golden holds the digests of Version 1. A change of the bytes needs a new Version, or caches serve the old ones.
var golden = map[Spec]string{
	Tiny(BPE):                     "b35a80f686ef2e9a6817386a21656ccd4850f99a56839806d35e394f4921c458",
	Tiny(SentencePiece):           "18cbc226b11d0af2c53ffaa7e7e22e2afa8967a63e447cd5c3891c3c9bf7932f",
	TinyShape(Qwen3MoE, BPE):      "153696239cd0444b12078e1a8b3e0c90fe2131af0b59709bc369d04d6d171fff",
	TinyShape(GPTOSS, BPE):        "6a191affd8a9d5b83ecb8be6d2e8d83559ee2dcc02f0edf8ac9bbc8d33a9eb4f",
	TinyShape(GraniteHybrid, BPE): "5852f9f80372cae1bd782c648f732810acb873afd232aa5dddfe0e9c6b16c6b4",
}

func TestWriteGivesTheSameBytesAlways(t *testing.T) {
	for spec, want := range golden {
		t.Run(fmt.Sprint(spec.Shape, " ", spec.Tokenizer), func(t *testing.T) {
			t.Parallel()
			h := sha256.New()
			if err := Write(h, spec); err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(h.Sum(nil)); got != want {
				t.Errorf("digest %s, want %s: raise Version together with the golden digests", got, want)
			}
		})
	}
}

func TestSeedAndNameDecideTheWeights(t *testing.T) {
	row := func(name string, seed uint64) string {
		var b bytes.Buffer
		x := tensor{name: name, dims: []int{32, 2}, kind: F32, fill: matrix(32, 1, false)}
		if err := x.write(&b, seed); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	one := row("a", 1)
	for what, same := range map[string]bool{
		"the same name and seed": row("a", 1) == one,
		"another name":           row("b", 1) != one,
		"another seed":           row("a", 2) != one,
	} {
		if !same {
			t.Errorf("%s: wrong weights", what)
		}
	}
}

func TestHeaderDescribesTheFile(t *testing.T) {
	for _, tt := range []struct {
		shape   Shape
		weights Weights
		keys    map[string]any // of the architecture
		tensors map[string]string
		count   int // of the layers' tensors
	}{
		{Llama, F32, map[string]any{"block_count": uint32(2), "embedding_length": uint32(64), "context_length": uint32(32768)},
			map[string]string{"blk.1.ffn_down.weight": "[128 64]"}, 2 * 9},
		{Llama, Q8, map[string]any{"rope.dimension_count": uint32(32)}, map[string]string{"blk.0.attn_k.weight": "[64 32]"}, 2 * 9},
		{Qwen3MoE, Q8, map[string]any{"expert_count": uint32(8), "expert_used_count": uint32(2), "attention.key_length": uint32(32)},
			map[string]string{"blk.1.ffn_down_exps.weight": "[128 64 8]", "blk.0.attn_q_norm.weight": "[32]"}, 2 * 12},
		{GPTOSS, F32, map[string]any{"attention.sliding_window": uint32(128), "rope.scaling.type": "yarn"},
			map[string]string{"blk.1.attn_sinks.weight": "[2]", "blk.0.ffn_down_exps.bias": "[64 8]"}, 2 * 19},
		{GraniteHybrid, Q8, map[string]any{"ssm.state_size": uint32(32)},
			map[string]string{"blk.0.ssm_conv1d.weight": "[4 192]", "blk.0.ssm_a": "[1 4]", "blk.1.attn_v.weight": "[64 32]"}, 13 + 9},
	} {
		t.Run(fmt.Sprint(tt.shape, " ", tt.weights), func(t *testing.T) {
			t.Parallel()
			s := TinyShape(tt.shape, SentencePiece)
			s.Weights = tt.weights
			path := filepath.Join(t.TempDir(), "m.gguf")
			if err := WriteFile(path, s); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			g := parse(t, b)
			tokens := len(g.keys["tokenizer.ggml.tokens"].([]any))
			keys := map[string]any{
				"general.architecture":         string(tt.shape),
				"tokenizer.ggml.model":         "llama",
				"tokenizer.ggml.add_bos_token": true,
			}
			for key, want := range tt.keys {
				keys[string(tt.shape)+"."+key] = want
			}
			for key, want := range keys {
				if g.keys[key] != want {
					t.Errorf("%s is %v, want %v", key, g.keys[key], want)
				}
			}
			if n := len(g.keys["tokenizer.ggml.scores"].([]any)); n != tokens {
				t.Errorf("%d scores for %d tokens", n, tokens)
			}
			tt.tensors["output.weight"] = fmt.Sprint([]int{64, tokens})
			for name, want := range tt.tensors {
				if got := g.tensors[name]; got != want {
					t.Errorf("%s is %s, want %s", name, got, want)
				}
			}
			if want := 3 + tt.count; len(g.tensors) != want {
				t.Errorf("%d tensors, want %d", len(g.tensors), want)
			}
			if g.end != len(b) || len(b) > 6<<20 {
				t.Errorf("the header's tensors end at byte %d of %d, want at most 6 MB", g.end, len(b))
			}
		})
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for field, change := range map[string]func(*Spec){
		"Layers":    func(s *Spec) { s.Layers = 0 },
		"Width":     func(s *Spec) { s.Width = 96 }, // heads of 48
		"Heads":     func(s *Spec) { s.Heads, s.KVHeads = 3, 2 },
		"KVHeads":   func(s *Spec) { s.KVHeads = -1 },
		"FF":        func(s *Spec) { s.FF = 100 },
		"Context":   func(s *Spec) { s.Context = 0 },
		"Shape":     func(s *Spec) { s.Shape = "mamba" },
		"Tokenizer": func(s *Spec) { s.Tokenizer = "" },
		"Weights":   func(s *Spec) { s.Weights = "f64" },
	} {
		s := Tiny(BPE)
		change(&s)
		if err := Write(new(bytes.Buffer), s); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("a wrong %s gives the error %v", field, err)
		}
	}
	for _, shape := range Shapes() {
		for _, s := range []Spec{TinyShape(shape, BPE), VisibleShape(shape, SentencePiece)} {
			if err := s.Validate(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestWriteFileLeavesNothingBehindWhenItFails(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(filepath.Join(dir, "m.gguf"), Spec{}); err == nil {
		t.Error("an empty Spec was written")
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestOnlyPrintableTokensMayBeEmitted(t *testing.T) {
	for _, tok := range []Tokenizer{BPE, SentencePiece} {
		v, allowed := learnVocabulary(tok), 0
		seen := make(map[string]bool)
		row := make([]float32, 64)
		fill := output(v, len(row))
		for i, x := range v.tokens {
			if seen[x.spelling] {
				t.Errorf("%s: two tokens are spelled %q", tok, x.spelling)
			}
			seen[x.spelling] = true
			fill(newRand(1, "output"), i, row)
			if row[0] == 0 {
				allowed++
				if x.bytes == "" || strings.ContainsFunc(x.bytes, func(r rune) bool { return r < ' ' || r > '~' }) {
					t.Errorf("%s: token %q may be emitted", tok, x.spelling)
				}
			}
		}
		if allowed < mergeCount/2 {
			t.Errorf("%s: only %d of %d tokens may be emitted", tok, allowed, len(v.tokens))
		}
	}
}

// Channel 0 is what keeps other tokens than printable ones from being emitted.
func TestNoLayerWritesToTheConstantChannel(t *testing.T) {
	toResidual := []string{"attn_output.weight", "attn_output.bias", "ffn_down.weight", "ffn_down_exps.weight", "ffn_down_exps.bias", "ssm_out.weight"}
	for _, shape := range Shapes() {
		s, found := TinyShape(shape, BPE), 0
		for _, x := range s.tensors(learnVocabulary(BPE)) {
			if !slices.ContainsFunc(toResidual, func(name string) bool { return strings.HasSuffix(x.name, "."+name) }) {
				continue
			}
			found++
			var b bytes.Buffer
			if err := x.write(&b, s.Seed); err != nil {
				t.Fatal(err)
			}
			// Channel 0 is the first row of each matrix, and the first number of each row of biases.
			every, size := x.dims[0]*append(x.dims, 1)[1], x.dims[0]
			if strings.HasSuffix(x.name, "bias") {
				every, size = x.dims[0], 1
			}
			for i := range b.Len() / 4 {
				v := math.Float32frombits(binary.LittleEndian.Uint32(b.Bytes()[4*i:]))
				if constant := i%every < size; constant != (v == 0) {
					t.Fatalf("%s %s: number %d is %g", shape, x.name, i, v)
				}
			}
		}
		if found < 2*s.Layers {
			t.Errorf("%s: %d tensors write to the residual stream, want at least two a layer", shape, found)
		}
	}
}

func TestQ8KeepsTheNumbers(t *testing.T) {
	row := make([]float32, 2*q8Block)
	uniform(newRand(7, "q8"), row, 0.02)
	row[3] = forbidden
	b := appendQ8(nil, row)
	if len(b) != 2*(2+q8Block) {
		t.Fatalf("%d bytes", len(b))
	}
	for block := range 2 {
		b := b[block*(2+q8Block):]
		scale := float16Value(binary.LittleEndian.Uint16(b))
		for i, want := range row[block*q8Block:][:q8Block] {
			if got := float64(int8(b[2+i])) * scale; math.Abs(got-float64(want)) > scale/2+math.Abs(float64(want))/500 {
				t.Errorf("weight %d of block %d: %g, want %g (scale %g)", i, block, got, want, scale)
			}
		}
	}
	if zero := appendQ8(nil, make([]float32, q8Block)); !bytes.Equal(zero, make([]byte, 2+q8Block)) {
		t.Errorf("a row of zeros became %v", zero)
	}
}

func TestLearnMergesTakesTheMostFrequentPair(t *testing.T) {
	// " abab" and " cd" count for their bare forms too.
	if got, want := fmt.Sprint(learnMerges("abab abab cd", 9)), "[{a b} {ab ab} {c d} {  abab} {  cd}]"; got != want {
		t.Errorf("merges %s, want %s", got, want)
	}
}

// parsed is what a reader of the file sees.
type parsed struct {
	keys    map[string]any
	tensors map[string]string // dimensions, by name
	end     int               // of the last tensor
}

// parse reads a GGUF file by the format's definition, independently of the writer.
func parse(t *testing.T, b []byte) parsed {
	t.Helper()
	pos := 0
	u32 := func() uint32 { pos += 4; return binary.LittleEndian.Uint32(b[pos-4:]) }
	u64 := func() uint64 { pos += 8; return binary.LittleEndian.Uint64(b[pos-8:]) }
	str := func() string { n := int(u64()); pos += n; return string(b[pos-n : pos]) }
	var value func(kind uint32) any
	value = func(kind uint32) any {
		switch kind {
		case 4, 5:
			return u32()
		case 6:
			return math.Float32frombits(u32())
		case 7:
			pos++
			return b[pos-1] == 1
		case 8:
			return str()
		case 9:
			elem, list := u32(), []any(nil)
			for range u64() {
				list = append(list, value(elem))
			}
			return list
		}
		t.Fatalf("value type %d at byte %d", kind, pos)
		return nil
	}
	if string(b[:4]) != "GGUF" || binary.LittleEndian.Uint32(b[4:]) != 3 {
		t.Fatalf("file begins with %q", b[:8])
	}
	pos = 8
	count, fields := u64(), u64()
	p := parsed{keys: make(map[string]any), tensors: make(map[string]string)}
	for range fields {
		key := str()
		p.keys[key] = value(u32())
	}
	end := 0
	for range count {
		name, size, dims := str(), 1, []uint64(nil)
		for range u32() {
			dims = append(dims, u64())
			size *= int(dims[len(dims)-1])
		}
		kind, offset := u32(), int(u64())
		if offset%32 != 0 || offset < end {
			t.Errorf("tensor %s begins at %d, after one that ends at %d", name, offset, end)
		}
		if kind == 8 {
			size = size / 32 * 34
		} else {
			size *= 4
		}
		end = offset + size
		p.tensors[name] = fmt.Sprint(dims)
	}
	p.end = (pos+31)/32*32 + (end+31)/32*32
	return p
}
