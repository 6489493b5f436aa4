package ollamatest

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// A token is up to four bytes of text; a space begins a new one, as in real vocabularies. Its id is
// its bytes, so that ids can be turned back into text without a table.

func tokens(text string) []string {
	var list []string
	for text != "" {
		n := 1
		for n < min(4, len(text)) && text[n] != ' ' {
			n++
		}
		list = append(list, text[:n])
		text = text[n:]
	}
	return list
}

func ids(list []string) []int {
	out := make([]int, len(list))
	for i, token := range list {
		out[i] = 1 // keeps leading zero bytes
		for _, b := range []byte(token) {
			out[i] = out[i]<<8 | int(b)
		}
	}
	return out
}

func detokenize(list []int) string {
	var out []byte
	for _, id := range list {
		var token []byte
		for ; id > 1; id >>= 8 {
			token = append(token, byte(id))
		}
		slices.Reverse(token)
		out = append(out, token...)
	}
	return string(out)
}

// The text of an answer is made of syllables. Which one comes next follows from all text before it,
// and from the seed and the position if there is a temperature.
const (
	consonants = "bdfgklmnprstvz"
	vowels     = "aeiou"
)

// generate returns the tokens that follow the prompt, at most n, and whether the text ended by itself.
func generate(prompt string, n int, random *rand.Rand) (list []string, ended bool) {
	h := fnv.New64a()
	h.Write([]byte(prompt))
	for len(list) < n {
		pick := h.Sum64()
		if random != nil {
			pick ^= random.Uint64()
		}
		pick = rand.NewPCG(pick, 0).Uint64() // spreads the bits
		if len(list) >= 16 && pick%50 == 0 {
			return list, true
		}
		token := " " + string(consonants[pick%uint64(len(consonants))]) + string(vowels[(pick>>32)%uint64(len(vowels))])
		h.Write([]byte(token))
		list = append(list, token)
	}
	return list, false
}

// instance returns JSON that satisfies a schema, as far as it uses type, properties, items,
// minItems, enum, const and minimum; "json" gives an empty object.
func instance(format json.RawMessage) string {
	var schema map[string]any
	if json.Unmarshal(format, &schema) != nil {
		return "{}"
	}
	data, err := json.Marshal(example(schema))
	if err != nil {
		return "{}"
	}
	return string(data)
}

func example(schema map[string]any) any {
	if v, ok := schema["const"]; ok {
		return v
	}
	if list, _ := schema["enum"].([]any); len(list) > 0 {
		return list[len(list)-1]
	}
	switch schema["type"] {
	case "string":
		return "fake"
	case "integer", "number":
		if least, ok := schema["minimum"].(float64); ok {
			return least
		}
		return 1
	case "boolean":
		return true
	case "array":
		items, _ := schema["items"].(map[string]any)
		least, _ := schema["minItems"].(float64)
		list := []any{}
		for range int(least) {
			list = append(list, example(items))
		}
		return list
	case "object":
		out := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			property, _ := properties[name].(map[string]any)
			out[name] = example(property)
		}
		return out
	}
	return nil
}

// cutAtStop ends the pieces before the first stop word, wherever it lies, and reports whether there was one.
func cutAtStop(pieces, stops []string) ([]string, bool) {
	whole := strings.Join(pieces, "")
	at := -1
	for _, word := range stops {
		if i := strings.Index(whole, word); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at < 0 {
		return pieces, false
	}
	var kept []string
	for _, p := range pieces {
		p = p[:min(len(p), at)]
		at -= len(p)
		kept = append(kept, p)
		if at == 0 {
			break
		}
	}
	return kept, true
}
