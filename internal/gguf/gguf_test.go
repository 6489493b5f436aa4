package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tandem/internal/tinymodel"
)

// file is a header with these keys, in the order of their names.
func file(keys map[string]any) []byte {
	b := binary.LittleEndian.AppendUint32([]byte("GGUF"), 3)
	b = binary.LittleEndian.AppendUint64(b, 0) // tensors
	b = binary.LittleEndian.AppendUint64(b, uint64(len(keys)))
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		b = appendText(b, key)
		switch v := keys[key].(type) {
		case string:
			b = appendText(append(b, typeString, 0, 0, 0), v)
		case []string:
			b = binary.LittleEndian.AppendUint64(append(b, typeArray, 0, 0, 0, typeString, 0, 0, 0), uint64(len(v)))
			for _, s := range v {
				b = appendText(b, s)
			}
		case []bool:
			b = appendList(b, typeBool, len(v), v)
		case []int32:
			b = appendList(b, typeInt32, len(v), v)
		case []float32:
			b = appendList(b, typeFloat32, len(v), v)
		default:
			b = append(b, kindOf(v), 0, 0, 0)
			b, _ = binary.Append(b, binary.LittleEndian, v)
		}
	}
	return b
}

func kindOf(v any) byte {
	switch v.(type) {
	case uint8:
		return typeUint8
	case int8:
		return typeInt8
	case uint16:
		return typeUint16
	case int16:
		return typeInt16
	case uint32:
		return typeUint32
	case int32:
		return typeInt32
	case float32:
		return typeFloat32
	case bool:
		return typeBool
	case uint64:
		return typeUint64
	case int64:
		return typeInt64
	case float64:
		return typeFloat64
	}
	return 99
}

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

func appendList(b []byte, kind byte, n int, v any) []byte {
	b = binary.LittleEndian.AppendUint64(append(b, typeArray, 0, 0, 0, kind, 0, 0, 0), uint64(n))
	b, _ = binary.Append(b, binary.LittleEndian, v)
	return b
}

// model is the header of an architecture, with its own keys.
func model(arch string, keys map[string]any) []byte {
	all := map[string]any{"general.architecture": arch}
	for k, v := range keys {
		all[arch+"."+k] = v
	}
	return file(all)
}

// read is Read for bytes.
func read(r io.Reader) (*Header, error) {
	m, err := readMetadata(r)
	if err != nil {
		return nil, err
	}
	return newHeader(m)
}

// dims are the keys that say how large the rows of a cache are.
func dims(layers, heads, kvHeads, headWidth uint32, more map[string]any) map[string]any {
	keys := map[string]any{
		"block_count": layers, "embedding_length": uint32(2880), "attention.head_count": heads, "attention.head_count_kv": kvHeads,
		"attention.key_length": headWidth, "attention.value_length": headWidth, "attention.layer_norm_rms_epsilon": float32(1e-6),
	}
	maps.Copy(keys, more)
	return keys
}

// every sets the entries of a list that are n apart, from the first on.
func every(n, length int, first, value int32) []int32 {
	list := make([]int32, length)
	for i := int(first); i < length; i += n {
		list[i] = value
	}
	return list
}

