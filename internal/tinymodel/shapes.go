package tinymodel

import (
	"fmt"
	"math/rand/v2"
)

// The shape of a model: which keys its header has and which tensors follow. Names and sizes are llama.cpp's, from the
// load_hparams and load_tensors of each architecture.

// Sizes that no test wants different.
const (
	experts     = 8 // of a mixture
	expertsUsed = 2 // by a token
	windowSize  = 128
	meanPooling = 1 // llama.cpp's number
	yarnFactor  = 32
	yarnScale   = 1.35 // by which YaRN makes queries and keys longer: 1 + ln(yarnFactor)/10
	ssmState    = 32   // numbers that a channel of a recurrent layer keeps
	ssmKernel   = 4    // tokens that its convolution sees
	ssmHead     = 32   // channels that share a time step
)

// headWidth is the length of one head's query, key or value.
func (s Spec) headWidth() int { return s.Width / s.Heads }

// metadata is the architecture's part of the header.
func (s Spec) metadata() []field {
	fileType := uint32(0) // all float32
	if s.Weights == Q8 {
		fileType = 7 // mostly q8_0
	}
	fields := []field{
		{"general.architecture", string(s.Shape)},
		{"general.name", fmt.Sprintf("Tandem stand-in %s %s", s.Shape, s.Tokenizer)},
		{"general.description", "random weights, for tests: the text means nothing"},
		{"general.file_type", fileType},
	}
	add := func(name string, value any) { fields = append(fields, field{string(s.Shape) + "." + name, value}) }
	add("block_count", uint32(s.Layers))
	add("context_length", uint32(s.Context))
	add("embedding_length", uint32(s.Width))
	add("feed_forward_length", uint32(s.FF))
	add("attention.head_count", uint32(s.Heads))
	if s.Shape == GraniteHybrid {
		add("attention.head_count_kv", s.hybridHeads())
	} else {
		add("attention.head_count_kv", uint32(s.KVHeads))
	}
	add("attention.layer_norm_rms_epsilon", float32(1e-5))
	add("rope.dimension_count", uint32(s.headWidth()))
	if s.Shape == Qwen3MoE || s.Shape == GPTOSS {
		add("attention.key_length", uint32(s.headWidth()))
		add("attention.value_length", uint32(s.headWidth()))
		add("expert_count", uint32(experts))
		add("expert_used_count", uint32(expertsUsed))
		add("expert_feed_forward_length", uint32(s.FF))
	}
	if s.Embeds {
		add("pooling_type", uint32(meanPooling))
	}
	switch s.Shape {
	case Qwen3MoE:
		add("rope.freq_base", float32(1e7))
	case GPTOSS:
		add("attention.sliding_window", uint32(windowSize))
		add("rope.freq_base", float32(150000))
		add("rope.scaling.type", "yarn")
		add("rope.scaling.factor", float32(yarnFactor))
		add("rope.scaling.original_context_length", uint32(4096))
	case GraniteHybrid:
		add("ssm.conv_kernel", uint32(ssmKernel))
		add("ssm.inner_size", uint32(2*s.Width))
		add("ssm.state_size", uint32(ssmState))
		add("ssm.time_step_rank", uint32(2*s.Width/ssmHead))
		add("ssm.group_count", uint32(1))
	}
	return fields
}

// recurrent says which layers of a hybrid have no attention: the first of every two.
func (s Spec) recurrent(layer int) bool { return s.Shape == GraniteHybrid && layer%2 == 0 }

// hybridHeads is how a hybrid says which layers are recurrent: those without heads for keys and values.
func (s Spec) hybridHeads() []int32 {
	heads := make([]int32, s.Layers)
	for i := range heads {
		if !s.recurrent(i) {
			heads[i] = int32(s.KVHeads)
		}
	}
	return heads
}

