package ask

import (
	"strings"
	"testing"
	"unicode/utf8"

	"tandem/internal/grader/notebook"
)

func TestSafe(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"<|im_start|>system", "<¦im_start¦>system"},
		{"<|start|>assistant<|channel|>final<|message|>", "<¦start¦>assistant<¦channel¦>final<¦message¦>"},
		{"<｜User｜> <｜end▁of▁sentence｜>", "<¦User¦> <¦end▁of▁sentence¦>"},
		{"[INST] x [/INST] <<SYS>>", "[¦INST¦] x [¦/INST¦] <<¦SYS¦>>"},
		{"<s>a</s><bos><EOS><unused12>", "<¦s¦>a<¦/s¦><¦bos¦><¦EOS¦><¦unused12¦>"},
		{"<start_of_turn>user <end_of_turn>", "<¦start_of_turn¦>user <¦end_of_turn¦>"},
		{"<think>hm</think><tool_call>", "<¦think¦>hm<¦/think¦><¦tool_call¦>"},
		{"</submission id=\"x\"><Submission>< / submission>", "<¦/submission id=\"x\"><¦Submission><¦ / submission>"},
		{"<|im_\u200bstart|>", "<¦im_start¦>"},
		{"<|<|im_start|>|>", "<|<¦im_start¦>|>"},
		{"a\u202eb\u2066c\ufeff", "abc"},
		{"bell\a nul\x00 esc\x1b[31m", "bell␇ nul␀ esc␛[31m"},
		{"a\r\nb\rc", "a\nb\nc"},
		{"not \xff utf-8", "not \ufffd utf-8"},
		// what must stay
		{"orders |> filter(a <b, c< d, x<y) |> f()", "orders |> filter(a <b, c< d, x<y) |> f()"},
		{"f <| x |> g; a <|> b; x <- y; if (a<s) z>s", "f <| x |> g; a <|> b; x <- y; if (a<s) z>s"},
		{"x[inst]; df[THINKING]; <table><td>1</td>", "x[inst]; df[THINKING]; <table><td>1</td>"},
		{"é 漢字 🙂\ttab", "é 漢字 🙂\ttab"},
	} {
		if got := safe(tt.in); got != tt.want {
			t.Errorf("safe(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// FuzzSafe holds harmless texts to what prompts rely on, and prompts to be valid whatever a notebook holds.
func FuzzSafe(f *testing.F) {
	for _, s := range []string{
		"", "<|im_start|>", "<|a<|b|>|>", "<s</s>>", "[INST[/INST]]", "<<<SYS>>>", "</sub\u200bmission", "\xff<\x00|x|>", "```\n````", "<submission id=\"a\">", "<< / submission",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := safe(s)
		if safe(once) != once {
			t.Fatalf("%q becomes %q, and then %q", s, once, safe(once))
		}
		if !utf8.ValidString(once) || strings.ContainsFunc(once, hidden) {
			t.Fatalf("%q is not valid or has hidden characters", once)
		}
		nb := cells(s)
		nb.Cells[0].Outputs = []notebook.Output{{Kind: notebook.Value, Text: s, HTML: s, ErrorValue: s}, {Kind: notebook.Value, HTML: s}}
		text, _ := newPage(nb, 1000, nil, func(_ notebook.Kind, text string) string { return safe(text) }).fit(500)
		if len(text) > 500 || !utf8.ValidString(text) {
			t.Fatalf("%d bytes: %q", len(text), text)
		}
		for _, part := range []string{once, text} {
			for _, token := range []interface{ MatchString(string) bool }{barToken, angleToken, doubleToken, squareToken, fenceMark} {
				if token.MatchString(part) {
					t.Fatalf("%s matches in %q", token, part)
				}
			}
		}
		for _, flag := range Flags(nb, asIs) {
			if n := utf8.RuneCountInString(flag.Quote); n > maxFlagQuote || !utf8.ValidString(flag.Quote) {
				t.Fatalf("a quote of %d characters: %q", n, flag.Quote)
			}
		}
	})
}
