package tinymodel

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// The container: GGUF version 3, little-endian, as llama.cpp's gguf.h lays it down: magic, counts, key-value
// pairs, tensor infos, and from an aligned offset the tensors themselves.
const (
	ggufVersion = 3
	alignment   = 32
)

// field is one key of the header. value is a string, bool, uint32, float32, or a slice of strings, int32s or float32s.
type field struct {
	key   string
	value any
}

// The numbers of GGUF's value types.
const (
	typeUint32  = 4
	typeInt32   = 5
	typeFloat32 = 6
	typeBool    = 7
	typeString  = 8
	typeArray   = 9
)

// writeHeader writes all that comes before the tensors, padding included.
func writeHeader(w io.Writer, fields []field, tensors []tensor) error {
	b := []byte("GGUF")
	b = binary.LittleEndian.AppendUint32(b, ggufVersion)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(fields)))
	for _, f := range fields {
		var err error
		if b, err = appendValue(appendString(b, f.key), f.value); err != nil {
			return fmt.Errorf("key %s: %w", f.key, err)
		}
	}
	offset := 0
	for _, t := range tensors {
		b = appendString(b, t.name)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.dims)))
		for _, d := range t.dims {
			b = binary.LittleEndian.AppendUint64(b, uint64(d))
		}
		b = binary.LittleEndian.AppendUint32(b, t.kind.number())
		b = binary.LittleEndian.AppendUint64(b, uint64(offset))
		offset += padded(t.bytes())
	}
	_, err := w.Write(append(b, make([]byte, padded(len(b))-len(b))...))
	return err
}

// padded rounds n up to GGUF's alignment.
func padded(n int) int { return (n + alignment - 1) / alignment * alignment }

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

func appendFloat(b []byte, f float32) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
}

// appendValue appends v's type number and v.
func appendValue(b []byte, v any) ([]byte, error) {
	u32 := binary.LittleEndian.AppendUint32
	switch v := v.(type) {
	case string:
		return appendString(u32(b, typeString), v), nil
	case bool:
		if v {
			return append(u32(b, typeBool), 1), nil
		}
		return append(u32(b, typeBool), 0), nil
	case uint32:
		return u32(u32(b, typeUint32), v), nil
	case float32:
		return appendFloat(u32(b, typeFloat32), v), nil
	case []string:
		return appendArray(b, typeString, v, appendString), nil
	case []int32:
		return appendArray(b, typeInt32, v, func(b []byte, i int32) []byte { return u32(b, uint32(i)) }), nil
	case []float32:
		return appendArray(b, typeFloat32, v, appendFloat), nil
	}
	return nil, fmt.Errorf("no GGUF type for %T", v)
}

func appendArray[T any](b []byte, elem uint32, vs []T, one func([]byte, T) []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, typeArray)
	b = binary.LittleEndian.AppendUint32(b, elem)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(vs)))
	for _, v := range vs {
		b = one(b, v)
	}
	return b
}
