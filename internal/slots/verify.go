package slots

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"tandem/internal/gguf"
)

// content is what a state file must hold to be given to a server. llama-server believes what it reads: after one cell with a position far beyond the prompt
// it fails every further job, and after numbers that are infinite it answers them wrongly, even when the slot was erased.
type content struct {
	tokens  []int32 // the state's, in order
	partial bool    // a checkpoint, which has only what cannot be stepped back
	caches  int     // attention caches read so far
	numbers []numbers
}

// numbers are those of some rows that follow each other.
type numbers struct {
	kind       gguf.Type
	at, length int64 // bytes in the file
}

const (
	mostSequences = 256        // that llama.cpp can tell apart
	partialMagic  = 0xaf143cd8 // begins the state of a checkpoint
	mostTokenIDs  = 1 << 24    // of a vocabulary
)

// VerifyState reads the layout of a state file that may come from anywhere, and checks that it is one of exactly these tokens: its cells hold each position
// once and one sequence, what else it counts is within bounds, and its numbers are bounded. It reads the whole file, on all processors. Of a file in one of
// the formats that are moved unread, only the format is looked at.
func VerifyState(path string, tokens []int32, unread ...string) (Layout, error) {
	l, _, err := readFile(path, unread, func(s *stateReader) { s.content = &content{tokens: tokens} })
	return l, err
}

// checkTokens reads the list of the n tokens.
func (s *stateReader) checkTokens(n int64) {
	if s.content == nil {
		return
	}
	if n != int64(len(s.content.tokens)) {
		s.fail("a state of %d tokens, and the prompt's has %d", n, len(s.content.tokens))
		return
	}
	list := make([]byte, 4*n)
	s.read(list)
	for i, want := range s.content.tokens {
		if s.err == nil && int32(binary.LittleEndian.Uint32(list[4*i:])) != want { // which are not told: they are text
			s.fail("token %d is not the prompt's", i)
		}
	}
}

// cells reads the records of an attention cache's cells. A cache of all tokens holds each position once; that of a window holds the last ones, from
// anywhere on, since it is a ring.
func (s *stateReader) cells(n int64) {
	if s.content == nil || s.err != nil {
		s.skip(n, s.form.cellBytes)
		return
	}
	tokens := int64(len(s.content.tokens))
	s.content.caches++
	if n > tokens || n < tokens && s.content.caches == 1 && !s.content.partial {
		s.fail("a cache of %d cells for %d tokens", n, tokens)
		return
	}
	records, seen := make([]byte, n*s.form.cellBytes), make([]bool, n)
	s.read(records)
	for record := range slices.Chunk(records, int(s.form.cellBytes)) {
		number := func(i int) int64 { return int64(int32(binary.LittleEndian.Uint32(record[4*i:]))) }
		position, sequences, sequence := number(0), number(1), number(len(record)/4-1)
		at := position - (tokens - n)
		switch {
		case s.err != nil:
			return
		case at < 0 || at >= n || seen[at]:
			s.fail("a cell of position %d, which is there already or none of the last %d of %d", position, n, tokens)
			return
		case sequences != 1 || sequence < 0 || sequence >= mostSequences:
			s.fail("a cell of %d sequences, of which the last is %d", sequences, sequence)
			return
		case len(record) > 12 && (min(number(2), number(3), number(4)) < -1 || max(number(2), number(3)) >= tokens || number(4) >= mostTokenIDs):
			s.fail("a cell of position %d, %d, token %d", number(2), number(3), number(4))
			return
		}
		seen[at] = true
	}
}

// position checks the position of a recurrent model's running state: it is the last one's.
func (s *stateReader) position(p int64) {
	if s.content != nil && p != int64(len(s.content.tokens))-1 {
		s.fail("a running state of position %d for %d tokens", p, len(s.content.tokens))
	}
}

// rowsOf passes over the numbers of some rows, which are checked later.
func (s *stateReader) rowsOf(t gguf.Type, sizes ...int64) {
	begin := s.at
	if s.skip(sizes...); s.content == nil || s.err != nil {
		return
	}
	if _, known := t.Values(0); !known {
		s.fail("numbers of %s", t)
		return
	}
	s.content.numbers = append(s.content.numbers, numbers{t, begin, s.at - begin})
}

// checkpoint checks the head of a checkpoint of so many tokens.
func (s *stateReader) checkpoint(tokens uint64, first, last uint32) {
	if s.content != nil && (tokens == 0 || tokens > uint64(len(s.content.tokens)) || first > last || uint64(last) != tokens-1) {
		s.fail("a checkpoint of %d tokens, positions %d to %d, in a state of %d", tokens, first, last, len(s.content.tokens))
	}
}

// partial checks the state in a checkpoint, of so many bytes from here on.
func (s *stateReader) partial(tokens uint64, size int64) {
	if s.content == nil || s.err != nil || size == 0 {
		return
	}
	if size < 0 || size > s.size-s.at {
		s.fail("it ends in the middle of a checkpoint")
		return
	}
	p := &stateReader{
		r: s.r, size: s.at + size, at: s.at, form: s.form, rotated: s.rotated, digest: sha256.New(),
		content: &content{tokens: s.content.tokens[:tokens], partial: true},
	}
	if magic, sequence := p.uint32(), p.uint32(); magic != partialMagic || sequence >= mostSequences {
		p.fail("a checkpoint that begins with %08x, of sequence %d", magic, sequence)
	}
	for p.err == nil && p.at < p.size {
		if p.atRecurrentPart() {
			p.recurrent()
		} else {
			p.attention(&Layout{})
		}
	}
	s.content.numbers = append(s.content.numbers, p.content.numbers...)
	s.err = p.err
}

// bounded checks that there are no infinite numbers, none so large that they become so, and none that are not a number.
func bounded(r io.ReaderAt, list []numbers) error {
	const piece = 256 << 10 // bytes
	buffers := sync.Pool{New: func() any { return new([piece]byte) }}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, n := range list {
		block := n.kind.Block()
		step := piece / block * block
		for at := n.at; at < n.at+n.length; at += step {
			group.Go(func() error {
				buffer := buffers.Get().(*[piece]byte)
				defer buffers.Put(buffer)
				b := buffer[:min(step, n.at+n.length-at)]
				if _, err := r.ReadAt(b, at); err != nil {
					return err
				}
				if !n.kind.Bounded(b) {
					return fmt.Errorf("from byte %d on: a number that is infinite, too large, or none", at)
				}
				return nil
			})
		}
	}
	return group.Wait()
}
