package tinymodel

import "fmt"

// The shape of a model: which keys its header has and which tensors follow. Llama is the only one so far; another
// architecture is another case in these two methods.

// metadata is the architecture's part of the header.
func (s Spec) metadata() []field {
	arch := string(s.Shape)
	fileType := uint32(0) // all float32
	if s.Weights == Q8 {
		fileType = 7 // mostly q8_0
	}
	return []field{
		{"general.architecture", arch},
		{"general.name", fmt.Sprintf("Tandem stand-in %s %s", s.Shape, s.Tokenizer)},
		{"general.description", "random weights, for tests: the text means nothing"},
		{"general.file_type", fileType},
		{arch + ".block_count", uint32(s.Layers)},
		{arch + ".context_length", uint32(s.Context)},
		{arch + ".embedding_length", uint32(s.Width)},
		{arch + ".feed_forward_length", uint32(s.FF)},
		{arch + ".attention.head_count", uint32(s.Heads)},
		{arch + ".attention.head_count_kv", uint32(s.KVHeads)},
		{arch + ".attention.layer_norm_rms_epsilon", float32(1e-5)},
		{arch + ".rope.dimension_count", uint32(s.Width / s.Heads)},
	}
}

// tensors lists the weights in the order in which they are written.
func (s Spec) tensors(v vocabulary) []tensor {
	kv := s.Width / s.Heads * s.KVHeads
	ts := []tensor{
		{name: "token_embd.weight", dims: []int{s.Width, len(v.tokens)}, kind: s.Weights, fill: embedding},
		{name: "output_norm.weight", dims: []int{s.Width}, kind: F32, fill: ones},
		{name: "output.weight", dims: []int{s.Width, len(v.tokens)}, kind: s.Weights, fill: output(v, s.Width)},
	}
	for i := range s.Layers {
		block := func(name string, in, out int, scale float64, toResidual bool) {
			name = fmt.Sprintf("blk.%d.%s.weight", i, name)
			ts = append(ts, tensor{name: name, dims: []int{in, out}, kind: s.Weights, fill: matrix(in, scale, toResidual)})
		}
		norm := func(name string) {
			ts = append(ts, tensor{name: fmt.Sprintf("blk.%d.%s.weight", i, name), dims: []int{s.Width}, kind: F32, fill: ones})
		}
		norm("attn_norm")
		block("attn_q", s.Width, s.Width, queryKey, false)
		block("attn_k", s.Width, kv, queryKey, false)
		block("attn_v", s.Width, kv, 1, false)
		block("attn_output", s.Width, s.Width, attention, true)
		norm("ffn_norm")
		block("ffn_gate", s.Width, s.FF, 1, false)
		block("ffn_up", s.Width, s.FF, 1, false)
		block("ffn_down", s.FF, s.Width, feedForward, true)
	}
	return ts
}
