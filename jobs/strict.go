package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the nesting of objects and arrays in any JSON read; schemas are the deepest thing there is.
const maxDepth = 64

// CheckJSON reports whether data is exactly one JSON value of valid UTF-8 without duplicate keys,
// lone surrogates or nesting deeper than 64, all of which encoding/json lets pass or repairs silently.
// Its errors have code [CodeInvalid] and name the path and the byte.
func CheckJSON(data []byte) error {
	_, err := scan(data, maxDepth)
	return err
}

// scan is CheckJSON with any limit of nesting. If data is an object it returns the object's members,
// as slices of data.
func scan(data []byte, depth int) (map[string]json.RawMessage, error) {
	if !utf8.Valid(data) {
		return nil, Errorf(CodeInvalid, "invalid UTF-8 at byte %d", firstInvalid(data))
	}
	s := scanner{data: data, depth: depth}
	members, err := s.value()
	if err == nil {
		if s.space(); s.at < len(data) {
			err = s.fail("data after the end of the JSON value")
		}
	}
	return members, err
}

func firstInvalid(data []byte) int {
	for i := 0; ; {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n < 2 {
			return i
		}
		i += n
	}
}

// scanner walks JSON text (RFC 8259) once.
type scanner struct {
	data  []byte
	at    int
	depth int      // how many more objects and arrays may be opened
	path  []string // keys of the open objects
}

func (s *scanner) fail(format string, args ...any) error {
	return Errorf(CodeInvalid, "JSON at byte %d: %s", s.at, fmt.Sprintf(format, args...))
}

// name is the path of key in the innermost object, cut short for a message.
func (s *scanner) name(key string) string {
	return fmt.Sprintf("%.80q", strings.Join(append(slices.Clip(s.path), key), "."))
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

// value reads one value; of an object it returns the members.
func (s *scanner) value() (members map[string]json.RawMessage, err error) {
	switch s.next() {
	case 0:
		return nil, s.fail("ends too early")
	case '{', '[':
		if s.depth == 0 {
			return nil, s.fail("nested too deep")
		}
		s.depth--
		if s.data[s.at] == '{' {
			members, err = s.object()
		} else {
			err = s.array()
		}
		s.depth++
		return members, err
	case '"':
		_, err = s.text()
	case 't':
		err = s.word("true")
	case 'f':
		err = s.word("false")
	case 'n':
		err = s.word("null")
	default:
		err = s.number()
	}
	return nil, err
}

func (s *scanner) object() (map[string]json.RawMessage, error) {
	s.at++
	members := map[string]json.RawMessage{}
	if s.next() == '}' {
		s.at++
		return members, nil
	}
	for {
		if s.next() != '"' {
			return nil, s.fail("want a key")
		}
		key, err := s.key()
		if err != nil {
			return nil, err
		}
		if _, twice := members[key]; twice {
			return nil, s.fail("duplicate key %s", s.name(key))
		}
		if s.next() != ':' {
			return nil, s.fail("want a colon after key %s", s.name(key))
		}
		s.at++
		s.next()
		start := s.at
		s.path = append(s.path, key)
		if _, err := s.value(); err != nil {
			return nil, err
		}
		s.path = s.path[:len(s.path)-1]
		members[key] = s.data[start:s.at:s.at]
		switch s.next() {
		case ',':
			s.at++
		case '}':
			s.at++
			return members, nil
		default:
			return nil, s.fail("want a comma or } after %s", s.name(key))
		}
	}
}

func (s *scanner) array() error {
	s.at++
	if s.next() == ']' {
		s.at++
		return nil
	}
	for {
		if _, err := s.value(); err != nil {
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

// key reads a string and returns what it means, so that a key is found however it is escaped.
func (s *scanner) key() (string, error) {
	start := s.at
	escaped, err := s.text()
	if err != nil || !escaped {
		return string(s.data[start+1 : max(start+1, s.at-1)]), err
	}
	var key string
	err = json.Unmarshal(s.data[start:s.at], &key)
	return key, err
}

// text reads a string and reports whether it has escapes.
func (s *scanner) text() (escaped bool, err error) {
	s.at++
	for s.at < len(s.data) {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return escaped, nil
		case c < 0x20:
			return false, s.fail("control character in a string")
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return false, err
			}
		default:
			s.at++
		}
	}
	return false, s.fail("string does not end")
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

// hex reads four hexadecimal digits.
func (s *scanner) hex(at int) (rune, bool) {
	if at+4 > len(s.data) {
		return 0, false
	}
	v, err := strconv.ParseUint(string(s.data[at:at+4]), 16, 16)
	return rune(v), err == nil
}

func (s *scanner) word(w string) error {
	if !strings.HasPrefix(string(s.data[s.at:min(s.at+len(w), len(s.data))]), w) {
		return s.fail("unexpected character")
	}
	s.at += len(w)
	return nil
}

func (s *scanner) number() error {
	s.skip("-")
	if !s.skip("0") && !s.digits() {
		return s.fail("unexpected character")
	}
	if s.skip(".") && !s.digits() {
		return s.fail("want digits after the point")
	}
	if s.skip("eE") {
		s.skip("+-")
		if !s.digits() {
			return s.fail("want digits in the exponent")
		}
	}
	return nil
}

// skip steps over one byte of the set and reports whether there was one.
func (s *scanner) skip(set string) bool {
	if s.at == len(s.data) || strings.IndexByte(set, s.data[s.at]) < 0 {
		return false
	}
	s.at++
	return true
}

// digits steps over digits and reports whether there were any.
func (s *scanner) digits() bool {
	start := s.at
	for s.skip("0123456789") {
	}
	return s.at > start
}
