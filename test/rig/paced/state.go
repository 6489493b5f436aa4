package paced

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// The state file of llama-server 0.7.0, as internal/slots reads it: magic, version, the tokens, and then each cache: for each stream (one
// a slot, of which only the state's own has cells) the cells' records, then the rows of keys layer by layer, and likewise those of values.
const (
	stateMagic   = 0x67677371 // "ggsq"
	stateVersion = 4
	mostTokens   = 1 << 24 // that a file may claim
	f16          = 1       // ggml's number of the rows' type
)

// errState is a file that is no state, or not the one that its tokens have.
var errState = errors.New("not the state of the tokens that it names")

// save writes the state of the tokens, which a slot holds, to a file and returns its size. The rows are not those of a model, but as with
// one, each follows from its token and all before it, so that states with a common beginning have these rows in common.
func (s shape) save(path string, tokens []int32, slot int) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, fmt.Errorf("save state: %w", err)
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fmt.Errorf("save state: %w", e)
		}
	}()
	w := bufio.NewWriterSize(f, 1<<18)
	s.write(w, tokens, slot)
	if err := w.Flush(); err != nil {
		return 0, fmt.Errorf("save state: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("save state: %w", err)
	}
	return info.Size(), nil
}

// write writes a state. w keeps the first error, as a bufio.Writer does.
func (s shape) write(w io.Writer, tokens []int32, slot int) {
	n := uint32(len(tokens))
	writeNumbers(w, stateMagic, stateVersion, n+4, ^uint32(0), 1, n) // 0.7.0 writes the tokens as a list of text and images
	writeNumbers(w, tokens...)
	writeNumbers(w, uint32(0))
	hashes := make([]uint64, len(tokens))
	h := uint64(0)
	for i, t := range tokens {
		h = fold(h, t)
		hashes[i] = h
	}
	s.cache(w, hashes, 0, slot, 1)
	if s.window > 0 {
		first := max(0, len(tokens)-s.window)
		s.cache(w, hashes[first:], first, slot, 1<<32)
	}
}

// cache writes the cells and rows of the positions from first on.
func (s shape) cache(w io.Writer, hashes []uint64, first, slot int, salt uint64) {
	writeNumbers(w, uint32(s.slots))
	for stream := range s.slots {
		if stream != slot || len(hashes) == 0 {
			writeNumbers(w, uint32(0))
			continue
		}
		writeNumbers(w, uint32(len(hashes)))
		for i := range hashes {
			writeNumbers(w, uint32(first+i), 1, uint32(slot)) // position, one sequence, which one
		}
		writeNumbers(w, 0, uint32(s.layers), 0, 0) // not transposed; keys and values are not rotated
		row := make([]byte, s.row)
		for part := range 2 * s.layers { // the layers' keys, then their values
			writeNumbers(w, f16, uint32(s.row), 0)
			for _, h := range hashes {
				fill(row, mix(h+salt*uint64(part+1)))
				_, _ = w.Write(row) // w keeps the error
			}
		}
	}
}

// writeNumbers writes 32-bit numbers. w keeps the error.
func writeNumbers[T uint32 | int32](w io.Writer, numbers ...T) {
	var b [64]byte
	for len(numbers) > 0 {
		n := min(len(numbers), len(b)/4)
		for i, v := range numbers[:n] {
			binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
		}
		_, _ = w.Write(b[:4*n])
		numbers = numbers[n:]
	}
}

// fill repeats numbers over the row, which are finite, as those of a model.
func fill(row []byte, h uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], h&^0x4000_4000_4000_4000) // a bit of each exponent
	for n := copy(row, b[:]); n < len(row); n *= 2 {
		copy(row[n:], row[:n])
	}
}

// stateTokens reads the tokens of a state file.
func stateTokens(path string) ([]int32, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("restore state: %w", err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	var head [6]uint32
	if err := binary.Read(r, binary.LittleEndian, &head); err != nil {
		return nil, fmt.Errorf("restore state: %w", err)
	}
	n := head[5]
	if head != [...]uint32{stateMagic, stateVersion, n + 4, ^uint32(0), 1, n} || n > mostTokens {
		return nil, errState
	}
	tokens := make([]int32, n)
	if err := binary.Read(r, binary.LittleEndian, tokens); err != nil {
		return nil, fmt.Errorf("restore state: %w", err)
	}
	return tokens, nil
}

// verify compares a file with the state that its tokens have, whatever slot wrote it, and returns its size. llama-server would take any
// numbers; this one is strict, so that a state that was put together wrongly does not go unnoticed.
func (s shape) verify(path string, tokens []int32) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("restore state: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("restore state: %w", err)
	}
	streams := make([]uint32, 1+s.slots) // their number, and the cells of each up to the one that has some
	at := int64(4 * (6 + len(tokens) + 1))
	if err := binary.Read(io.NewSectionReader(f, at, int64(4*len(streams))), binary.LittleEndian, streams); err != nil {
		return 0, errState
	}
	slot := 0
	for slot < s.slots-1 && streams[1+slot] == 0 {
		slot++
	}
	c := &comparer{r: bufio.NewReaderSize(f, 1<<18)}
	s.write(c, tokens, slot)
	if _, err := c.r.ReadByte(); c.differs || err != io.EOF {
		return 0, errState
	}
	return info.Size(), nil
}

// comparer notes whether what is written differs from what r has.
type comparer struct {
	r       *bufio.Reader
	differs bool
}

func (c *comparer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && !c.differs; {
		n := min(len(rest), c.r.Size())
		have, err := c.r.Peek(n)
		c.differs = err != nil || !bytes.Equal(have, rest[:n])
		_, _ = c.r.Discard(len(have)) // what was peeked at is there
		rest = rest[n:]
	}
	return len(p), nil
}