func TestHeadersOfKnownModels(t *testing.T) {
	const window = 1 + checkpoints // states of a window in a file
	for _, tt := range []struct {
		name                      string
		file                      []byte
		kind                      Kind
		window                    int
		perToken, perTokenQ8      int64 // f16; without what a cell and a token id take
		fixedAtLeast, fixedAtMost int64 // f16
	}{
		{"Qwen3-Coder-30B", model("qwen3moe", dims(48, 32, 4, 128, nil)), Plain, 0, 98304, 52224, 0, 4 << 10},
		{"gpt-oss-120b", model("gpt-oss", dims(36, 64, 8, 64, map[string]any{"attention.sliding_window": uint32(128)})),
			Window, 128, 36864, 19584, window * 36864 * 128, window * 4_730_000},
		{"gemma-2-9b", model("gemma2", dims(42, 16, 8, 256, nil)), Window, 4096, 21 * 8192, 21 * 4352, window * 21 * 8192 * 4096, window * 21 * 8300 * 4096},
		{"gemma-3-4b", model("gemma3", dims(34, 8, 4, 256, map[string]any{"attention.sliding_window": uint32(1024)})),
			Window, 1024, 5 * 4096, 5 * 2176, window * 29 * 4096 * 1024, window * 29 * 4200 * 1024},
		{"its pattern is in the file", model("later", dims(4, 8, 4, 64, map[string]any{"attention.sliding_window": uint32(64), "attention.sliding_window_pattern": []bool{true, true, true, false}})),
			Window, 64, 1024, 544, window * 3 * 1024 * 64, window * 3 * 1200 * 64},
		{"its pattern is a number", model("olmo2", dims(6, 8, 4, 64, map[string]any{"attention.sliding_window": uint32(64), "attention.sliding_window_pattern": uint32(3)})),
			Window, 64, 2 * 1024, 2 * 544, window * 4 * 1024 * 64, window * 4 * 1200 * 64},
		{"the first layers are dense", model("smallthinker", dims(4, 8, 4, 64, map[string]any{"attention.sliding_window": uint32(1)})),
			Window, 4096, 1024, 544, window * 3 * 1024 * 4096, window * 3 * 1200 * 4096},
		{"pattern not known", model("later", dims(4, 8, 4, 64, map[string]any{"attention.sliding_window": uint32(64)})), Window, 64, 0, 0, 0, 0},
		{"a window that is not used", model("qwen2", dims(2, 8, 4, 64, map[string]any{"attention.sliding_window": uint32(64)})), Plain, 0, 2048, 1088, 0, 4 << 10},
		{"a window of nothing", model("gemma3", dims(2, 8, 4, 64, map[string]any{"attention.sliding_window": uint32(0)})), Plain, 0, 2048, 1088, 0, 4 << 10},
		{"a small exaone4", model("exaone4", dims(30, 8, 4, 64, map[string]any{"attention.sliding_window": uint32(64)})), Plain, 0, 30 * 1024, 30 * 544, 0, 4 << 10},
		{"llama4", model("llama4", dims(4, 8, 4, 64, nil)), Window, 8192, 1024, 544, window * 3 * 1024 * 8192, window * 3 * 1200 * 8192},
		{"heads by layer", model("openelm", map[string]any{"block_count": uint32(3), "embedding_length": uint32(512), "attention.head_count": []int32{8, 8, 8}, "attention.head_count_kv": []int32{1, 2, 4}}),
			Plain, 0, 7 * 256, 7 * 136, 0, 4 << 10},
		{"positions of several dimensions", model("qwen3vl", dims(1, 8, 4, 64, map[string]any{"rope.dimension_sections": []int32{24, 20, 20, 0}})), Plain, 0, 1024 + 12, 544 + 12, 0, 4 << 10},
		{"latent attention", model("deepseek2", dims(4, 8, 1, 576, map[string]any{"attention.kv_lora_rank": uint32(512)})), Plain, 0, 0, 0, 0, 0},
		{"prediction layers", model("glm4moe", dims(4, 8, 1, 64, map[string]any{"nextn_predict_layers": uint32(1)})), Plain, 0, 0, 0, 0, 0},
		{"no heads", model("llama", map[string]any{"block_count": uint32(3)}), Plain, 0, 0, 0, 0, 0},
		{"heads of a hostile size", model("llama", dims(4, math.MaxUint32, math.MaxUint32, math.MaxUint32, nil)), Plain, 0, 0, 0, 0, 0},
		{"lfm2-1.2b", model("lfm2", map[string]any{"block_count": uint32(16), "embedding_length": uint32(2048), "attention.head_count": uint32(32), "attention.head_count_kv": every(3, 16, 2, 8), "shortconv.l_cache": uint32(3)}),
			Recurrent, 0, 5 * 2048, 5 * 1088, window * 11 * 4096 * 4, window * 11 * 4300 * 4},
		{"mamba-130m", model("mamba", map[string]any{"block_count": uint32(24), "embedding_length": uint32(768), "attention.head_count": uint32(0), "ssm.conv_kernel": uint32(4), "ssm.inner_size": uint32(1536), "ssm.state_size": uint32(16)}),
			Recurrent, 0, -12, -12, window * 24 * (3*1536 + 16*1536) * 4, window * 24 * 30000 * 4},
		{"falcon-h1", model("falcon-h1", dims(2, 8, 2, 64, map[string]any{"ssm.conv_kernel": uint32(4), "ssm.inner_size": uint32(1536), "ssm.state_size": uint32(128), "ssm.group_count": uint32(1)})),
			Recurrent, 0, 1024, 544, window * 2 * 128 * 1536 * 4, window * 2 * 210000 * 4},
		{"nemotron-h", model("nemotron_h", map[string]any{"block_count": uint32(3), "embedding_length": uint32(512), "attention.head_count": uint32(8), "attention.head_count_kv": []int32{0, 0, 4}, "feed_forward_length": []int32{0, 2048, 0},
			"ssm.conv_kernel": uint32(4), "ssm.inner_size": uint32(1024), "ssm.state_size": uint32(128), "ssm.group_count": uint32(8)}),
			Recurrent, 0, 1024, 544, window * 128 * 1024 * 4, window * 150000 * 4},
		{"a recurrent one that came later", model("later", dims(2, 8, 2, 64, map[string]any{"ssm.inner_size": uint32(8)})), Recurrent, 0, 0, 0, 0, 0},
		{"rwkv", model("rwkv7", map[string]any{"block_count": uint32(2), "wkv.head_size": uint32(64)}), Recurrent, 0, 0, 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, err := read(bytes.NewReader(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			if h.Kind != tt.kind || h.WindowTokens != tt.window {
				t.Errorf("%s with a window of %d, want %s with %d", h.Kind, h.WindowTokens, tt.kind, tt.window)
			}
			for cache, want := range map[string]int64{"f16": tt.perToken, "q8_0": tt.perTokenQ8} {
				perToken, fixed := h.StateBytes(cache, cache)
				if want != 0 {
					want += 16
				}
				if perToken != want {
					t.Errorf("%s: %d bytes a token, want %d", cache, perToken, want)
				}
				if cache == "f16" && (fixed < tt.fixedAtLeast || fixed > tt.fixedAtMost) {
					t.Errorf("%d bytes beside the tokens, want %d to %d", fixed, tt.fixedAtLeast, tt.fixedAtMost)
				}
			}
			if tt.kind != Recurrent {
				if perToken, fixed := h.StateBytes("f16", "f64"); perToken != 0 || fixed != 0 {
					t.Errorf("with a type of cache that does not exist: %d, %d bytes", perToken, fixed)
				}
			}
		})
	}
}

func TestStateBytesOfEachCacheType(t *testing.T) {
	h, err := read(bytes.NewReader(model("llama", dims(1, 1, 1, 32, nil))))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range cacheTypes() {
		perToken, _ := h.StateBytes(i.name, "f16")
		if want := 32/i.block*i.bytes + 64 + 16; perToken != want {
			t.Errorf("%s keys: %d bytes a token, want %d", i.name, perToken, want)
		}
		if n, ok := i.number.Values(32 / i.block * i.bytes); n != 32 || !ok || i.number.String() != i.name {
			t.Errorf("%s has the number of %s, and a row of 32 has %d", i.name, i.number, n)
		}
	}
	if _, ok := Type(99).Values(64); ok || Type(99).String() != "type 99" {
		t.Errorf("a type that does not exist is %s", Type(99))
	}
}

func TestPositionsAreOneLine(t *testing.T) {
	keys := dims(2, 8, 4, 64, map[string]any{
		"attention.sliding_window": uint32(128), "rope.freq_base": float32(150000), "rope.scaling.type": "yarn",
		"rope.scaling.factor": float32(32), "rope.scaling.original_context_length": uint32(4096), "rope.dimension_sections": []int32{1, 2, 0, 0},
	})
	h, err := read(bytes.NewReader(model("gpt-oss", keys)))
	if err != nil {
		t.Fatal(err)
	}
	const want = "dimension_sections=[1 2 0 0] freq_base=150000 scaling.factor=32 scaling.original_context_length=4096 scaling.type=yarn window=128"
	if h.Positions != want {
		t.Errorf("positions %q, want %q", h.Positions, want)
	}
}

func TestEveryValueTypeIsRead(t *testing.T) {
	keys := map[string]any{
		"a.u8": uint8(200), "b.i8": int8(-3), "c.u16": uint16(60000), "d.i16": int16(-4), "e.u32": uint32(4e9), "f.i32": int32(-5),
		"g.f32": float32(0.5), "h.bool": true, "i.text": "abc", "j.u64": uint64(1 << 40), "k.i64": int64(-1 << 40), "l.f64": 0.25,
		"m.bools": []bool{true, false}, "n.ints": []int32{-1, 7}, "o.floats": []float32{1, 2}, "p.texts": []string{"x", ""},
		"q.long": strings.Repeat("x", maxTextBytes+1), "r.list": make([]int32, maxListLen+1), "z.last": uint32(1),
	}
	m, err := readMetadata(bytes.NewReader(file(keys)))
	if err != nil {
		t.Fatal(err)
	}
	want := metadata{
		"a.u8": int64(200), "b.i8": int64(-3), "c.u16": int64(60000), "d.i16": int64(-4), "e.u32": int64(4e9), "f.i32": int64(-5),
		"g.f32": 0.5, "h.bool": int64(1), "i.text": "abc", "j.u64": int64(1 << 40), "k.i64": int64(-1 << 40), "l.f64": 0.25,
		"m.bools": []int64{1, 0}, "n.ints": []int64{-1, 7}, "q.long": "", "z.last": int64(1),
	}
	if fmt.Sprint(m) != fmt.Sprint(want) {
		t.Errorf("read %v, want %v", m, want)
	}
}

func TestVocabulariesArePassedOver(t *testing.T) {
	words := make([]string, 200_000)
	for i := range words {
		words[i] = fmt.Sprintf("word number %d", i)
	}
	b := file(map[string]any{"general.architecture": "llama", "llama.block_count": uint32(2), "general.words": words})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := read(bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes were allocated for a header of %d", n, len(b))
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	good := model("llama", dims(2, 8, 4, 64, nil))
	for name, tt := range map[string]struct {
		file []byte
		want string
	}{
		"empty":                {nil, "no GGUF file"},
		"another file":         {[]byte("PK\x03\x04 something else"), "no GGUF file"},
		"version 1":            {append([]byte("GGUF\x01\x00\x00\x00"), good[8:]...), "GGUF version 1"},
		"big-endian":           {append([]byte("GGUF\x00\x00\x00\x03"), good[8:]...), "GGUF version 50331648"},
		"cut":                  {good[:len(good)-1], "ends too early"},
		"too many keys":        {append(bytes.Clone(good[:16]), 0xff, 0xff, 0xff, 0, 0, 0, 0, 0), "16777215 keys"},
		"no architecture":      {file(map[string]any{"llama.block_count": uint32(2)}), "names no architecture"},
		"a later part":         {file(map[string]any{"split.no": uint16(1), "split.count": uint16(3)}), "part 2 of a split model"},
		"no layers":            {model("llama", nil), "llama.block_count"},
		"too many layers":      {model("llama", map[string]any{"block_count": uint32(100000)}), "llama.block_count"},
		"a type of its own":    {file(map[string]any{"a": complex64(1)}), "value type 99"},
		"a key without end":    {file(map[string]any{strings.Repeat("k", maxKeyBytes+1): uint32(1)}), "longer than"},
		"a text without end":   {append(file(map[string]any{"a": "x"})[:24+9+4], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "ends too early or is too large"},
		"a list without end":   {append(file(map[string]any{"a": []int32{}})[:24+9+8], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "ends too early or is too large"},
		"a list of lists":      {append(file(map[string]any{"a": []int32{}})[:24+9+4], typeArray, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0), "a list of value type 9"},
		"texts without end":    {append(file(map[string]any{"a": []string{}})[:24+9+8], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "ends too early or is too large"},
		"a negative many more": {model("llama", map[string]any{"block_count": int32(-2)}), "llama.block_count"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := os.WriteFile(path, tt.file, 0o600); err != nil {
				t.Fatal(err)
			}
			h, err := Read(path)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%+v, error %v; want one that says %q", h, err, tt.want)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.gguf")); err == nil || !strings.Contains(err.Error(), "none.gguf") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestReadRealFiles(t *testing.T) {
	for shape, want := range map[tinymodel.Shape]Header{
		tinymodel.Llama:         {Kind: Plain, Positions: "dimension_count=32"},
		tinymodel.Qwen3MoE:      {Kind: Plain, Positions: "dimension_count=32 freq_base=1e+07"},
		tinymodel.GPTOSS:        {Kind: Window, WindowTokens: 128, Positions: "dimension_count=32 freq_base=150000 scaling.factor=32 scaling.original_context_length=4096 scaling.type=yarn window=128"},
		tinymodel.GraniteHybrid: {Kind: Recurrent, Positions: "dimension_count=32"},
	} {
		t.Run(string(shape), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := tinymodel.WriteFile(path, tinymodel.TinyShape(shape, tinymodel.BPE)); err != nil {
				t.Fatal(err)
			}
			h, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			if perToken, fixed := h.StateBytes("f16", "f16"); perToken == 0 || fixed == 0 {
				t.Errorf("state of %d bytes a token and %d beside", perToken, fixed)
			}
			want.Architecture, want.Layers, want.cache = string(shape), 2, h.cache
			if fmt.Sprint(*h) != fmt.Sprint(want) {
				t.Errorf("header %+v, want %+v", *h, want)
			}
		})
	}
}

// FuzzRead checks that no header breaks the reader, or makes it promise a size that cannot be.
func FuzzRead(f *testing.F) {
	f.Add(model("llama", dims(2, 8, 4, 64, nil)))
	f.Add(model("gpt-oss", dims(36, 64, 8, 64, map[string]any{"attention.sliding_window": uint32(128), "rope.scaling.type": "yarn"})))
	f.Add(model("gemma3", dims(6, 8, 4, 64, map[string]any{"attention.sliding_window": uint32(64), "attention.sliding_window_pattern": []bool{true, false}})))
	f.Add(model("granitehybrid", dims(2, 8, 0, 64, map[string]any{"attention.head_count_kv": []int32{0, 1}, "ssm.inner_size": uint32(128), "ssm.state_size": uint32(32), "ssm.conv_kernel": uint32(4)})))
	f.Add(file(map[string]any{"general.words": []string{"a", "b"}, "split.no": uint16(2)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := read(bytes.NewReader(b))
		if err != nil {
			return
		}
		if h.Layers < 1 || h.Layers > maxLayers || h.WindowTokens < 0 || h.WindowTokens > maxWindow || (h.Kind == Window) != (h.WindowTokens > 0) && h.Kind != Recurrent {
			t.Errorf("header %+v", h)
		}
		for _, cache := range []string{"f32", "q8_0", ""} {
			if perToken, fixed := h.StateBytes(cache, cache); perToken < 0 || fixed < 0 || (perToken == 0) != (fixed == 0) {
				t.Errorf("%s: %d bytes a token and %d beside", cache, perToken, fixed)
			}
		}
	})
}
