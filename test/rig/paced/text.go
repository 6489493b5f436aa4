package paced

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"
)

// A token is four bytes of text, and its id is these bytes, without the highest bit since ids are not negative. So a common beginning of
// two texts is one of their tokens, too, and ASCII text can be read back from them.
const tokenBytes = 4

// tokens cuts a text; the last one may be shorter.
func tokens(text string) []int32 {
	list := make([]int32, 0, (len(text)+tokenBytes-1)/tokenBytes)
	for len(text) >= tokenBytes {
		list = append(list, int32(uint32(text[0])|uint32(text[1])<<8|uint32(text[2])<<16|uint32(text[3]&0x7f)<<24))
		text = text[tokenBytes:]
	}
	if text != "" {
		var b [tokenBytes]byte
		copy(b[:], text)
		list = append(list, int32(binary.LittleEndian.Uint32(b[:])))
	}
	return list
}

// detokenize is the text of tokens.
func detokenize(list []int32) string {
	b := make([]byte, 0, tokenBytes*len(list))
	for _, t := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return string(bytes.ReplaceAll(b, []byte{0}, nil)) // what a shorter one was filled up with
}

// message is one of a conversation.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// render is the chat template.
func render(messages []message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString("<|im_start|>" + m.Role + "\n" + m.Content + "<|im_end|>\n")
	}
	b.WriteString("<|im_start|>assistant\n")
	return b.String()
}

// mix spreads a number's bits (the finaliser of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fold takes one more token into what stands for all before it.
func fold(h uint64, token int32) uint64 { return mix(h ^ uint64(uint32(token))) }

func foldAll(list []int32) uint64 {
	h := uint64(0)
	for _, t := range list {
		h = fold(h, t)
	}
	return h
}

// word is one of those that answers are made of: a token of a space and three letters.
func word(h uint64) string {
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	return string([]byte{' ', consonants[h%14], vowels[h/14%5], consonants[h/70%14]})
}

// answer is what follows a prompt.
type answer struct {
	tokens int    // that it takes
	whole  string // of these tokens
	text   string // of whole, before the first stop word
	limit  bool   // it was not at its end
}

// natural is how many tokens the answer would have by itself: the number after the last "answer:" of the prompt, or else fallback.
func natural(prompt string, fallback int) int {
	const mark = "answer:"
	at := strings.LastIndex(prompt, mark)
	if at < 0 {
		return fallback
	}
	number := prompt[at+len(mark):]
	if end := strings.IndexFunc(number, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		number = number[:end]
	}
	if n, err := strconv.Atoi(number); err == nil && n > 0 {
		return n
	}
	return fallback
}

// compose writes the answer: each word follows from all before it, and from the seed if there is a temperature.
func compose(prompt []int32, natural, limit int, stops []string, seed uint64) answer {
	a := answer{tokens: natural}
	if limit < natural {
		a.tokens, a.limit = max(0, limit), true
	}
	h := foldAll(prompt)
	var b strings.Builder
	for range a.tokens {
		w := word(mix(h ^ seed))
		b.WriteString(w)
		h = fold(h, tokens(w)[0])
	}
	a.whole = b.String()
	a.text = a.whole
	for _, stop := range stops {
		if i := strings.Index(a.whole, stop); i >= 0 && i < len(a.text) && stop != "" {
			a.text, a.tokens, a.limit = a.whole[:i], (i+len(stop)+tokenBytes-1)/tokenBytes, false
		}
	}
	return a
}

// after is what can be read once so many tokens are there.
func (a answer) after(tokens int) string { return a.text[:min(len(a.text), tokens*tokenBytes)] }

// probability is a token and how likely it is.
type probability struct {
	ID      int32         `json:"id"`
	LogProb float64       `json:"logprob"`
	Top     []probability `json:"top_logprobs,omitempty"`
}

// predict lists the likeliest tokens after a prompt, each half as likely as the one before it.
func predict(prompt []int32, n int) probability {
	const ln2 = 0.6931471805599453
	h := foldAll(prompt)
	var top []probability
	for i := range min(n, 64) {
		top = append(top, probability{ID: tokens(word(mix(h) + uint64(i)))[0], LogProb: -ln2 * float64(i+1)})
	}
	first := top[0]
	first.Top = top
	return first
}

// seedOf is what a request's sampling adds: nothing if it is greedy. Without a seed it is another one each time.
func seedOf(temperature *float64, seed *int64) uint64 {
	switch {
	case temperature != nil && *temperature <= 0:
		return 0
	case seed == nil || *seed < 0 || *seed == 1<<32-1:
		return rand.Uint64()
	}
	return mix(uint64(*seed))
}
