package sanitize

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Nothing that acts upon a terminal or reorders text is left, and what is harmless stays as it is.
func FuzzText(f *testing.F) {
	for _, s := range []string{"plain\n", "\x1b[31m", "\u009b31m", "\u202e\u2066", "\r\n\r", "\xff\x00", "\u2028\u2029", "🙂é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool {
			return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
		}) {
			t.Errorf("Text(%q) = %q", s, got)
		}
		if again := Text(got); again != got {
			t.Errorf("Text(%q) = %q, and of that it is %q", s, got, again)
		}
	})
}
