package slots

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tandem/internal/engine"
)

// forged is a state that somebody changed who knows the format: its size, and so where the server looks for what, stays.
type forged struct {
	name string
	data []byte
}

// forge changes a sound state at random: numbers that count something, single bits and whole rows of it.
func forge(random *rand.Rand, sound []byte, rows [][2]int64) forged {
	data := slices.Clone(sound)
	put := func(at int, v uint32) { binary.LittleEndian.PutUint32(data[at:], v) }
	odd := []uint32{0, 1, 2, 3, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, random.Uint32(), random.Uint32N(2000)}
	number := odd[random.IntN(len(odd))]
	row := rows[random.IntN(len(rows))]
	switch random.IntN(6) {
	case 0: // what lies between the rows: the head, the tokens, cells, sizes, checkpoints
		at := 4 * random.IntN(len(data)/4)
		for slices.ContainsFunc(rows, func(r [2]int64) bool { return int64(at) >= r[0] && int64(at) < r[1] }) {
			at = 4 * random.IntN(len(data)/4)
		}
		put(at, number)
		return forged{fmt.Sprintf("%#x at byte %d", number, at), data}
	case 1: // two of them
		for range 2 {
			put(4*random.IntN(int(rows[0][0])/4), number)
		}
		return forged{fmt.Sprintf("%#x twice before byte %d", number, rows[0][0]), data}
	case 2:
		bit := random.IntN(8 * len(data))
		data[bit/8] ^= 1 << (bit % 8)
		return forged{fmt.Sprintf("bit %d of byte %d", bit%8, bit/8), data}
	case 3: // a row of one number
		for at := row[0]; at+4 <= row[1]; at += 4 {
			put(int(at), number)
		}
		return forged{fmt.Sprintf("%#x in bytes %d to %d", number, row[0], row[1]), data}
	case 4: // a row of anything
		for at := row[0]; at < row[1]; at++ {
			data[at] = byte(random.Uint32())
		}
		return forged{fmt.Sprintf("noise in bytes %d to %d", row[0], row[1]), data}
	default: // rows of the largest finite numbers
		for _, r := range rows {
			for at := r[0]; at+2 <= r[1]; at += 2 {
				binary.LittleEndian.PutUint16(data[at:], 0x7bff)
			}
		}
		return forged{"the largest numbers everywhere", data}
	}
}

// Whatever state passes the reader, the server goes on to answer others as before. Each variant is followed by an honest job.
func TestForgedStatesHarmNobody(t *testing.T) {
	variants := 400 // of each model
	if whole() {
		variants = 3000
	}
	for _, spec := range kinds() {
		t.Run(string(spec.Shape)+" "+string(spec.Tokenizer), func(t *testing.T) {
			t.Parallel()
			a, b := start(t, setup{spec: spec}), start(t, setup{spec: spec})
			shared := a.prompt(t, 3, 150)
			a.export(t, shared)
			p := a.prompt(t, 1, 280, shared.Tokens[:140]...) // so that it has several checkpoints
			f := a.export(t, p)
			sound, err := os.ReadFile(f.Path)
			if err != nil {
				t.Fatal(err)
			}
			_, reader, err := readFile(f.Path, nil, func(s *stateReader) { s.content = &content{tokens: p.head()} })
			if err != nil {
				t.Fatal(err)
			}
			var rows [][2]int64
			for _, n := range reader.content.numbers {
				rows = append(rows, [2]int64{n.at, n.at + n.length})
			}
			honest := b.prompt(t, 7, 60)
			answer := func() string {
				sl := b.acquire(t, honest)
				defer sl.Release()
				after, err := sl.afresh(t.Context(), honest)
				if err != nil {
					return err.Error()
				}
				return fmt.Sprint(after.tokens)
			}
			want := answer()
			random := rand.New(rand.NewPCG(1, uint64(len(sound))))
			path, taken := filepath.Join(b.config.Dir, "forged.kv"), 0
			for i := range variants {
				v := forge(random, sound, rows)
				if err := os.WriteFile(path, v.data, 0o600); err != nil {
					t.Fatal(err)
				}
				g := &engine.StateFile{Path: path, Bytes: int64(len(v.data)), Tokens: f.Tokens, Fingerprint: f.Fingerprint, First: f.First}
				sl := b.acquire(t, p)
				if sl.fits(p, g) == nil {
					taken++
					if sl.restore(t.Context(), p, g) == nil {
						_, _ = sl.predict(t.Context(), p.Tokens)
					}
					if i%2 == 0 {
						sl.erase(t.Context())
					}
				}
				sl.Release()
				if got := answer(); got != want {
					t.Fatalf("variant %d, %s: an honest job is answered with\n%s\nwant\n%s", i, v.name, got, want)
				}
			}
			t.Logf("%d of %d variants passed the reader", taken, variants)
			if taken < variants/20 || taken > variants*19/20 {
				t.Error("which shows little")
			}
		})
	}
}

// BenchmarkVerifyState reads a state of 256 MiB that is in the page cache.
func BenchmarkVerifyState(b *testing.B) {
	const row = 32 << 20
	tokens := make([]int32, 2)
	one := words(1, int64(row), bytes.Repeat([]byte{0x12, 0x34}, row))
	file := words(head(2), 1, 2, cells(2, 0), 0, 2, 0, 0, one, one, one, one)
	path := filepath.Join(b.TempDir(), "state")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		if _, err := VerifyState(path, tokens); err != nil {
			b.Fatal(err)
		}
	}
}
