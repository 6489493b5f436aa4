package jobs

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CanonicalModel returns the one way of writing a model's name: without the "disaggregated:"
// of the original installation and without Ollama's default registry, with a tag.
//
//	disaggregated:qwen3-coder:30b → qwen3-coder:30b
//	llama3                        → llama3:latest
func CanonicalModel(name string) (string, error) {
	m := strings.TrimPrefix(name, "disaggregated:")
	m = strings.TrimPrefix(m, "registry.ollama.ai/")
	m = strings.TrimPrefix(m, "library/")
	if m == "" {
		return "", Errorf(CodeInvalid, "model is empty; give a name such as qwen3-coder:30b")
	}
	if len(m) > maxName {
		return "", Errorf(CodeInvalid, "model is %d bytes long; %d are allowed", len(m), maxName)
	}
	if !utf8.ValidString(m) || strings.ContainsFunc(m, unprintable) || strings.ContainsAny(m, " \t") {
		return "", Errorf(CodeInvalid, "model %q holds white space or characters that cannot be printed", m)
	}
	if !strings.Contains(m[strings.LastIndexByte(m, '/')+1:], ":") {
		m += ":latest"
	}
	return m, nil
}

// EncodeToken writes any name as one subject token that is also a safe folder name; [DecodeToken]
// reads it back. Letters, digits, '_', ':' and '-' stay, '.' becomes '~', '/' becomes '+', any
// other byte =XX.
func EncodeToken(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == ':', c == '-':
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
			if i+2 >= len(token) {
				return "", fmt.Errorf("decode subject token %q: ends within an escape", token)
			}
			var v byte
			if _, err := fmt.Sscanf(token[i+1:i+3], "%02X", &v); err != nil {
				return "", fmt.Errorf("decode subject token %q: =%s is no escape", token, token[i+1:i+3])
			}
			b.WriteByte(v)
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	if EncodeToken(b.String()) != token {
		return "", fmt.Errorf("decode subject token %q: not in encoded form", token)
	}
	return b.String(), nil
}
