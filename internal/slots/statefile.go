package slots

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"

	"tandem/internal/gguf"
	"tandem/internal/protocol"
)

// Layout is the structure of a state file, as far as it must be equal in the engine that reads it.
type Layout struct {
	Format         string // magic and version
	Tokens         int    // that the file holds
	CacheK, CacheV string // llama.cpp's names of the types; empty if the file has no attention cache
	FlashAttention bool   // values are not transposed; false if the file has no attention cache
	Streams        int    // of the attention cache; 0 if the file has none
	Digest         string // of all the rest: parts, layers, sizes of rows
}

// The beginning of a state file, as llama.h has it (LLAMA_STATE_SEQ_MAGIC and LLAMA_STATE_SEQ_VERSION), and of
// the checkpoints that llama-server adds to those of models that cannot be stepped back.
const (
	stateMagic        = 0x67677371 // "ggsq"
	oldestVersion     = 2          // llama.cpp b8121 to b9842
	rotatedVersion    = 4          // of 0.7.0, from which on a cache says how it is rotated
	newestVersion     = 4
	checkpointMagic   = 0x504b4353 // "SCKP"
	checkpointVersion = 1
)

// Limits of what a file may claim: far beyond what llama.cpp can write, and little work to refuse.
const (
	maxStateParts       = 8
	maxStateStreams     = 1 << 12
	maxStateLayers      = 1 << 12
	maxStateCheckpoints = 1 << 10
)

// ReadLayout reads the structure of a state file that llama-server wrote. It skips the numbers
// themselves, so its cost does not grow with the file. An error says what in the file is not understood. Of a file in one of the formats
// that are moved unread, only the format is known.
func ReadLayout(path string, unread ...string) (Layout, error) {
	l, _, err := readState(path, 0, unread)
	return l, err
}

// readState is ReadLayout, and also says where the rows of the first positions are: the spans of the file that belong to them, if its caches begin with them.
func readState(path string, positions int, unread []string) (Layout, []protocol.Span, error) {
	l, s, err := readFile(path, unread, func(s *stateReader) { s.positions = positions })
	if err != nil || s == nil {
		return l, nil, err
	}
	return l, s.spans, nil
}

// readFile reads a state file as prepare says. There is no reader of one that is not read.
func readFile(path string, unread []string, prepare func(*stateReader)) (Layout, *stateReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return Layout{}, nil, fmt.Errorf("read state file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Layout{}, nil, fmt.Errorf("read state file: %w", err)
	}
	l, s, err := readForms(f, info.Size(), prepare)
	if unknown, ok := errors.AsType[unknownFormat](err); ok && slices.Contains(unread, string(unknown)) {
		return Layout{Format: string(unknown), Digest: protocol.Unread}, nil, nil
	}
	if err == nil && s.content != nil {
		err = bounded(f, s.content.numbers)
	}
	if err != nil {
		return Layout{}, nil, fmt.Errorf("read state file: %w", err)
	}
	return l, s, nil
}

// readLayout reads the layout of size bytes.
func readLayout(r io.ReaderAt, size int64, positions int) (Layout, []protocol.Span, error) {
	l, s, err := readForms(r, size, func(s *stateReader) { s.positions = positions })
	if err != nil {
		return Layout{}, nil, err
	}
	return l, s.spans, nil
}

// readForms reads size bytes. The file does not say how large the record of a cell is, nor
// whether there is a cache of values, so each way is tried: the right one ends with the file's last byte.
func readForms(r io.ReaderAt, size int64, prepare func(*stateReader)) (Layout, *stateReader, error) {
	var first error
	for _, form := range []stateForm{
		{cellBytes: 12}, {cellBytes: 24}, {cellBytes: 12, keysOnly: true}, {cellBytes: 24, keysOnly: true},
	} {
		s := &stateReader{r: r, size: size, digest: sha256.New(), form: form}
		prepare(s)
		l, err := s.layout()
		if err == nil {
			return l, s, nil
		}
		if first == nil {
			first = err
		}
	}
	return Layout{}, nil, first
}

// stateForm is what a state file leaves unsaid.
type stateForm struct {
	cellBytes int64 // of a cell's record: position, number of sequences (always 1), the sequence; 12 more where positions have several dimensions
	keysOnly  bool  // values are computed from the keys (multi-head latent attention)
}

