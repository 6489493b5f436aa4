package tinymodel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// userToken is llama.cpp's type of a token that is found in any text, and stands for itself.
const userToken = 4

// certainty is the logit of the token that comes next in what a model says, above all others by more than any temperature hides.
const certainty = 30

// words cuts what a model says into the tokens that it is made of: words with the space after them. None may be there twice, since the model knows
// what comes next by the last token alone.
func (s Spec) words() ([]string, error) {
	words := strings.SplitAfter(s.Says, " ")
	for i, w := range words {
		if slices.Contains(words[:i], w) {
			return nil, fmt.Errorf("model spec: Says has %q twice, want no word twice", w)
		}
	}
	return words, nil
}

// recite changes the weights so that the model says a text: its layers add nothing, so that a token's embedding reaches the output, which knows what comes
// after it: the text's beginning after a new line, with which prompts end, and the end of the answer after the text.
func (s Spec) recite(v *vocabulary, tensors []tensor) {
	first := len(v.tokens) - len(strings.SplitAfter(s.Says, " "))
	before := map[int]int{first: int(v.id(byteSpelling('\n'))), int(v.id("<|endoftext|>")): len(v.tokens) - 1}
	for id := first + 1; id < len(v.tokens); id++ {
		before[id] = id - 1
	}
	embeddings := make([][]float32, len(v.tokens))
	for i := range tensors {
		switch t := &tensors[i]; {
		case t.name == "token_embd.weight":
			t.kind = F32
			r := newRand(s.Seed, t.name)
			for id := range embeddings {
				embeddings[id] = make([]float32, s.Width)
				embedding(r, id, embeddings[id])
			}
		case t.name == "output.weight":
			t.fill = func(_ *rand.PCG, id int, row []float32) {
				clear(row)
				last, there := before[id]
				if !there {
					row[0] = forbidden
					return
				}
				for i, e := range embeddings[last] {
					row[i] = e * certainty / float32(s.Width)
				}
				row[0] = 0
			}
		case strings.HasSuffix(t.name, "attn_output.weight"), strings.HasSuffix(t.name, "ffn_down.weight"):
			t.fill = func(_ *rand.PCG, _ int, row []float32) { clear(row) }
		}
	}
}