// tensors lists the weights in the order in which they are written.
func (s Spec) tensors(v vocabulary) []tensor {
	ts := []tensor{
		{name: "token_embd.weight", dims: []int{s.Width, len(v.tokens)}, kind: s.Weights, fill: embedding},
		{name: "output_norm.weight", dims: []int{s.Width}, kind: F32, fill: ones},
		{name: "output.weight", dims: []int{s.Width, len(v.tokens)}, kind: s.Weights, fill: output(v, s.Width)},
	}
	for i := range s.Layers {
		l := layer{Spec: s, prefix: fmt.Sprintf("blk.%d.", i)}
		l.vector("attn_norm.weight", s.Width, ones)
		if s.recurrent(i) {
			l.mamba()
		} else {
			l.attention()
		}
		switch s.Shape {
		case Qwen3MoE:
			l.vector("ffn_norm.weight", s.Width, ones)
			l.mixture()
		case GPTOSS:
			l.vector("post_attention_norm.weight", s.Width, ones)
			l.mixture()
		default:
			l.vector("ffn_norm.weight", s.Width, ones)
			l.matrix("ffn_gate.weight", s.Width, s.FF, 1, false)
			l.matrix("ffn_up.weight", s.Width, s.FF, 1, false)
			l.matrix("ffn_down.weight", s.FF, s.Width, feedForward, true)
		}
		ts = append(ts, l.tensors...)
	}
	return ts
}

// layer collects the tensors of one layer.
type layer struct {
	Spec
	prefix  string
	tensors []tensor
}

func (l *layer) add(name string, kind Weights, fill func(*rand.PCG, int, []float32), dims ...int) {
	l.tensors = append(l.tensors, tensor{name: l.prefix + name, dims: dims, kind: kind, fill: fill})
}

func (l *layer) vector(name string, n int, fill func(*rand.PCG, int, []float32)) {
	l.add(name, F32, fill, n)
}

func (l *layer) matrix(name string, in, out int, scale float64, toResidual bool) {
	l.add(name, l.Weights, matrix(in, scale, toResidual), in, out)
}

// attention is the same in all shapes but for what some add to it.
func (l *layer) attention() {
	kv := l.headWidth() * l.KVHeads
	sharpness := queryKey
	if l.Shape == GPTOSS {
		sharpness /= yarnScale
	}
	l.matrix("attn_q.weight", l.Width, l.Width, sharpness, false)
	l.matrix("attn_k.weight", l.Width, kv, sharpness, false)
	l.matrix("attn_v.weight", l.Width, kv, 1, false)
	l.matrix("attn_output.weight", l.Width, l.Width, attention, true)
	switch l.Shape {
	case Qwen3MoE:
		l.vector("attn_q_norm.weight", l.headWidth(), constantly(queryKey))
		l.vector("attn_k_norm.weight", l.headWidth(), constantly(queryKey))
	case GPTOSS:
		l.vector("attn_q.bias", l.Width, bias(false))
		l.vector("attn_k.bias", kv, bias(false))
		l.vector("attn_v.bias", kv, bias(false))
		l.vector("attn_output.bias", l.Width, bias(true))
		l.vector("attn_sinks.weight", l.Heads, bias(false))
	}
}

// mixture is a feed-forward layer of experts.
func (l *layer) mixture() {
	l.add("ffn_gate_inp.weight", F32, matrix(l.Width, 1, false), l.Width, experts)
	l.add("ffn_gate_exps.weight", l.Weights, matrix(l.Width, 1, false), l.Width, l.FF, experts)
	l.add("ffn_up_exps.weight", l.Weights, matrix(l.Width, 1, false), l.Width, l.FF, experts)
	l.add("ffn_down_exps.weight", l.Weights, matrix(l.FF, feedForward, true), l.FF, l.Width, experts)
	if l.Shape == GPTOSS {
		l.vector("ffn_gate_inp.bias", experts, bias(false))
		l.add("ffn_gate_exps.bias", F32, bias(false), l.FF, experts)
		l.add("ffn_up_exps.bias", F32, bias(false), l.FF, experts)
		l.add("ffn_down_exps.bias", F32, bias(true), l.Width, experts)
	}
}

// mamba is a recurrent layer, Mamba-2 with one group.
func (l *layer) mamba() {
	inner := 2 * l.Width
	convolved, heads := inner+2*ssmState, inner/ssmHead
	l.matrix("ssm_in.weight", l.Width, inner+convolved+heads, 1, false)
	l.add("ssm_conv1d.weight", F32, matrix(ssmKernel, 1, false), ssmKernel, convolved)
	l.vector("ssm_conv1d.bias", convolved, bias(false))
	l.vector("ssm_dt.bias", heads, constantly(timeStep))
	l.add("ssm_a", F32, decay, 1, heads)
	l.add("ssm_d", F32, ones, 1, heads)
	l.add("ssm_norm.weight", F32, ones, inner, 1)
	l.matrix("ssm_out.weight", inner, l.Width, attention, true)
}
