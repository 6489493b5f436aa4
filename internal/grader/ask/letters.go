package ask

import (
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// letterKind is what a character is to names.
type letterKind uint8

const (
	between letterKind = iota // no letter
	lower
	upper
	digit
	uncased  // a letter of a script without capitals
	syllable // one that is a word by itself: Chinese, Japanese, Korean
	nothing  // shows nothing, or a mark on the letter before
)

// letters reads a text letter by letter. Case, marks and ligatures are taken off: é is e, ß is ss, æ is ae, İ is i.
type letters struct {
	text   string
	from   int    // first byte of the character
	to     int    // first byte behind it
	folded string // of a letter
	kind   letterKind
	before letterKind // of the character before
	starts bool       // a word may begin here: behind what is no letter, and in camelCase, and where digits begin or end
	escape int        // 1 behind a backslash, 2 behind one and n, t or r
}

// next goes to the next character that shows something, and reports whether there is one.
func (l *letters) next() bool {
	l.before = l.kind
	for {
		l.from = l.to
		if l.from == len(l.text) {
			return false
		}
		var size int
		l.folded, l.kind, size = fold(l.text[l.from:])
		l.to += size
		if l.kind != nothing {
			break
		}
	}
	switch {
	case l.kind == between:
		l.starts = false
	case l.before == between || l.kind == syllable || l.before == syllable:
		l.starts = true
	case l.before == lower && l.kind == upper, (l.before == digit) != (l.kind == digit), (l.before == uncased) != (l.kind == uncased):
		l.starts = true
	case l.before == upper && l.kind == upper: // HTMLPage is two words
		_, behind, _ := fold(l.text[l.to:])
		l.starts = behind == lower
	default:
		l.starts = l.escape == 2 // \nJane, as Python writes a text
	}
	switch {
	case l.folded == `\`:
		l.escape = 1
	case l.escape == 1 && (l.folded == "n" || l.folded == "t" || l.folded == "r"):
		l.escape = 2
	default:
		l.escape = 0
	}
	return true
}

const lowerCase = "abcdefghijklmnopqrstuvwxyz"

// fold reads the first character of a text: how it is compared, what it is, and its bytes. \u00fc, as JSON has it, is a character.
func fold(s string) (string, letterKind, int) {
	if s == "" {
		return "", between, 0
	}
	switch c := s[0]; {
	case c >= 'a' && c <= 'z':
		return s[:1], lower, 1
	case c >= 'A' && c <= 'Z':
		return lowerCase[c-'A' : c-'A'+1], upper, 1
	case c >= '0' && c <= '9':
		return s[:1], digit, 1
	case c == '\\' && len(s) >= 6 && s[1] == 'u':
		if n, err := strconv.ParseUint(s[2:6], 16, 16); err == nil && n > unicode.MaxASCII {
			folded, kind := foldRune(rune(n))
			return folded, kind, 6
		}
		return s[:1], between, 1
	case c < utf8.RuneSelf:
		return s[:1], between, 1
	}
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r >= 0x1100 && r <= 0x1112: // a Korean syllable in parts, as file systems write it
		for range 2 {
			if part, n := utf8.DecodeRuneInString(s[size:]); part >= 0x1160 && part <= 0x11FF {
				size += n
			}
		}
		return norm.NFC.String(s[:size]), syllable, size
	case r < tableEnd:
		f := foldTable()[r]
		return f.folded, f.kind, size
	case unicode.In(r, unicode.Han, unicode.Hangul):
		return s[:size], syllable, size
	}
	folded, kind := foldRune(r)
	return folded, kind, size
}

// tableEnd is where the letters end of alphabets that are in use: what follows is Chinese, Japanese, Korean and pictures.
const tableEnd = 0x3000

// foldTable has what foldRune says, which is slow.
var foldTable = sync.OnceValue(func() *[tableEnd]foldedRune {
	table := new([tableEnd]foldedRune)
	for r := range rune(tableEnd) {
		table[r].folded, table[r].kind = foldRune(r)
	}
	return table
})

type foldedRune struct {
	folded string
	kind   letterKind
}

// folds are letters that Unicode does not take apart.
var folds = strings.NewReplacer("ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "đ", "d", "ð", "d", "ħ", "h", "ı", "i", "ł", "l", "þ", "th", "ς", "σ")

func foldRune(r rune) (string, letterKind) {
	switch {
	case hidden(r), unicode.Is(unicode.Mn, r) && unicode.Is(unicode.Inherited, r):
		return "", nothing
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
		return string(r), syllable
	case !unicode.In(r, unicode.L, unicode.M, unicode.N):
		return string(r), between
	}
	parts := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) && unicode.Is(unicode.Inherited, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFKD.String(string(r)))
	folded := folds.Replace(parts)
	switch {
	case unicode.IsDigit(r):
		return folded, digit
	case unicode.IsUpper(r) || unicode.IsTitle(r):
		return folded, upper
	case unicode.IsLower(r):
		return folded, lower
	}
	return folded, uncased
}
