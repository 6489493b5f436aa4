package tinymodel

import (
	"bufio"
	"fmt"
	"io"

	"tandem/internal/atomicfile"
)

// The projector of a model that sees: a vision transformer of one layer, and two matrices after it, in the form of LLaVA's. It gives an image of
// 56 × 56 points sixteen tokens.
const (
	imagePoints = 56
	patchPoints = 14
	sightWidth  = 32
	sightHeads  = 2
)

// WriteProjector writes the GGUF file by which a model of s sees, to w.
func WriteProjector(w io.Writer, s Spec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	third := []float32{0.5, 0.5, 0.5}
	fields := []field{
		{"general.architecture", "clip"},
		{"general.name", "Tandem stand-in projector"},
		{"general.file_type", uint32(0)},
		{"clip.has_vision_encoder", true},
		{"clip.projector_type", "mlp"},
		{"clip.use_gelu", true},
		{"clip.vision.image_size", uint32(imagePoints)},
		{"clip.vision.patch_size", uint32(patchPoints)},
		{"clip.vision.embedding_length", uint32(sightWidth)},
		{"clip.vision.feed_forward_length", uint32(2 * sightWidth)},
		{"clip.vision.projection_dim", uint32(s.Width)},
		{"clip.vision.block_count", uint32(1)},
		{"clip.vision.attention.head_count", uint32(sightHeads)},
		{"clip.vision.attention.layer_norm_epsilon", float32(1e-5)},
		{"clip.vision.image_mean", third},
		{"clip.vision.image_std", third},
	}
	const patches = (imagePoints / patchPoints) * (imagePoints / patchPoints)
	var l layer
	norm := func(name string) {
		l.vector(name+".weight", sightWidth, ones)
		l.vector(name+".bias", sightWidth, bias(false))
	}
	linear := func(name string, in, out int) {
		l.add(name+".weight", F32, matrix(in, 1, false), in, out)
		l.vector(name+".bias", out, bias(false))
	}
	l.add("v.patch_embd.weight", F32, matrix(3*patchPoints*patchPoints, 1, false), patchPoints, patchPoints, 3, sightWidth)
	l.add("v.position_embd.weight", F32, matrix(1, 1, false), sightWidth, patches+1)
	l.vector("v.class_embd", sightWidth, bias(false))
	norm("v.pre_ln")
	norm("v.blk.0.ln1")
	norm("v.blk.0.ln2")
	for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_out"} {
		linear("v.blk.0."+name, sightWidth, sightWidth)
	}
	linear("v.blk.0.ffn_up", sightWidth, 2*sightWidth)
	linear("v.blk.0.ffn_down", 2*sightWidth, sightWidth)
	linear("mm.0", sightWidth, s.Width)
	linear("mm.2", s.Width, s.Width)
	return write(w, s.Seed, fields, l.tensors)
}

// WriteProjectorFile writes it at path, whole or not at all.
func WriteProjectorFile(path string, s Spec) error {
	if err := atomicfile.WriteFrom(path, 0o600, func(w io.Writer) error { return WriteProjector(w, s) }); err != nil {
		return fmt.Errorf("write projector file: %w", err)
	}
	return nil
}

// write writes a GGUF file.
func write(w io.Writer, seed uint64, fields []field, tensors []tensor) error {
	out := bufio.NewWriterSize(w, 1<<20)
	if err := writeHeader(out, fields, tensors); err != nil {
		return fmt.Errorf("write model header: %w", err)
	}
	for _, t := range tensors {
		if err := t.write(out, seed); err != nil {
			return fmt.Errorf("write tensor %s: %w", t.name, err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write model: %w", err)
	}
	return nil
}
