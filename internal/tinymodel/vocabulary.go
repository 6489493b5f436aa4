package tinymodel

import (
	"fmt"
	"slices"
	"strings"
)

// vocabulary is the tokens of a model, by id.
type vocabulary struct {
	tokens []token
	merges []merge
}

// token is one entry: how the header spells it, the bytes it stands for (none for a control token), its llama.cpp type.
type token struct {
	spelling, bytes string
	kind            int32
	score           float32
}

// llama.cpp's token types.
const (
	normalToken  = 1
	unknownToken = 2
	controlToken = 3
	byteToken    = 6
)

// chatTemplate is ChatML, the form that both engines also give prompts when a model brings no template.
const chatTemplate = `{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// toolsTemplate is chatTemplate with tools, in the form of Qwen's models.
const toolsTemplate = `{% if tools %}<|im_start|>system
# Tools
You may call functions:
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools>
For each call, return an object within tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}
{% if message.content %}{{ message.content }}{% endif %}{% for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// learnVocabulary makes the vocabulary of a tokenizer from the corpus. Both kinds know the same pieces.
func learnVocabulary(t Tokenizer) vocabulary {
	v := vocabulary{merges: learnMerges(corpus, mergeCount)}
	control := func(spellings ...string) {
		for _, s := range spellings {
			v.tokens = append(v.tokens, token{spelling: s, kind: controlToken})
		}
	}
	if t == SentencePiece {
		v.tokens = append(v.tokens, token{spelling: "<unk>", kind: unknownToken})
		control("<s>", "</s>", "<|im_start|>", "<|im_end|>")
	} else {
		control("<|endoftext|>", "<|im_start|>", "<|im_end|>")
	}
	for b := range 256 {
		tok := token{spelling: byteSpelling(byte(b)), bytes: string([]byte{byte(b)}), kind: normalToken}
		if t == SentencePiece {
			tok.spelling, tok.kind = fmt.Sprintf("<0x%02X>", b), byteToken
		}
		v.tokens = append(v.tokens, tok)
	}
	known := make(map[string]bool)
	add := func(piece string, score int) {
		if known[piece] {
			return // two merges may lead to the same piece; the first is the better one
		}
		known[piece] = true
		v.tokens = append(v.tokens, token{spelling: spelling(t, piece), bytes: piece, kind: normalToken, score: float32(score)})
	}
	if t == SentencePiece {
		for c := ' '; c <= '~'; c++ {
			add(string(c), -mergeCount-int(c))
		}
	}
	for rank, m := range v.merges {
		add(m.left+m.right, -rank)
	}
	return v
}

// spelling is how the header writes a piece of ASCII text: each tokenizer has its own sign for a space.
func spelling(t Tokenizer, piece string) string {
	if t == SentencePiece {
		return strings.ReplaceAll(piece, " ", "▁")
	}
	var s strings.Builder
	for _, b := range []byte(piece) {
		s.WriteString(byteSpelling(b))
	}
	return s.String()
}

// byteSpelling is GPT-2's table of a visible character for every byte: a byte that is visible in Latin-1 stands for
// itself, the others take the code points from 256 on, in order.
func byteSpelling(b byte) string {
	visible := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE }
	if visible(int(b)) {
		return string(rune(b))
	}
	r := rune(256)
	for i := range int(b) {
		if !visible(i) {
			r++
		}
	}
	return string(r)
}

// printable says whether a model may emit the token: text of printable ASCII only, no control tokens.
func (t token) printable() bool {
	return t.bytes != "" && t.kind == normalToken && !strings.ContainsFunc(t.bytes, func(r rune) bool { return r < ' ' || r > '~' })
}

func (v vocabulary) id(spelling string) uint32 {
	return uint32(slices.IndexFunc(v.tokens, func(t token) bool { return t.spelling == spelling }))
}

// metadata is the tokenizer's part of the header.
func (v vocabulary) metadata(t Tokenizer, template string) []field {
	var spellings, merges []string
	var kinds []int32
	var scores []float32
	for _, tok := range v.tokens {
		spellings, kinds, scores = append(spellings, tok.spelling), append(kinds, tok.kind), append(scores, tok.score)
	}
	common := []field{
		{"tokenizer.ggml.tokens", spellings},
		{"tokenizer.ggml.token_type", kinds},
		{"tokenizer.chat_template", template},
	}
	if t == SentencePiece {
		return append(common,
			field{"tokenizer.ggml.model", "llama"},
			field{"tokenizer.ggml.scores", scores},
			field{"tokenizer.ggml.unknown_token_id", v.id("<unk>")},
			field{"tokenizer.ggml.bos_token_id", v.id("<s>")},
			field{"tokenizer.ggml.eos_token_id", v.id("</s>")},
			field{"tokenizer.ggml.add_bos_token", true},
		)
	}
	for _, m := range v.merges {
		merges = append(merges, spelling(t, m.left)+" "+spelling(t, m.right))
	}
	return append(common,
		field{"tokenizer.ggml.model", "gpt2"},
		field{"tokenizer.ggml.pre", "gpt-2"},
		field{"tokenizer.ggml.merges", merges},
		field{"tokenizer.ggml.bos_token_id", v.id("<|endoftext|>")},
		field{"tokenizer.ggml.eos_token_id", v.id("<|endoftext|>")},
		field{"tokenizer.ggml.add_bos_token", false},
	)
}
