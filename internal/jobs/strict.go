package jobs

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds the nesting of any JSON read; schemas are the deepest thing there is.
const maxDepth = 64

// CheckJSON reports whether data is exactly one JSON value of valid UTF-8 without duplicate keys,
// lone surrogates or nesting deeper than 64, all of which encoding/json lets pass or repairs silently.
// Its errors have code [CodeInvalid] and name the path and the byte.
func CheckJSON(data []byte) error {
	if !utf8.Valid(data) {
		i := 0
		for i < len(data) {
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			i += n
		}
		return Errorf(CodeInvalid, "invalid UTF-8 at byte %d", i)
	}
	s := scanner{data: data}
	err := s.value("", 0)
	if err == nil {
		if s.space(); s.at < len(data) {
			err = s.fail("data after the end of the JSON value")
		}
	}
	return err
}

// scanner walks JSON text (RFC 8259) once, keeping no values but the keys of open objects.
type scanner struct {
	data []byte
	at   int
}

func (s *scanner) fail(format string, args ...any) error {
	return Errorf(CodeInvalid, "JSON at byte %d: %s", s.at, fmt.Sprintf(format, args...))
}

func (s *scanner) space() {
	for s.at < len(s.data) && (s.data[s.at] == ' ' || s.data[s.at] == '\t' || s.data[s.at] == '\n' || s.data[s.at] == '\r') {
		s.at++
	}
}

// next skips white space and returns the byte there, 0 at the end.
func (s *scanner) next() byte {
	s.space()
	if s.at == len(s.data) {
		return 0
	}
	return s.data[s.at]
}

func (s *scanner) value(path string, depth int) error {
	if depth > maxDepth {
		return s.fail("nested deeper than %d", maxDepth)
	}
	switch c := s.next(); c {
	case 0:
		return s.fail("ends too early")
	case '{':
		return s.object(path, depth)
	case '[':
		return s.array(path, depth)
	case '"':
		_, err := s.text()
		return err
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.number()
	}
}

func (s *scanner) object(path string, depth int) error {
	s.at++
	seen := map[string]bool{}
	if s.next() == '}' {
		s.at++
		return nil
	}
	for {
		if s.next() != '"' {
			return s.fail("want a key")
		}
		key, err := s.text()
		if err != nil {
			return err
		}
		inner := key
		if path != "" {
			inner = path + "." + key
		}
		if seen[key] {
			return s.fail("duplicate key %q", inner)
		}
		seen[key] = true
		if s.next() != ':' {
			return s.fail("want a colon after key %q", inner)
		}
		s.at++
		if err := s.value(inner, depth+1); err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.at++
		case '}':
			s.at++
			return nil
		default:
			return s.fail("want a comma or } after %q", inner)
		}
	}
}

func (s *scanner) array(path string, depth int) error {
	s.at++
	if s.next() == ']' {
		s.at++
		return nil
	}
	for {
		if err := s.value(path, depth+1); err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.at++
		case ']':
			s.at++
			return nil
		default:
			return s.fail("want a comma or ]")
		}
	}
}

// text reads a string and returns its raw content. Keys written with different escapes are told
// apart by it only if they have escapes at all, so those are unquoted.
func (s *scanner) text() (string, error) {
	s.at++
	start, escaped := s.at, false
	for s.at < len(s.data) {
		switch c := s.data[s.at]; {
		case c == '"':
			raw := string(s.data[start:s.at])
			s.at++
			if escaped {
				if plain, err := strconv.Unquote(`"` + raw + `"`); err == nil {
					return plain, nil
				}
			}
			return raw, nil
		case c < 0x20:
			return "", s.fail("control character in a string")
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return "", err
			}
		default:
			s.at++
		}
	}
	return "", s.fail("string does not end")
}

func (s *scanner) escape() error {
	if s.at+1 >= len(s.data) {
		return s.fail("string does not end")
	}
	switch s.data[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return nil
	case 'u':
		r, ok := s.hex(s.at + 2)
		if !ok {
			return s.fail("\\u needs four hexadecimal digits")
		}
		if r < 0xD800 || r > 0xDFFF {
			s.at += 6
			return nil
		}
		low, ok := s.hex(s.at + 8)
		if r > 0xDBFF || !ok || s.data[s.at+6] != '\\' || s.data[s.at+7] != 'u' || low < 0xDC00 || low > 0xDFFF {
			return s.fail("half a surrogate pair")
		}
		s.at += 12
		return nil
	}
	return s.fail("unknown escape")
}

func (s *scanner) hex(at int) (uint64, bool) {
	if at+4 > len(s.data) {
		return 0, false
	}
	for _, c := range s.data[at : at+4] {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return 0, false
		}
	}
	v, err := strconv.ParseUint(string(s.data[at:at+4]), 16, 32)
	return v, err == nil
}

func (s *scanner) word(w string) error {
	if s.at+len(w) > len(s.data) || string(s.data[s.at:s.at+len(w)]) != w {
		return s.fail("unexpected character")
	}
	s.at += len(w)
	return nil
}

func (s *scanner) number() error {
	digits := func() bool {
		start := s.at
		for s.at < len(s.data) && '0' <= s.data[s.at] && s.data[s.at] <= '9' {
			s.at++
		}
		return s.at > start
	}
	has := func(set string) bool {
		for i := range len(set) {
			if s.at < len(s.data) && s.data[s.at] == set[i] {
				s.at++
				return true
			}
		}
		return false
	}
	has("-")
	if !has("0") && !digits() {
		return s.fail("unexpected character")
	}
	if has(".") && !digits() {
		return s.fail("want digits after the point")
	}
	if has("eE") {
		has("+-")
		if !digits() {
			return s.fail("want digits in the exponent")
		}
	}
	return nil
}
