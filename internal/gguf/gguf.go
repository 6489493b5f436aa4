// Package gguf reads the header of a GGUF model file: what kind of model it is and how large its KV
// states are. It reads no weights.
package gguf

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Kind says what a model keeps of the tokens that it has read, and so how its cache can be stepped back.
type Kind string

// The kinds of models.
const (
	Plain     Kind = "plain"          // every layer attends to all tokens: the cache can be cut anywhere
	Window    Kind = "sliding window" // some layers see only the last tokens
	Recurrent Kind = "recurrent"      // some layers keep a running state, which cannot be stepped back
)

// Header is what a model file says of itself.
type Header struct {
	Architecture string // llama.cpp's name, as in qwen3moe
	Kind         Kind
	Layers       int
	WindowTokens int    // of a sliding window; 0 without
	Positions    string // rotary settings and window in one line, equal for equal ones

	cache cacheShape
}

// Read reads the header of a GGUF file; of a split model, name the first file.
func Read(path string) (*Header, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read model header: %w", err)
	}
	defer file.Close()
	m, err := readMetadata(file)
	if err != nil {
		return nil, fmt.Errorf("read model header of %s: %w", path, err)
	}
	h, err := newHeader(m)
	if err != nil {
		return nil, fmt.Errorf("read model header of %s: %w", path, err)
	}
	return h, nil
}

// newHeader makes sense of what a file says.
func newHeader(m metadata) (*Header, error) {
	arch, _ := m["general.architecture"].(string)
	if arch == "" {
		if part, ok := m["split.no"].(int64); ok && part > 0 {
			return nil, fmt.Errorf("it is part %d of a split model; name the first part", part+1)
		}
		return nil, errors.New("it names no architecture")
	}
	k := modelKeys{arch: arch, all: m}
	h := &Header{Architecture: arch, Kind: Plain, Layers: int(k.within("block_count", 0, maxLayers))}
	if h.Layers == 0 {
		return nil, fmt.Errorf("%s.block_count is missing or not within 1 and %d", arch, maxLayers)
	}
	window := k.window(h.Layers)
	h.WindowTokens = int(window.tokens)
	switch {
	case k.recurrent():
		h.Kind = Recurrent
	case window.tokens > 0:
		h.Kind = Window
	}
	h.Positions = k.positions(h.WindowTokens)
	h.cache = k.cache(h.Layers, window)
	return h, nil
}

// modelKeys are the keys that belong to a file's architecture.
type modelKeys struct {
	arch string
	all  metadata
}

func (k modelKeys) get(name string) any { return k.all[k.arch+"."+name] }

// whole is a key's whole number, or fallback where there is none.
func (k modelKeys) whole(name string, fallback int64) int64 {
	if n, ok := k.get(name).(int64); ok {
		return n
	}
	return fallback
}

// within is a key's whole number if it is from 0 to limit. Where there is none it is fallback, and a number outside is 0.
func (k modelKeys) within(name string, fallback, limit int64) int64 {
	if n := k.whole(name, fallback); n >= 0 && n <= limit {
		return n
	}
	return 0
}

// perLayer is a key that has one number for all layers, or one for each.
func (k modelKeys) perLayer(name string, layers int, fallback int64) []int64 {
	if list, ok := k.get(name).([]int64); ok && len(list) >= layers {
		return list[:layers]
	}
	return slices.Repeat([]int64{k.whole(name, fallback)}, layers)
}

// has says whether there is a key that begins so.
func (k modelKeys) has(prefix string) bool {
	for name := range k.all {
		if strings.HasPrefix(name, k.arch+"."+prefix) {
			return true
		}
	}
	return false
}

// positions is the line of Header.Positions: what the header says of the rotary embedding, in the order of
// the names, and the window.
func (k modelKeys) positions(window int) string {
	var line []string
	for _, key := range slices.Sorted(maps.Keys(k.all)) {
		name, ok := strings.CutPrefix(key, k.arch+".rope.")
		if !ok {
			continue
		}
		value := fmt.Sprint(k.all[key])
		if f, ok := k.all[key].(float64); ok {
			value = strconv.FormatFloat(f, 'g', -1, 32)
		}
		line = append(line, name+"="+value)
	}
	if window > 0 {
		line = append(line, fmt.Sprintf("window=%d", window))
	}
	return strings.Join(line, " ")
}