// stateReader walks through a state file from one field to the next. After an error it reads zeros.
type stateReader struct {
	r      io.ReaderAt
	size   int64
	at     int64
	err    error
	digest hash.Hash
	form   stateForm

	rotated   bool            // caches say how they are rotated
	positions int             // whose rows are wanted: these from 0 on
	spans     []protocol.Span // where they are, in the file's order
	content   *content        // what is checked beyond the layout; nil: nothing
}

// layout reads the whole file: its head, one part for each cache of the model, and the checkpoints.
func (s *stateReader) layout() (Layout, error) {
	magic, version := s.uint32(), s.uint32()
	s.rotated = version >= rotatedVersion
	format := fmt.Sprintf("ggsq.%d", version)
	if s.err == nil && magic != stateMagic {
		return Layout{}, fmt.Errorf("magic %08x, want %08x: this is no state of a llama-server", magic, stateMagic)
	}
	if s.err == nil && (version < oldestVersion || version > newestVersion) {
		return Layout{}, unknownFormat(format)
	}
	l := Layout{Format: format, Tokens: s.tokens()}
	if s.next() == checkpointMagic {
		s.fail("no part of a cache")
	}
	for parts := 0; s.err == nil && (s.at < s.size || parts == 0); parts++ {
		switch {
		case parts == maxStateParts:
			s.fail("more than %d parts", maxStateParts)
		case s.next() == checkpointMagic:
			s.checkpoints()
		case s.atRecurrentPart():
			s.recurrent()
		default:
			s.attention(&l)
		}
	}
	if s.err != nil {
		return Layout{}, s.err
	}
	l.Digest = fmt.Sprintf("%x", s.digest.Sum(nil))
	return l, nil
}

// unknownFormat is the error of a file in a format that is not read here.
type unknownFormat string

func (f unknownFormat) Error() string {
	return fmt.Sprintf("the state format %s is not known here (ggsq.%d to ggsq.%d are); install the newest Tandem, or the same older llama.cpp on both machines, "+
		"or have states moved without their being read, if both machines write such (--handover-unread %s on both)", string(f), oldestVersion, newestVersion, string(f))
}

// tokens skips the list of token ids and returns how many the state is for. A server that also reads
// images puts three numbers before the ids, of which the first is no token, and more after them.
func (s *stateReader) tokens() int {
	count := int64(s.uint32())
	begin := s.at
	n := count
	if count >= 3 && int32(s.uint32()) == -1 {
		s.uint32() // version of the list
		if n = int64(s.uint32()); n > count-3 {
			s.fail("a list of %d numbers for %d tokens", count, n)
		}
	} else {
		s.at = begin
	}
	s.checkTokens(n)
	s.skip(begin + 4*count - s.at)
	return int(n)
}

// next is the next field, which is not passed over.
func (s *stateReader) next() uint32 {
	ahead := *s
	return ahead.uint32()
}

// atRecurrentPart says which kind of part comes next. A recurrent one is one cell (1, its position, 0
// sequences) and then its layers (0: not transposed), where an attention cache of one stream is
// (1, cells, position of the first cell, 1 sequence).
func (s *stateReader) atRecurrentPart() bool {
	ahead := *s
	cells, _, sequences, transposed := ahead.uint32(), ahead.uint32(), ahead.uint32(), ahead.uint32()
	return ahead.err == nil && cells == 1 && sequences == 0 && transposed == 0
}

// attention reads one cache of keys and values. A model with a sliding window has two, of which the
// second one holds the window's layers.
func (s *stateReader) attention(l *Layout) {
	streams := s.uint32()
	if streams == 0 || streams > maxStateStreams {
		s.fail("a cache of %d streams", streams)
		return
	}
	used := 0
	for range streams {
		cells := int64(s.uint32())
		if cells == 0 || s.err != nil {
			continue // streams of other slots are empty
		}
		if used++; used > 1 {
			s.fail("several sequences in one state")
			return
		}
		begin := s.beginsWith(cells)
		s.cells(cells)
		transposed, layers := s.uint32(), s.uint32()
		if transposed > 1 || layers == 0 || layers > maxStateLayers {
			s.fail("a cache of %d layers, transposed %d", layers, transposed)
			return
		}
		var k, v uint32
		if s.rotated {
			k, v = s.uint32(), s.uint32()
		}
		s.note("attention cell %d layers %d rotated %d %d", s.form.cellBytes, layers, k, v)
		keys := s.rows("k", cells, begin, layers, false)
		values := ""
		if !s.form.keysOnly {
			values = s.rows("v", cells, begin, layers, transposed == 1)
		}
		if l.Streams == 0 {
			l.CacheK, l.CacheV, l.FlashAttention, l.Streams = keys, values, transposed == 0, int(streams)
		}
	}
	if used == 0 {
		s.fail("a cache without tokens")
	}
}

