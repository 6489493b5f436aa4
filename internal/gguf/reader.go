package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// The container, as llama.cpp's gguf.h lays it down: magic, version, counts, then key-value pairs. What
// follows them (tensors) is not read.
const (
	magic      = "GGUF"
	minVersion = 2
	maxVersion = 3
)

// Limits of what a header may claim and of what is kept of it. Vocabularies are passed over, whatever
// their size within maxHeaderBytes.
const (
	maxHeaderBytes = 1 << 30
	maxKeys        = 4096
	maxKeyBytes    = 256
	maxTextBytes   = 256
	maxListLen     = 512 // llama.cpp's LLAMA_MAX_LAYERS: lists with an entry for each layer are kept
)

// The numbers of the value types.
const (
	typeUint8 = iota
	typeInt8
	typeUint16
	typeInt16
	typeUint32
	typeInt32
	typeFloat32
	typeBool
	typeString
	typeArray
	typeUint64
	typeInt64
	typeFloat64
)

// metadata is what was kept of a header: numbers and truth values as int64, float64, texts as string,
// short lists of whole numbers and truth values as []int64.
type metadata map[string]any

// readMetadata reads a header up to its tensors.
func readMetadata(file io.Reader) (metadata, error) {
	r := reader{in: bufio.NewReaderSize(&io.LimitedReader{R: file, N: maxHeaderBytes}, 1<<16)}
	var head [4]byte
	r.fill(head[:])
	if r.err != nil || string(head[:]) != magic {
		return nil, errors.New("it is no GGUF file")
	}
	if version := r.uint32(); r.err == nil && (version < minVersion || version > maxVersion) {
		return nil, fmt.Errorf("GGUF version %d, want %d to %d", version, minVersion, maxVersion)
	}
	r.uint64() // tensors
	count := r.uint64()
	if count > maxKeys {
		return nil, fmt.Errorf("%d keys, want at most %d", count, maxKeys)
	}
	m := metadata{}
	for range count {
		key := r.text(maxKeyBytes)
		if r.err == nil && key == "" {
			return nil, fmt.Errorf("a key is empty or longer than %d bytes", maxKeyBytes)
		}
		if v := r.value(r.uint32()); v != nil {
			m[key] = v
		}
		if r.err != nil {
			return nil, fmt.Errorf("key %q: %w", key, r.err)
		}
	}
	return m, r.err
}

// reader reads values one after the other. After an error it reads zeros.
type reader struct {
	in   *bufio.Reader
	last [8]byte // what was read last
	err  error
}

func (r *reader) fill(b []byte) {
	if r.err == nil {
		if _, err := io.ReadFull(r.in, b); err != nil {
			r.fail(err)
		}
	}
	if r.err != nil {
		clear(b)
	}
}

func (r *reader) skip(n uint64) {
	if n > maxHeaderBytes {
		r.fail(io.ErrUnexpectedEOF)
	}
	if r.err == nil {
		if _, err := r.in.Discard(int(n)); err != nil {
			r.fail(err)
		}
	}
}

func (r *reader) fail(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the header ends too early or is too large")
	}
	r.err = err
}

// bits reads n bytes as a little-endian number.
func (r *reader) bits(n int) uint64 {
	clear(r.last[:])
	r.fill(r.last[:n])
	return binary.LittleEndian.Uint64(r.last[:])
}

func (r *reader) uint32() uint32 { return uint32(r.bits(4)) }
func (r *reader) uint64() uint64 { return r.bits(8) }

// text reads a string; one longer than limit is passed over and comes back empty.
func (r *reader) text(limit uint64) string {
	n := r.uint64()
	if n > limit {
		r.skip(n)
		return ""
	}
	b := make([]byte, n)
	r.fill(b)
	return string(b)
}

// size is how many bytes a value of a type takes; 0 for those that say it themselves.
func size(kind uint32) int {
	switch kind {
	case typeUint8, typeInt8, typeBool:
		return 1
	case typeUint16, typeInt16:
		return 2
	case typeUint32, typeInt32, typeFloat32:
		return 4
	case typeUint64, typeInt64, typeFloat64:
		return 8
	}
	return 0
}

// value reads a value. It is nil if there is no use for it.
func (r *reader) value(kind uint32) any {
	switch {
	case kind == typeString:
		return r.text(maxTextBytes)
	case kind == typeArray:
		return r.list()
	case size(kind) > 0:
		return r.number(kind)
	}
	if r.err == nil {
		r.err = fmt.Errorf("value type %d is not known", kind)
	}
	return nil
}

// number reads a value of fixed size.
func (r *reader) number(kind uint32) any {
	b := r.bits(size(kind))
	switch kind {
	case typeInt8:
		return int64(int8(b))
	case typeInt16:
		return int64(int16(b))
	case typeInt32:
		return int64(int32(b))
	case typeFloat32:
		return float64(math.Float32frombits(uint32(b)))
	case typeFloat64:
		return math.Float64frombits(b)
	}
	return int64(b)
}

// list reads an array and keeps it if it is short and of whole numbers.
func (r *reader) list() any {
	kind, n := r.uint32(), r.uint64()
	switch {
	case kind == typeString:
		for i := uint64(0); i < n && r.err == nil; i++ {
			r.skip(r.uint64())
		}
	case size(kind) == 0:
		if r.err == nil {
			r.err = fmt.Errorf("a list of value type %d", kind)
		}
	case n > maxListLen || kind == typeFloat32 || kind == typeFloat64:
		if n > maxHeaderBytes {
			r.fail(io.ErrUnexpectedEOF)
		}
		r.skip(n * uint64(size(kind)))
	default:
		list := make([]int64, n)
		for i := range list {
			list[i] = r.number(kind).(int64)
		}
		return list
	}
	return nil
}
