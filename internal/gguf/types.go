package gguf

import "fmt"

// Type is a number format of tensors and caches, by ggml's number for it.
type Type uint32

// typeInfo describes a format: numbers come in blocks of a fixed size.
type typeInfo struct {
	number Type
	name   string
	block  int64 // numbers in a block
	bytes  int64 // of a block
}

// cacheTypes are the formats that llama-server's --cache-type-k takes.
func cacheTypes() []typeInfo {
	return []typeInfo{
		{0, "f32", 1, 4}, {1, "f16", 1, 2}, {30, "bf16", 1, 2}, {8, "q8_0", 32, 34},
		{2, "q4_0", 32, 18}, {3, "q4_1", 32, 20}, {6, "q5_0", 32, 22}, {7, "q5_1", 32, 24}, {20, "iq4_nl", 32, 18},
	}
}

func (t Type) info() (typeInfo, bool) {
	for _, i := range cacheTypes() {
		if i.number == t {
			return i, true
		}
	}
	return typeInfo{}, false
}

// String is llama.cpp's name for it, as in q8_0.
func (t Type) String() string {
	if i, ok := t.info(); ok {
		return i.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Values says how many numbers fill a row of so many bytes; false for a type that no cache has.
func (t Type) Values(bytes int64) (int64, bool) {
	i, ok := t.info()
	if !ok {
		return 0, false
	}
	return bytes / i.bytes * i.block, true
}

// rowBytes is the size of a row of so many numbers; false if name is no type of a cache.
func rowBytes(name string, values int64) (int64, bool) {
	for _, i := range cacheTypes() {
		if i.name == name {
			return (values + i.block - 1) / i.block * i.bytes, true
		}
	}
	return 0, false
}