// rows reads the layers of one half of a cache and returns the type of the first. The first rows of each, begin of them, are noted: where
// values are transposed, what belongs to a position is no row but strewn over the layer, and always counts as new.
func (s *stateReader) rows(half string, cells, begin int64, layers uint32, transposed bool) string {
	var first gguf.Type
	for i := range layers {
		if s.err != nil {
			return ""
		}
		t := gguf.Type(s.uint32())
		if i == 0 {
			first = t
		}
		var values uint64 // of a row; where they do not fit the type, bytes
		if transposed {
			elem, n := s.uint32(), s.uint32()
			values = uint64(n)
			s.rowsOf(t, cells, int64(elem), int64(n))
		} else {
			bytes := s.uint64()
			values = bytes
			if n, ok := t.Values(int64(bytes)); ok {
				values = uint64(n)
			}
			at := s.at
			if s.rowsOf(t, cells, int64(bytes)); s.err == nil && begin > 0 && bytes > 0 {
				s.spans = append(s.spans, protocol.Span{Offset: at, Bytes: begin * int64(bytes)})
			}
		}
		if t == first {
			s.note("%s %d", half, values)
		} else {
			s.note("%s %d %s", half, values, t)
		}
	}
	return first.String()
}

// recurrent reads the part of a recurrent model's running state, the last one: for each recurrent
// layer of the model one row of the short-term state, then likewise of the long-term one.
func (s *stateReader) recurrent() {
	cells := int64(s.uint32())
	s.position(int64(s.uint32()))
	s.skip(8) // sequences, transposed
	s.note("recurrent of %d layers", s.uint32())
	rows := 0
	for ; s.err == nil && s.at < s.size && s.next() != checkpointMagic; rows++ {
		if rows == 2*maxStateLayers {
			s.fail("more than %d layers", maxStateLayers)
		}
		t, bytes := gguf.Type(s.uint32()), s.uint64()
		s.note("state %s %d", t, bytes)
		s.rowsOf(t, cells, int64(bytes))
	}
	if rows == 0 || rows%2 != 0 {
		s.fail("a recurrent state of %d rows", rows)
	}
}

// checkpoints passes over earlier states of what cannot be stepped back. How many there are depends on
// the prompts that were computed, so they do not count for the layout.
func (s *stateReader) checkpoints() {
	_, version, count := s.uint32(), s.uint32(), s.uint32()
	if version != checkpointVersion || count > maxStateCheckpoints {
		s.fail("version %d of %d checkpoints", version, count)
		return
	}
	for range count {
		tokens := s.uint64()
		first, last := s.uint32(), s.uint32()
		s.checkpoint(tokens, first, last)
		for range 3 { // of the model itself and of draft models
			size := int64(s.uint64())
			s.partial(tokens, size)
			s.skip(size)
		}
	}
	if s.at != s.size {
		s.fail("more than checkpoints at its end")
	}
}

// note takes a line into the digest.
func (s *stateReader) note(format string, args ...any) { fmt.Fprintf(s.digest, format+"\n", args...) }

// fail keeps the first error, with its place.
func (s *stateReader) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("at byte %d of %d: "+format, append([]any{s.at, s.size}, args...)...)
	}
}

// skip passes over a product of sizes.
func (s *stateReader) skip(sizes ...int64) {
	if slices.Contains(sizes, 0) {
		return
	}
	n := int64(1)
	for _, size := range sizes {
		if size < 0 || n > (s.size-s.at)/size {
			s.fail("it ends in the middle of a part")
			return
		}
		n *= size
	}
	s.at += n
}

func (s *stateReader) uint32() uint32 {
	var b [4]byte
	s.read(b[:])
	return binary.LittleEndian.Uint32(b[:])
}

func (s *stateReader) uint64() uint64 {
	var b [8]byte
	s.read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// read fills b with what comes next.
func (s *stateReader) read(b []byte) {
	if s.err != nil {
		return
	}
	_, err := s.r.ReadAt(b, s.at)
	switch {
	case s.at+int64(len(b)) > s.size || errors.Is(err, io.EOF) && s.at+int64(len(b)) != s.size:
		clear(b)
		s.fail("it ends in the middle of a part")
	case err != nil && !errors.Is(err, io.EOF):
		clear(b)
		s.fail("%w", err)
	default:
		s.at += int64(len(b))
	}
}
