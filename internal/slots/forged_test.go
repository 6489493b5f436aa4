package slots

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// What a state must not say, in both forms of a cell's record.
func TestVerifyState(t *testing.T) {
	record := func(form int, position, sequences, sequence int, more ...int) []byte {
		b := words(position, sequences)
		for i := range form/4 - 3 {
			v := 0
			if i < len(more) {
				v = more[i]
			}
			b = append(b, words(v)...)
		}
		return append(b, words(sequence)...)
	}
	row := words(1, int64(4), byte(12))
	cache := func(records ...[]byte) []byte {
		return words(1, len(records), slices.Concat(records...), 0, 1, 0, 0, words(1, int64(4), make([]byte, 4*len(records))), words(1, int64(4), make([]byte, 4*len(records))))
	}
	running := words(1, 2, 0, 0, 1, 0, int64(4), byte(4), 0, int64(4), byte(4))
	partial := words(partialMagic, 0, 1, 1, 0, 0, 1, 0, int64(4), byte(4), 0, int64(4), byte(4)) // a running state of two tokens
	checkpoint := func(tokens, first, last int, blob []byte) []byte {
		return words(checkpointMagic, 1, 1, int64(tokens), first, last, int64(len(blob)), blob, int64(0), int64(0))
	}
	for _, form := range []int{12, 24} {
		whole := cache(record(form, 0, 1, 0), record(form, 1, 1, 0), record(form, 2, 1, 255))
		for name, tt := range map[string]struct {
			parts []byte
			want  string // empty: it is sound
		}{
			"sound":                     {whole, ""},
			"in another order":          {cache(record(form, 2, 1, 0), record(form, 0, 1, 0), record(form, 1, 1, 0)), ""},
			"a window":                  {words(whole, cache(record(form, 2, 1, 0), record(form, 1, 1, 0))), ""},
			"a running state":           {words(whole, running), ""},
			"a checkpoint":              {words(whole, running, checkpoint(2, 1, 1, partial)), ""},
			"a position twice":          {cache(record(form, 0, 1, 0), record(form, 1, 1, 0), record(form, 1, 1, 0)), "a cell of position 1,"},
			"a position beyond":         {cache(record(form, 0, 1, 0), record(form, 1, 1, 0), record(form, 3, 1, 0)), "a cell of position 3,"},
			"the largest position":      {cache(record(form, 0, 1, 0), record(form, 0x7fffffff, 1, 0), record(form, 2, 1, 0)), "a cell of position 2147483647,"},
			"a position before":         {cache(record(form, -1, 1, 0), record(form, 1, 1, 0), record(form, 2, 1, 0)), "a cell of position -1,"},
			"too few cells":             {cache(record(form, 1, 1, 0), record(form, 2, 1, 0)), "a cache of 2 cells for 3 tokens"},
			"too many cells":            {cache(record(form, 0, 1, 0), record(form, 1, 1, 0), record(form, 2, 1, 0), record(form, 3, 1, 0)), "a cache of 4 cells for 3 tokens"},
			"two sequences":             {cache(record(form, 0, 2, 0), record(form, 1, 1, 0), record(form, 2, 1, 0)), "a cell of 2 sequences"},
			"no such sequence":          {cache(record(form, 0, 1, 256), record(form, 1, 1, 0), record(form, 2, 1, 0)), "of which the last is 256"},
			"a negative sequence":       {cache(record(form, 0, 1, -1), record(form, 1, 1, 0), record(form, 2, 1, 0)), "of which the last is -1"},
			"a window elsewhere":        {words(whole, cache(record(form, 0, 1, 0), record(form, 1, 1, 0))), "a cell of position 0,"},
			"another running state":     {words(whole, 1, 1, 0, 0, 1, 0, int64(4), byte(4), 0, int64(4), byte(4)), "a running state of position 1 for 3 tokens"},
			"a large running state":     {words(whole, 1, 2, 0, 0, 1, 0, int64(4), 0x60000000, 0, int64(4), byte(4)), "a number that is infinite, too large, or none"},
			"numbers that are infinite": {words(1, 3, record(form, 0, 1, 0), record(form, 1, 1, 0), record(form, 2, 1, 0), 0, 1, 0, 0, row, words(1, int64(4), byte(8), 0x7c00)), "a number that is infinite"},
			"numbers of no cache's":     {words(1, 3, record(form, 0, 1, 0), record(form, 1, 1, 0), record(form, 2, 1, 0), 0, 1, 0, 0, words(39, int64(4), byte(12)), row), "numbers of type 39"},
			"a checkpoint of nothing":   {words(whole, running, checkpoint(0, 0, 0, partial)), "a checkpoint of 0 tokens"},
			"a checkpoint too long":     {words(whole, running, checkpoint(4, 3, 3, partial)), "a checkpoint of 4 tokens"},
			"a checkpoint elsewhere":    {words(whole, running, checkpoint(2, 2, 2, partial)), "a checkpoint of 2 tokens, positions 2 to 2"},
			"a checkpoint's content":    {words(whole, running, checkpoint(3, 2, 2, partial)), "a running state of position 1 for 3 tokens"},
			"a checkpoint's beginning":  {words(whole, running, checkpoint(2, 1, 1, partial[4:])), "a checkpoint that begins with 00000000"},
			"a checkpoint's end":        {words(whole, running, checkpoint(2, 1, 1, partial[:len(partial)-4])), "ends in the middle"},
		} {
			path := filepath.Join(t.TempDir(), "state")
			if err := os.WriteFile(path, words(head(3), tt.parts), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := VerifyState(path, []int32{0, 0, 0}); err != nil && (tt.want == "" || form == 12 && !strings.Contains(err.Error(), tt.want)) || err == nil && tt.want != "" {
				t.Errorf("cells of %d bytes, %s: %v; want %q", form, name, err, tt.want)
			}
			if tt.want == "" {
				if _, err := VerifyState(path, []int32{0, 0, 1}); err == nil || !strings.Contains(err.Error(), "token 2 is not the prompt's") {
					t.Errorf("cells of %d bytes, %s, of another prompt: %v", form, name, err)
				}
			}
		}
	}
	path := filepath.Join(t.TempDir(), "state")
	for _, more := range [][]int{{3}, {0, 3}, {0, 0, 1 << 24}, {-2}} {
		if err := os.WriteFile(path, words(head(3), cache(record(24, 0, 1, 0), record(24, 1, 1, 0, more...), record(24, 2, 1, 0))), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := VerifyState(path, []int32{0, 0, 0}); err == nil {
			t.Errorf("a cell with %v is taken", more)
		}
	}
}
