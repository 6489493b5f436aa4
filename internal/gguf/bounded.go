package gguf

import "encoding/binary"

// Block is the size of a block of numbers in bytes; 1 of a type that no cache has.
func (t Type) Block() int64 {
	i, ok := t.info()
	if !ok {
		return 1
	}
	return i.bytes
}

// Bounded reports whether all numbers in whole blocks of a cache's type are finite, and below 2^48, so that neither their squares nor sums of these leave the range
// of 32-bit numbers. Those of quantized types are if the factors in front of each block are finite.
func (t Type) Bounded(b []byte) bool {
	const exponent = 127 + 48
	switch t {
	case 0: // f32
		return below(b, exponent<<23|exponent<<(23+32), 0x7fffffff_7fffffff)
	case 1: // f16
		return below(b, 0x7c00_7c00_7c00_7c00, 0x7fff_7fff_7fff_7fff)
	case 30: // bf16
		return below(b, exponent<<7|exponent<<(7+16)|exponent<<(7+32)|exponent<<(7+48), 0x7fff_7fff_7fff_7fff)
	}
	factors := 2 // bytes
	if t == 3 || t == 7 {
		factors = 4 // q4_1 and q5_1 have two
	}
	for size := int(t.Block()); len(b) >= size && size > factors; b = b[size:] {
		for i := 0; i < factors; i += 2 {
			if binary.LittleEndian.Uint16(b[i:])&0x7c00 == 0x7c00 {
				return false
			}
		}
	}
	return true
}

// below reports whether all numbers, without their signs, are below a limit. Eight bytes are looked at together: limit, and rest, which is all but the sign, are those
// of one number, repeated.
func below(b []byte, limit, rest uint64) bool {
	reach := ^rest - limit // what is added to the limit to reach the place of the sign
	for ; len(b) >= 8; b = b[8:] {
		if (binary.LittleEndian.Uint64(b)&rest+reach)&^rest != 0 {
			return false
		}
	}
	var last [8]byte
	copy(last[:], b)
	return len(b) == 0 || below(last[:], limit, rest)
}
