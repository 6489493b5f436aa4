package gguf

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// Numbers are told apart as Go's own conversion tells them apart, in each place of a word and with whatever beside them.
func TestBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	number := map[Type]func(b []byte) bool{ // whether it is bounded
		0:  func(b []byte) bool { return okay(math.Float32frombits(binary.LittleEndian.Uint32(b))) },
		30: func(b []byte) bool { return okay(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)) },
		1:  func(b []byte) bool { return binary.LittleEndian.Uint16(b)>>10&0x1f != 0x1f },
	}
	for kind, one := range number {
		for n := range 40 {
			for range 2000 {
				b := make([]byte, n*int(kind.Block()))
				want := true
				for i := 0; i < len(b); i += int(kind.Block()) {
					v := random.Uint32()
					if random.IntN(8) == 0 {
						v |= 0x7c00_7c00 | 0x7f80_0000
					}
					binary.LittleEndian.PutUint16(b[i:], uint16(v))
					if kind == 0 {
						binary.LittleEndian.PutUint32(b[i:], v)
					}
					want = want && one(b[i:])
				}
				if kind.Bounded(b) != want {
					t.Fatalf("%s % x: bounded %t", kind, b, !want)
				}
			}
		}
	}
	for _, i := range cacheTypes() {
		if i.block == 1 {
			continue
		}
		b := make([]byte, 3*i.bytes)
		for j := range b {
			b[j] = 0xff
		}
		for j := 0; j < len(b); j += int(i.bytes) {
			clear(b[j : j+4])
		}
		if !i.number.Bounded(b) {
			t.Errorf("%s: quantized numbers count", i.name)
		}
		binary.LittleEndian.PutUint16(b[2*i.bytes:], 0xfc00)
		if i.number.Bounded(b) {
			t.Errorf("%s: an infinite factor does not count", i.name)
		}
	}
}

func okay(f float32) bool { return math.Abs(float64(f)) < 1<<48 }

func BenchmarkBounded(b *testing.B) {
	data := make([]byte, 1<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if !Type(1).Bounded(data) {
			b.Fatal("zeros are finite")
		}
	}
}
