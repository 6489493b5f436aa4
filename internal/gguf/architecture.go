package gguf

import "slices"

// Limits of what is believed of a model. Products of them stay within an int64.
const (
	maxLayers = 512 // llama.cpp's LLAMA_MAX_LAYERS
	maxHeads  = 1 << 12
	maxWidth  = 1 << 18
	maxWindow = 1 << 22
)

// recurrent says whether some layers keep a running state. Names are llama.cpp's (llm_arch_is_recurrent and
// llm_arch_is_hybrid); the keys find those that came later.
func (k modelKeys) recurrent() bool {
	switch k.arch {
	case "mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7",
		"jamba", "falcon-h1", "plamo2", "granitehybrid", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe",
		"qwen3next", "qwen35", "qwen35moe", "kimi-linear":
		return true
	}
	return k.has("ssm.") || k.has("wkv.") || k.has("shortconv.") || k.has("kda.")
}

// slidingWindow says which layers see only the last tokens.
type slidingWindow struct {
	tokens int64  // 0: there is no window
	layers []bool // has it, by layer; nil if that is not known
}

// window finds the window. Which architectures have one, and in which layers, is in llama.cpp's code and
// not in the files (swa_type and set_swa_pattern in its load_hparams), as long as they do not have the key
// sliding_window_pattern. Many others write the key sliding_window and compute without one.
func (k modelKeys) window(layers int) slidingWindow {
	w := slidingWindow{tokens: k.within("attention.sliding_window", 0, maxWindow)}
	period, denseFirst := 0, false
	switch k.arch {
	case "gpt-oss":
		period = 2
	case "gemma2":
		period, w.tokens = 2, k.within("attention.sliding_window", 4096, maxWindow)
	case "gemma3":
		period = 6
	case "gemma3n":
		period = 5
	case "cohere2", "olmo2", "afmoe":
		period = 4
	case "llama4": // attends in chunks
		if period = 4; k.whole("attention.sliding_window", 1) > 0 {
			w.tokens = 8192
		}
	case "exaone4":
		if period = 4; layers != 64 {
			return slidingWindow{}
		}
		w.tokens = k.within("attention.sliding_window", 4096, maxWindow)
	case "smallthinker":
		if period, denseFirst = 4, true; w.tokens > 0 {
			w.tokens = 4096
		}
	case "llama", "mistral3", "phi3", "phimoe", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "starcoder2":
		return slidingWindow{} // they may have the key and compute without a window
	}
	if w.tokens == 0 {
		return slidingWindow{}
	}
	switch pattern := k.get("attention.sliding_window_pattern").(type) {
	case int64:
		if pattern >= 0 && pattern <= maxLayers {
			w.layers = windowEvery(int(pattern), layers, denseFirst)
		}
	case []int64:
		if len(pattern) >= layers {
			for _, has := range pattern[:layers] {
				w.layers = append(w.layers, has != 0)
			}
		}
	default:
		if period > 0 {
			w.layers = windowEvery(period, layers, denseFirst)
		}
	}
	return w
}

// windowEvery gives all layers a window but the last of each period, or the first of it.
func windowEvery(period, layers int, denseFirst bool) []bool {
	list := make([]bool, layers)
	for i := range list {
		switch {
		case period == 0:
			list[i] = true
		case denseFirst:
			list[i] = i%period != 0
		default:
			list[i] = i%period < period-1
		}
	}
	return list
}

// strange says whether the header has keys of the attention that may change what is cached: latent
// attention, layers that share a cache, heads of other sizes in the window's layers, prediction layers.
func (k modelKeys) strange() bool {
	if k.whole("nextn_predict_layers", 0) != 0 {
		return true
	}
	known := []string{
		"head_count", "head_count_kv", "key_length", "value_length", "layer_norm_epsilon", "layer_norm_rms_epsilon",
		"sliding_window", "sliding_window_pattern", "causal", "scale", "output_scale", "clamp_kqv", "max_alibi_bias",
		"temperature_length", "temperature_scale", "value_scale", "group_norm_epsilon", "group_norm_groups",
	}
	prefix := k.arch + ".attention."
	for key := range k.all {
		if len(key) > len(prefix) && key[:len(prefix)] == prefix && !slices.Contains(known, key[len(prefix):]) {
			return true
		}
	}
	return false
}
