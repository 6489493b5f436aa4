package gguf

// cacheShape says what a model keeps in its caches. The zero value says that it is not known.
type cacheShape struct {
	known     bool
	cellBytes int64       // of a cell's record
	tokens    []layerRows // of each layer that keeps all tokens
	window    []layerRows // of each layer that keeps the window's
	width     int64       // of the window, in tokens
	states    int64       // recurrent layers
	state     int64       // numbers that each of them keeps, as float32
}

// layerRows is how many numbers a layer keeps of a token.
type layerRows struct{ keys, values int64 }

// Parts of a state file that do not grow with the tokens, at most: its head, and of each cache the head, a
// counter for each slot of the server, and the head of a layer's keys and of its values.
const (
	fileBytes  = 64
	partBytes  = 32 + 4*256
	layerBytes = 24
	tokenBytes = 4 // in the file's list of token ids
)

// checkpoints is how many copies of what cannot be stepped back llama-server adds to a state, at most: two of
// the end of each computation, and one more where a shared prefix ended that was computed by itself.
const checkpoints = 5

// StateBytes is the size of a KV state: for each token, and beside that at most. The cache types are
// llama.cpp's names (f16, q8_0, …); 0, 0 if they or the architecture are not known.
func (h *Header) StateBytes(cacheK, cacheV string) (perToken, fixed int64) {
	c := h.cache
	if !c.known {
		return 0, 0
	}
	rows := func(layers []layerRows) (sum int64) {
		for _, l := range layers {
			k, okK := rowBytes(cacheK, l.keys)
			v, okV := rowBytes(cacheV, l.values)
			if !okK || !okV {
				return -1
			}
			sum += k + v
		}
		return sum
	}
	all, window := rows(c.tokens), rows(c.window)
	if all < 0 || window < 0 {
		return 0, 0
	}
	perToken, fixed = tokenBytes+all, fileBytes
	if len(c.tokens) > 0 {
		perToken += c.cellBytes
		fixed += partBytes + layerBytes*int64(len(c.tokens))
	}
	var kept int64 // of what cannot be stepped back
	if len(c.window) > 0 {
		kept += partBytes + layerBytes*int64(len(c.window)) + c.width*(window+c.cellBytes)
	}
	if c.states > 0 {
		kept += partBytes + c.states*(layerBytes+4*c.state)
	}
	return perToken, fixed + kept*(1+checkpoints)
}

// cache works out what is kept, as llama.cpp's n_embd_k_gqa, n_embd_v_gqa, n_embd_r and n_embd_s do.
func (k modelKeys) cache(layers int, w slidingWindow) cacheShape {
	c := cacheShape{known: true, cellBytes: 12, width: w.tokens}
	if sections, _ := k.get("rope.dimension_sections").([]int64); len(sections) > 1 && sections[0] > 0 && sections[1] > 0 {
		c.cellBytes = 24 // positions have several dimensions
	}
	embedding := k.within("embedding_length", 0, maxWidth)
	heads := k.perLayer("attention.head_count", layers, 0)
	kvHeads := k.perLayer("attention.head_count_kv", layers, heads[0])
	headWidth := int64(0)
	if heads[0] > 0 {
		headWidth = embedding / heads[0]
	}
	row := layerRows{k.within("attention.key_length", headWidth, maxWidth), k.within("attention.value_length", headWidth, maxWidth)}
	recurrent, attention, state, known := k.recurrentLayers(layers, embedding, kvHeads)
	if !known || k.strange() || w.tokens > 0 && w.layers == nil {
		return cacheShape{}
	}
	c.state = state
	for i, n := range kvHeads {
		if recurrent[i] {
			c.states++
		}
		if !attention[i] {
			continue
		}
		l := layerRows{n * row.keys, n * row.values}
		switch {
		case n <= 0 || n > maxHeads || l.keys == 0 || l.keys > maxWidth || l.values == 0 || l.values > maxWidth:
			return cacheShape{}
		case w.tokens > 0 && w.layers[i]:
			c.window = append(c.window, l)
		default:
			c.tokens = append(c.tokens, l)
		}
	}
	return c
}

// recurrentLayers says which layers keep a running state and which a cache, and how many numbers a state
// has. False if that is not known of the architecture.
func (k modelKeys) recurrentLayers(layers int, embedding int64, kvHeads []int64) (recurrent, attention []bool, state int64, known bool) {
	recurrent, attention = make([]bool, layers), make([]bool, layers)
	for i := range layers {
		attention[i] = true
	}
	if !k.recurrent() {
		return recurrent, attention, 0, true
	}
	switch k.arch {
	case "mamba", "mamba2", "jamba", "granitehybrid", "nemotron_h", "nemotron_h_moe", "falcon-h1":
		inner, size := k.within("ssm.inner_size", 0, maxWidth), k.within("ssm.state_size", 0, maxHeads)
		groups, kernel := k.within("ssm.group_count", 0, maxHeads), k.within("ssm.conv_kernel", 0, maxHeads)
		state = max(0, kernel-1)*(inner+2*groups*size) + size*inner
	case "lfm2", "lfm2moe":
		state = embedding * max(0, k.within("shortconv.l_cache", 0, maxHeads)-1)
	default:
		return nil, nil, 0, false
	}
	ff := k.perLayer("feed_forward_length", layers, 0)
	for i := range layers {
		switch k.arch {
		case "mamba", "mamba2":
			recurrent[i], attention[i] = true, false
		case "falcon-h1":
			recurrent[i] = true
		case "nemotron_h", "nemotron_h_moe": // some layers are a feed-forward network alone
			recurrent[i], attention[i] = kvHeads[i] == 0 && ff[i] == 0, kvHeads[i] > 0
		default:
			recurrent[i], attention[i] = kvHeads[i] == 0, kvHeads[i] > 0
		}
	}
	return recurrent, attention, state, state > 0
}
