package tinymodel

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
)

// How large the random weights are, relative to a layer that keeps the size of its input. Found by trying, over many
// prompts: with these, greedy text depends on all of the prompt and seldom falls into a loop.
const (
	queryKey    = 2.0 // attention picks single positions; at 1 it is near an average over all of them
	attention   = 2.0 // the context outweighs the last token
	feedForward = 2.0
	logits      = 4.0  // standard deviation of a logit
	timeStep    = -2.0 // of a recurrent layer, before softplus
)

// Channel 0 of the residual stream is the same for all tokens and positions: the embedding sets it and no block
// writes to it. It serves as the output bias that the llama architecture lacks: tokens that must not be emitted have
// a large negative weight there and no other.
const (
	constant  = 1
	forbidden = -1000
)

// tensor is one vector, matrix, or stack of matrices. dims[0] is the length of a row, as GGUF counts. fill sets
// row i of a matrix.
type tensor struct {
	name string
	dims []int
	kind Weights
	fill func(r *rand.PCG, i int, row []float32)
}

// number is llama.cpp's ggml_type.
func (w Weights) number() uint32 {
	if w == Q8 {
		return 8
	}
	return 0
}

// q8Block is the number of weights that share a scale in q8_0; a block is a float16 and a byte for each.
const q8Block = 32

func (t tensor) rows() int {
	n := 1
	for _, d := range t.dims[1:] {
		n *= d
	}
	return n
}

// bytes is the tensor's size in the file, without padding.
func (t tensor) bytes() int {
	n := t.rows() * t.dims[0]
	if t.kind == Q8 {
		return n / q8Block * (2 + q8Block)
	}
	return 4 * n
}

// write writes the tensor and its padding. Its numbers depend on seed and its name only.
func (t tensor) write(w io.Writer, seed uint64) error {
	r := newRand(seed, t.name)
	row, b := make([]float32, t.dims[0]), []byte(nil)
	matrix := append(t.dims, 1)[1] // rows of one
	for i := range t.rows() {
		t.fill(r, i%matrix, row)
		if b = b[:0]; t.kind == Q8 {
			b = appendQ8(b, row)
		} else {
			for _, f := range row {
				b = appendFloat(b, f)
			}
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	_, err := w.Write(make([]byte, padded(t.bytes())-t.bytes()))
	return err
}

// newRand gives the random numbers of one tensor.
func newRand(seed uint64, name string) *rand.PCG {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.NewPCG(seed, h.Sum64())
}

// appendQ8 appends row in blocks of q8_0.
func appendQ8(b []byte, row []float32) []byte {
	for block := range len(row) / q8Block {
		vs := row[block*q8Block:][:q8Block]
		var largest float32
		for _, v := range vs {
			largest = max(largest, v, -v)
		}
		scale := float16(largest / 127)
		b = binary.LittleEndian.AppendUint16(b, scale)
		for _, v := range vs {
			var q int8
			if scale != 0 {
				q = int8(max(-127, min(127, math.RoundToEven(float64(v)/float16Value(scale)))))
			}
			b = append(b, byte(q))
		}
	}
	return b
}

// float16 gives the bits of the float16 at or below f, for f that is zero or a normal float16.
func float16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits>>23 <= 127-15 {
		return 0
	}
	return uint16((bits>>23-127+15)<<10 | bits>>13&0x3FF)
}

func float16Value(h uint16) float64 {
	return math.Ldexp(1+float64(h&0x3FF)/1024, int(h>>10)-15)
}

// uniform fills row with numbers of mean 0 and the given standard deviation. One multiplication each and nothing
// that a compiler could fuse, so that all processors get the same bits.
func uniform(r *rand.PCG, row []float32, deviation float64) {
	step := float32(deviation * math.Sqrt(3) / (1 << 31))
	for i := range row {
		row[i] = float32(int32(r.Uint64()>>32)) * step
	}
}

func ones(_ *rand.PCG, _ int, row []float32) {
	for i := range row {
		row[i] = 1
	}
}

func constantly(v float32) func(*rand.PCG, int, []float32) {
	return func(_ *rand.PCG, _ int, row []float32) {
		for i := range row {
			row[i] = v
		}
	}
}

// decay gives each head of a recurrent layer a memory four times as long as the head before it has, from a few
// tokens to some thousands; then it begins again.
func decay(_ *rand.PCG, i int, row []float32) {
	for j := range row {
		row[j] = -1 / float32(int(1)<<(2*(i%6)))
	}
}

// matrix gives a layer that multiplies the size of its input by scale. Outputs to the residual stream leave channel 0 alone.
func matrix(in int, scale float64, toResidual bool) func(*rand.PCG, int, []float32) {
	return func(r *rand.PCG, i int, row []float32) {
		uniform(r, row, scale/math.Sqrt(float64(in)))
		if toResidual && i == 0 {
			clear(row)
		}
	}
}

// bias gives small random numbers. One that is added to the residual stream leaves channel 0 alone.
func bias(toResidual bool) func(*rand.PCG, int, []float32) {
	return func(r *rand.PCG, _ int, row []float32) {
		uniform(r, row, 0.1)
		if toResidual {
			row[0] = 0
		}
	}
}

func embedding(r *rand.PCG, _ int, row []float32) {
	uniform(r, row, 1)
	row[0] = constant
}

// output gives the rows that turn the residual stream into logits.
func output(v vocabulary, width int) func(*rand.PCG, int, []float32) {
	return func(r *rand.PCG, i int, row []float32) {
		uniform(r, row, logits/math.Sqrt(float64(width)))
		row[0] = 0
		if !v.tokens[i].printable() {
			clear(row)
			row[0] = forbidden
		}
	}
}
