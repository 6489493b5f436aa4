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
	"strings"
	"testing"
)

// golden holds the digests of Version 1. A change of the bytes needs a new Version, or caches serve the old ones.
var golden = map[Tokenizer]string{
	BPE:           "b35a80f686ef2e9a6817386a21656ccd4850f99a56839806d35e394f4921c458",
	SentencePiece: "18cbc226b11d0af2c53ffaa7e7e22e2afa8967a63e447cd5c3891c3c9bf7932f",
}

func TestWriteGivesTheSameBytesAlways(t *testing.T) {
	for tok, want := range golden {
		t.Run(string(tok), func(t *testing.T) {
			t.Parallel()
			h := sha256.New()
			if err := Write(h, Tiny(tok)); err != nil {
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
	for _, weights := range []Weights{F32, Q8} {
		t.Run(string(weights), func(t *testing.T) {
			t.Parallel()
			s := Tiny(SentencePiece)
			s.Weights = weights
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
			for key, want := range map[string]any{
				"general.architecture":         "llama",
				"llama.block_count":            uint32(2),
				"llama.embedding_length":       uint32(64),
				"llama.context_length":         uint32(32768),
				"tokenizer.ggml.model":         "llama",
				"tokenizer.ggml.add_bos_token": true,
			} {
				if g.keys[key] != want {
					t.Errorf("%s is %v, want %v", key, g.keys[key], want)
				}
			}
			if n := len(g.keys["tokenizer.ggml.scores"].([]any)); n != tokens {
				t.Errorf("%d scores for %d tokens", n, tokens)
			}
			if want := 3 + 2*9; len(g.tensors) != want {
				t.Errorf("%d tensors, want %d", len(g.tensors), want)
			}
			if got := g.tensors["output.weight"]; got != fmt.Sprint([]uint64{64, uint64(tokens)}) {
				t.Errorf("output.weight is %s, want 64 × %d", got, tokens)
			}
			if g.end != len(b) {
				t.Errorf("the header's tensors end at byte %d of %d", g.end, len(b))
			}
		})
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for field, change := range map[string]func(*Spec){
		"Layers":    func(s *Spec) { s.Layers = 0 },
		"Width":     func(s *Spec) { s.Width = 48 },
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
	for _, s := range []Spec{Tiny(BPE), Tiny(SentencePiece), Visible(BPE), Visible(SentencePiece)} {
		if err := s.Validate(); err != nil {
			t.Error(err)
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
