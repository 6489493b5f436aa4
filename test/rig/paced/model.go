package paced

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"

	"tandem/test/rig/paced/fleet"
)

// shape is how the states of a server look, and what its model file says of them.
type shape struct {
	model  string
	slots  int
	layers int // that keep all positions; with a window there are as many that keep only the last ones
	row    int // bytes of one layer's keys of a position, and of its values
	window int // positions; 0 without
}

const (
	perToken   = 4 + 12 // bytes that a state keeps of a token beside its rows: its id and its cell's record
	mostLayers = 48
	leastRow   = 32 // bytes, as long as there are fewer layers than that
)

// shapeOf finds rows such that a state has about the fleet's size times scale. What a state has beside its tokens' rows is the
// window of a model such as gpt-oss: half of its layers, of as many positions as make up those bytes.
func shapeOf(f *fleet.Fleet, slots int, scale float64) shape {
	rows := max(4, f.BytesPerToken*scale-perToken)
	s := shape{model: f.Model, slots: slots, layers: min(max(1, int(rows/(2*leastRow))), mostLayers)}
	s.row = 2 * max(1, int(math.Round(rows/float64(4*s.layers))))
	if f.FixedBytes > 0 {
		s.window = int(math.Ceil(f.FixedBytes / (f.BytesPerToken - perToken)))
	}
	return s
}

// writeModel writes a GGUF file that has the header of such a model, from which a worker learns how large states are, and no
// weights. Servers of one fleet write the same bytes.
func (s shape) writeModel(path string) error {
	arch, layers := "llama", s.layers
	if s.window > 0 {
		arch, layers = "gpt-oss", 2*s.layers // of which every other one has the window
	}
	type number struct {
		key   string
		value int
	}
	numbers := []number{
		{"block_count", layers}, {"context_length", 1 << 20}, {"embedding_length", s.row / 2},
		{"attention.head_count", 1}, {"attention.head_count_kv", 1},
		{"attention.key_length", s.row / 2}, {"attention.value_length", s.row / 2}, // two bytes each
	}
	if s.window > 0 {
		numbers = append(numbers, number{"attention.sliding_window", s.window})
	}
	const uint32Type, stringType = 4, 8 // GGUF's numbers for them
	text := func(b []byte, s string) []byte {
		return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
	}
	b := binary.LittleEndian.AppendUint32([]byte("GGUF"), 3)
	b = binary.LittleEndian.AppendUint64(b, 0) // tensors
	b = binary.LittleEndian.AppendUint64(b, uint64(2+len(numbers)))
	for _, f := range [][2]string{{"general.architecture", arch}, {"general.name", s.model + ", paced"}} {
		b = text(binary.LittleEndian.AppendUint32(text(b, f[0]), stringType), f[1])
	}
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint32(text(b, arch+"."+n.key), uint32Type)
		b = binary.LittleEndian.AppendUint32(b, uint32(n.value))
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		return fmt.Errorf("write model file: %w", err)
	}
	return nil
}
