package paced

import (
	"strings"
	"testing"
)

func TestTokens(t *testing.T) {
	for _, text := range []string{"", "a", "four", "fives", "Never stop talking.", strings.Repeat("abc", 5001)} {
		list := tokens(text)
		if len(list) != (len(text)+3)/4 || detokenize(list) != text {
			t.Errorf("%.20q: %d tokens, back to %.20q", text, len(list), detokenize(list))
		}
	}
	for _, id := range tokens("Größe und Straße, ä ö ü ß € „so“") {
		if id < 0 {
			t.Errorf("token %d is negative", id)
		}
	}
	if a, b := tokens("shared part, own part"), tokens("shared part, other"); common(a, b) != len("shared part,")/4 {
		t.Errorf("%d tokens in common", common(a, b))
	}
}

func TestAnswerIsAsLongAsThePromptSays(t *testing.T) {
	for prompt, want := range map[string]int{
		"": 32, "Grade this. answer:437": 437, "answer:3 and then answer:512.": 512, "answer:": 32, "answer:many": 32, "answer:0": 32, "answer:12abc": 12,
	} {
		if got := natural(prompt, 32); got != want {
			t.Errorf("%q: %d tokens, want %d", prompt, got, want)
		}
	}
	prompt := tokens("a prompt")
	whole := compose(prompt, 40, 100, nil, 0)
	cut := compose(prompt, 40, 30, nil, 0)
	if whole.limit || whole.tokens != 40 || len(whole.text) != 160 || !cut.limit || cut.tokens != 30 || cut.text != whole.text[:120] {
		t.Errorf("whole %+v, cut %+v", whole, cut)
	}
	if same := compose(prompt, 40, 40, nil, 0); same != whole {
		t.Errorf("the same again: %+v", same)
	}
	if other := compose(tokens("b prompt"), 40, 40, nil, 0); other.text[:40] == whole.text[:40] {
		t.Error("another prompt has the same answer")
	}
	word := whole.text[9:15]
	stopped := compose(prompt, 40, 30, []string{"none", word, whole.text[30:35]}, 0)
	if stopped.text != whole.text[:9] || stopped.limit || stopped.tokens != 4 || stopped.after(2) != whole.text[:8] || stopped.after(4) != whole.text[:9] {
		t.Errorf("stopped at %q: %+v", word, stopped)
	}
	first := predict(prompt, 20)
	if len(first.Top) != 20 || first.ID != tokens(whole.text)[0] {
		t.Errorf("predicts %+v, and writes %q", first, whole.text[:4])
	}
}
