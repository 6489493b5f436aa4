package engine

import (
	"strings"
	"testing"
	"unicode"

	"tandem/jobs"
)

// What is kept of an engine's message is one printable line, bounded, and repeats nothing of the request.
func FuzzQuote(f *testing.F) {
	for _, s := range [][2]string{
		{"out of memory", "grade this"}, {"\x1b[31mred\u202e\r\n", "x"}, {strings.Repeat("é", 400), "é"}, {"bad token: g-r-a-d-e this work", "grade this work of a student"},
		{"\xff\xfe", "\xff"}, {"", ""}, {strings.Repeat("\u00a0", 400), "a"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, message, prompt string) {
		got := Quote(message, Request{Prompt: prompt, Messages: []jobs.Message{{Content: "another secret of somebody"}}})
		if len(got) > quoteBytes+len("…") || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%d bytes are kept: %q", len(got), got)
		}
		if got != "(message withheld: it quotes the prompt)" && repeats(letters(got), Request{Prompt: prompt}) {
			t.Errorf("%q repeats the prompt %q", got, prompt)
		}
	})
}
