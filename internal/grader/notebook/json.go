package notebook

import (
	"bytes"
	"iter"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A value is the text of one JSON value within a larger text that encoding/json has found valid. Values share the memory of the file, so that
// a picture of many megabytes is stepped over and never copied, which encoding/json by itself does not do.
type value []byte

// kind is the first byte: { [ " t f n, a digit or a minus; 0 if there is no value.
func (v value) kind() byte {
	if len(v) == 0 {
		return 0
	}
	return v[0]
}

// members yields the members of an object, none if it is none. Of a key that is there twice both come; Jupyter takes the last.
func (v value) members() iter.Seq2[string, value] {
	return func(yield func(string, value) bool) {
		if v.kind() != '{' {
			return
		}
		for rest := gap(v[1:]); rest[0] != '}'; {
			var key, member value
			key, rest = next(rest)
			member, rest = next(rest)
			if !yield(key.text(), member) {
				return
			}
		}
	}
}

// elements yields the elements of a list, none if it is none.
func (v value) elements() iter.Seq[value] {
	return func(yield func(value) bool) {
		if v.kind() != '[' {
			return
		}
		for rest := gap(v[1:]); rest[0] != ']'; {
			var element value
			element, rest = next(rest)
			if !yield(element) {
				return
			}
		}
	}
}

// member returns the last member of that key, nil if there is none.
func (v value) member(key string) (found value) {
	for k, m := range v.members() {
		if k == key {
			found = m
		}
	}
	return found
}

// text returns a string, or the strings of a list joined, as nbformat writes long texts; "" for anything else.
func (v value) text() string { return string(v.appendText(nil, "")) }

func (v value) appendText(dst []byte, between string) []byte {
	if v.kind() == '"' {
		return appendString(dst, v)
	}
	first := true
	for e := range v.elements() {
		if e.kind() != '"' {
			continue
		}
		if !first {
			dst = append(dst, between...)
		}
		dst, first = appendString(dst, e), false
	}
	return dst
}

// whole returns a whole number from 0 to a thousand million, -1 for anything else.
func (v value) whole() int {
	f, err := strconv.ParseFloat(string(v[:min(len(v), 32)]), 64)
	if err != nil || !(f >= 0 && f <= 1e9) || f != float64(int(f)) {
		return -1
	}
	return int(f)
}

// next splits off the value that the text begins with.
func next(text []byte) (value, []byte) {
	end, _ := span(text)
	return value(text[:end:end]), gap(text[end:])
}

// gap steps over what stands between values.
func gap(text []byte) []byte { return bytes.TrimLeft(text, " \t\r\n,:") }

// span returns where the value ends that the text begins with, and how deep lists and objects are nested in it. The text need not be
// valid; end is -1 if the text ends first.
func span(text []byte) (end, deepest int) {
	open := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			n := closing(text[i:])
			if n < 0 {
				return -1, deepest
			}
			i += n - 1
		case '{', '[':
			open++
			deepest = max(deepest, open)
			continue
		case '}', ']':
			open--
		default:
			if open > 0 {
				continue
			}
			if n := bytes.IndexAny(text[i:], " \t\r\n,:]}"); n > 0 {
				return i + n, deepest
			}
			return len(text), deepest
		}
		if open <= 0 {
			return i + 1, deepest
		}
	}
	return -1, deepest
}

// closing returns where the string ends that the text begins with, -1 if the text ends first.
func closing(text []byte) int {
	for i := 1; ; {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		escapes := 0
		for text[i-1-escapes] == '\\' {
			escapes++
		}
		i++
		if escapes%2 == 0 {
			return i
		}
	}
}

// appendString appends what a JSON string says. Halves of surrogate pairs become U+FFFD, as in encoding/json.
func appendString(dst []byte, quoted value) []byte {
	for rest := quoted[1 : len(quoted)-1]; ; {
		n := bytes.IndexByte(rest, '\\')
		if n < 0 {
			return append(dst, rest...)
		}
		dst = append(dst, rest[:n]...)
		escape := rest[n+1]
		rest = rest[n+2:]
		switch escape {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex(rest)
			rest = rest[4:]
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if bytes.HasPrefix(rest, []byte(`\u`)) {
					low = hex(rest[2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					rest = rest[6:]
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, escape)
		}
	}
}

// hex reads four digits that encoding/json has found to be such.
func hex(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 32)
	return rune(n)
}
