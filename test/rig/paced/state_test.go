package paced

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"tandem/internal/gguf"
	"tandem/internal/slots"
	"tandem/test/rig/paced/fleet"
)

// states are shapes of every kind, by name.
func states(t *testing.T) map[string]shape {
	t.Helper()
	list := map[string]shape{}
	for _, name := range []string{"spark-mac-qwen", "spark-mac-gptoss", "four-slots"} {
		f, err := fleet.Read("../../../test/fleets/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		for _, scale := range []float64{0.001, 0.01, 1} {
			list[fmt.Sprintf("%s %v", name, scale)] = shapeOf(f, f.Machines[0].Slots, scale)
		}
	}
	return list
}

// Workers understand the files, and learn from the model file how large they are.
func TestStatesAreUnderstood(t *testing.T) {
	for name, s := range states(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			model, path := filepath.Join(dir, "model.gguf"), filepath.Join(dir, "a.kv")
			if err := s.writeModel(model); err != nil {
				t.Fatal(err)
			}
			header, err := gguf.Read(model)
			if err != nil {
				t.Fatal(err)
			}
			if kind := map[bool]gguf.Kind{false: gguf.Plain, true: gguf.Window}[s.window > 0]; header.Kind != kind || header.WindowTokens != s.window {
				t.Errorf("the model is %s with a window of %d, want %s and %d", header.Kind, header.WindowTokens, kind, s.window)
			}
			var sizes []int64
			for _, n := range []int{200, 300} {
				size, err := s.save(path, numbered(0, n, 1), s.slots-1)
				if err != nil {
					t.Fatal(err)
				}
				l, err := slots.ReadLayout(path)
				if err != nil {
					t.Fatal(err)
				}
				if l.Tokens != n || l.CacheK != "f16" || l.CacheV != "f16" || !l.FlashAttention || l.Streams != s.slots {
					t.Errorf("the layout is %+v", l)
				}
				if verified, err := s.verify(path, numbered(0, n, 1)); err != nil || verified != size {
					t.Errorf("verified %d of %d bytes: %v", verified, size, err)
				}
				sizes = append(sizes, size)
			}
			perToken, fixed := header.StateBytes("f16", "f16")
			if got := (sizes[1] - sizes[0]) / 100; got != perToken || sizes[0] > fixed+200*perToken {
				t.Errorf("a token takes %d bytes of %d; the header says %d, and %d beside them", got, sizes[0], perToken, fixed)
			}
		})
	}
}

func TestStatesHaveTheFleetsSize(t *testing.T) {
	for _, name := range []string{"spark-mac-qwen", "spark-mac-gptoss"} {
		f, err := fleet.Read("../../../test/fleets/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		for _, scale := range []float64{0.001, 0.01, 0.1} {
			const n = 7000
			size, err := shapeOf(f, 1, scale).save(filepath.Join(t.TempDir(), "a.kv"), numbered(0, n, 1), 0)
			if err != nil {
				t.Fatal(err)
			}
			if want := f.StateBytes(n) * scale; math.Abs(float64(size)-want) > 0.05*want {
				t.Errorf("%s at %v: a state has %d bytes, want %.0f", name, scale, size, want)
			}
		}
	}
}

// Two states have the rows of their common beginning in common, and no others.
func TestRowsFollowFromAllBeforeThem(t *testing.T) {
	s := shape{slots: 1, layers: 3, row: 64}
	write := func(list []int32) []byte {
		var b bytes.Buffer
		s.write(&b, list, 0)
		return b.Bytes()
	}
	const n, shared = 100, 60
	a, b := write(numbered(shared, n, 1)), write(numbered(shared, n, 2))
	if !bytes.Equal(a, write(numbered(shared, n, 1))) || len(a) != len(b) {
		t.Fatal("a state is not the same each time")
	}
	other := numbered(0, n, 2)
	copy(other[shared:], numbered(0, n, 1)[shared:])
	c := write(other) // ends with a's tokens, after others
	head := 4*(6+n+1) + 4*2 + 12*n + 16
	for part := range 2 * s.layers {
		for i := range n {
			row := func(state []byte) []byte {
				at := head + part*(12+n*s.row) + 12 + i*s.row
				return state[at : at+s.row]
			}
			if bytes.Equal(row(a), row(b)) != (i < shared) {
				t.Fatalf("row %d of part %d: equal is not %v", i, part, i < shared)
			}
			if bytes.Equal(row(a), row(c)) {
				t.Fatalf("row %d of part %d is equal after other tokens", i, part)
			}
		}
	}
}

func TestDamagedStatesAreRefused(t *testing.T) {
	s := shape{slots: 4, layers: 2, row: 32, window: 50}
	list := numbered(0, 200, 1)
	path := filepath.Join(t.TempDir(), "a.kv")
	if _, err := s.save(path, list, 2); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"cut short": whole[:len(whole)-1], "cut in the middle": whole[:len(whole)/2], "only a head": whole[:24], "empty": {}, "too long": append(whole[:len(whole):len(whole)], 0),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.verify(path, list); err == nil {
			t.Errorf("%s: verified", name)
		}
	}
	for at := 24; at < len(whole); at += 101 {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 1
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.verify(path, list); !errors.Is(err, errState) {
			t.Errorf("byte %d of %d flipped: %v", at, len(whole), err)
		}
	}
}
