package notebook

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	tests := []struct{ name, text, terminal, elsewhere string }{
		{"line ends", "a\r\nb\rc\r\r\n", "a\nc\n", "a\nb\nc\n\n"},
		{"a bar", "10%\r50%\r100%\ndone", "100%\ndone", "10%\n50%\n100%\ndone"},
		{"a bar that ends at its line's begin", "50%\r100%\r", "100%", "50%\n100%\n"},
		{"backspaces", "ab\b\bc\bä\b\b\b\nd\be", "\ne", "abcä\nde"},
		{"colours", "\x1b[1;31mred\x1b[0m \u009b32mgreen", "red green", "red green"},
		{"a title and a link", "\x1b]0;title\aa\x1b]8;;http://x\x1b\\b", "ab", "ab"},
		{"a title without end", "\x1b]0;title\nb", "0;title\nb", "0;title\nb"},
		{"a character set", "\x1b(Ba\x1b", "a", "a"},
		{"an escape before a letter with an accent", "\x1bä", "ä", "ä"},
		{"control characters", "a\x00b\x07\tc\fd\u0085e\x7f", "ab\tc de", "ab\tc de"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := string(clean([]byte(test.text), true)); got != test.terminal {
				t.Errorf("on a terminal: %q; want %q", got, test.terminal)
			}
			if got := string(clean([]byte(test.text), false)); got != test.elsewhere {
				t.Errorf("elsewhere: %q; want %q", got, test.elsewhere)
			}
		})
	}
}

// What our own reader of strings makes of JSON is what encoding/json makes of it.
func FuzzString(f *testing.F) {
	for _, seed := range []string{`"a\"\\\/\b\f\n\r\t\u00e4"`, `"\ud83d\ude00\ud800\udc00"`, `"\ud800"`, `"\udc00\ud800\u0041"`, `"\ud800\ud83d\ude00"`, `"\\\\\""`, `""`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, quoted string) {
		var want string
		if !utf8.ValidString(quoted) || json.Unmarshal([]byte(quoted), &want) != nil || quoted != strings.TrimSpace(quoted) || quoted == "null" {
			return
		}
		if got := value(quoted).text(); got != want {
			t.Errorf("%s is read as %q; want %q", quoted, got, want)
		}
	})
}
