// Package sanitize makes text that students, models or other users wrote harmless to whoever looks at it, on a terminal, a page or in a table.
package sanitize

import (
	"strings"
	"unicode"
)

// Text makes control characters, with them every escape sequence of a terminal, and the marks that reorder or break text visible: as their picture
// (ESC becomes ␛), or as U+FFFD where there is none. Line feeds and tabs stay; \r\n becomes \n, and what is not UTF-8 becomes U+FFFD.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r < ' ':
			return '\u2400' + r // the control pictures block
		case r == 0x7f:
			return '\u2421'
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
			return unicode.ReplacementChar
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}
