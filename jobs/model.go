package jobs

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// CanonicalModel returns the one way of writing a model's name: without the "disaggregated:"
// of the original installation and without Ollama's default registry, with a tag.
//
//	disaggregated:qwen3-coder:30b → qwen3-coder:30b
//	llama3                        → llama3:latest
func CanonicalModel(name string) (string, error) {
	m := name
	for before := ""; m != before; {
		before = m
		for _, prefix := range []string{"disaggregated:", "registry.ollama.ai/", "library/"} {
			m = strings.TrimPrefix(m, prefix)
		}
	}
	if m == "" {
		return "", Errorf(CodeInvalid, "model is empty; give a name such as qwen3-coder:30b")
	}
	last := m[strings.LastIndexByte(m, '/')+1:]
	if !strings.Contains(last, ":") {
		m += ":latest"
	}
	if last == "" || last[0] == ':' || last[len(last)-1] == ':' {
		return "", Errorf(CodeInvalid, "model %.60q lacks a part; give a name such as qwen3-coder:30b", name)
	}
	if n := encodedLen(m); n > MaxName { // with it, consumers and their folders are named
		return "", Errorf(CodeInvalid, "model is %d bytes long, encoded; %d are allowed", n, MaxName)
	}
	if !utf8.ValidString(m) || strings.ContainsFunc(m, unprintable) || strings.Contains(m, " ") {
		return "", Errorf(CodeInvalid, "model %.60q holds white space or characters that cannot be printed", m)
	}
	return m, nil
}

// encodedLen is the length of [EncodeToken]'s answer, which of megabytes would take seconds.
func encodedLen(name string) int {
	n := len(name)
	for i := range len(name) {
		if c := name[i]; c != '.' && c != '/' && !plain(c) {
			n += len("=XX") - 1
		}
	}
	return n
}

// plain reports whether a byte stands for itself in a token.
func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == ':' || c == '-'
}

// EncodeToken writes any name as one subject token that is also a safe folder name; [DecodeToken]
// reads it back. Letters, digits, '_', ':' and '-' stay, '.' becomes '~', '/' becomes '+', any
// other byte =XX.
func EncodeToken(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case plain(c):
			b.WriteByte(c)
		case c == '.':
			b.WriteByte('~')
		case c == '/':
			b.WriteByte('+')
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

// DecodeToken is the inverse of [EncodeToken]; what it would not have written is an error.
func DecodeToken(token string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(token); i++ {
		switch c := token[i]; c {
		case '~':
			b.WriteByte('.')
		case '+':
			b.WriteByte('/')
		case '=':
			v, err := strconv.ParseUint(token[i+1:min(i+3, len(token))], 16, 8)
			if err != nil {
				return "", fmt.Errorf("decode subject token %.60q: = without two hexadecimal digits", token)
			}
			b.WriteByte(byte(v))
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	if EncodeToken(b.String()) != token {
		return "", fmt.Errorf("decode subject token %.60q: not in encoded form", token)
	}
	return b.String(), nil
}

// What a model may be able to do, as Ollama calls it.
const (
	CanComplete = "completion" // generate text
	CanTools    = "tools"      // call functions
	CanSee      = "vision"     // take images
	CanThink    = "thinking"   // reason before it answers
	CanEmbed    = "embedding"  // make embeddings
)
