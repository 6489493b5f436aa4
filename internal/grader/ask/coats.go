package ask

import (
	"encoding/base64"
	"encoding/hex"
	"html"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// mostDecoded is how many pieces of a text are decoded.
const mostDecoded = 20

var (
	coded64  = regexp.MustCompile(`[A-Za-z0-9+/_-]{24,}={0,2}`)
	codedHex = regexp.MustCompile(`(?i)(?:\\x|%|0x)?(?:[0-9a-f]{2}(?:\\x|%|[ :])?){12,}`)
)

// coats are other readings of a text, where it has them: full width and mathematical letters and entities as plain ones, letters of another script that look like Latin ones among
// those, every letter moved by thirteen, and what base64 and hex say.
func coats(text string) (list []string) {
	plain := text
	if strings.Contains(text, "&") {
		plain = visible(html.UnescapeString(plain))
	}
	plain = latin(norm.NFKC.String(plain))
	if plain != text {
		list = append(list, plain)
	}
	if turned := rot13(plain); turnedWords.MatchString(plain) {
		list = append(list, turned)
	}
	n := 0
	for _, decode := range []struct {
		in   *regexp.Regexp
		text func(string) ([]byte, error)
	}{{coded64, from64}, {codedHex, fromHex}} {
		for _, piece := range decode.in.FindAllString(text, mostDecoded) {
			if data, err := decode.text(piece); err == nil && reads(data) && n < mostDecoded {
				list = append(list, visible(string(data)))
				n++
			}
		}
	}
	return list
}

// turnedWords are ignore, instruction, points, marks, grader and score, turned.
var turnedWords = regexp.MustCompile(`(?i)\b(?:vtaber|vafgehpgvba|cbvagf|znexf|tenqre|fpber|ehoevp)`)

func rot13(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'a' + (r-'a'+13)%26
		case r >= 'A' && r <= 'Z':
			return 'A' + (r-'A'+13)%26
		}
		return r
	}, s)
}

func from64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "=")
	if len(s)%4 == 1 { // what no encoding ends with
		s = s[:len(s)-1]
	}
	return base64.RawStdEncoding.DecodeString(s)
}

func fromHex(s string) ([]byte, error) {
	s = strings.NewReplacer(`\x`, "", "0x", "", "%", "", " ", "", ":", "").Replace(s)
	return hex.DecodeString(s[:len(s)&^1])
}

// reads reports whether bytes are words: valid text of letters and blanks, but for a few signs.
func reads(data []byte) bool {
	if !utf8.Valid(data) || !strings.ContainsRune(string(data), ' ') {
		return false
	}
	other, all := 0, 0
	for _, r := range string(data) {
		all++
		if !unicode.IsLetter(r) && !unicode.IsMark(r) && r != ' ' {
			other++
		}
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return false
		}
	}
	return other*4 <= all
}

// lookalikes are Cyrillic and Greek letters that look like Latin ones.
var lookalikes = map[rune]rune{
	'а': 'a', 'с': 'c', 'ԁ': 'd', 'е': 'e', 'һ': 'h', 'і': 'i', 'ј': 'j', 'ӏ': 'l', 'о': 'o', 'р': 'p', 'ԛ': 'q', 'ѕ': 's', 'у': 'y', 'х': 'x', 'ѵ': 'v', 'ԝ': 'w',
	'А': 'A', 'В': 'B', 'С': 'C', 'Е': 'E', 'Н': 'H', 'І': 'I', 'Ј': 'J', 'К': 'K', 'М': 'M', 'О': 'O', 'Р': 'P', 'Ѕ': 'S', 'Т': 'T', 'Х': 'X', 'У': 'Y',
	'α': 'a', 'ε': 'e', 'ι': 'i', 'κ': 'k', 'ν': 'v', 'ο': 'o', 'ρ': 'p', 'τ': 't', 'υ': 'u', 'χ': 'x', 'Α': 'A', 'Β': 'B', 'Ε': 'E', 'Ζ': 'Z', 'Η': 'H', 'Ι': 'I',
	'Κ': 'K', 'Μ': 'M', 'Ν': 'N', 'Ο': 'O', 'Ρ': 'P', 'Τ': 'T', 'Υ': 'Y', 'Χ': 'X',
}

// latin writes words that have Latin letters and lookalikes of them with Latin ones alone.
func latin(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return lookalikes[r] != 0 }) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		end := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
		if end < 0 {
			end = len(s)
		}
		word := s[:end]
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.Is(unicode.Latin, r) }) {
			word = strings.Map(func(r rune) rune {
				if like := lookalikes[r]; like != 0 {
					return like
				}
				return r
			}, word)
		}
		b.WriteString(word)
		_, size := utf8.DecodeRuneInString(s[end:])
		b.WriteString(s[end : end+size])
		s = s[end+size:]
	}
	return b.String()
}
