package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheckJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tests := []struct {
		data string
		want string // part of the error; empty for none
	}{
		{`{}`, ""},
		{" [1, -0, 0.5, 1e5, 1E+5, -1.25e-7] ", ""},
		{`{"a":{"b":1},"c":{"b":1}}`, ""},
		{`["\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00", "é😀", "\u0000"]`, ""},
		{"\"a\x7f\u2028\"", ""},
		{deep(maxDepth), ""},
		{deep(maxDepth + 1), "nested too deep"},
		{strings.Repeat(`{"a":`, 1e6), "nested too deep"},
		{"", "at byte 0: ends too early"},
		{"  ", "at byte 2: ends too early"},
		{"\x00", "ends too early"},
		{"\ufeff{}", "unexpected character"},
		{"nul", "unexpected character"},
		{"nulll", "data after the end"},
		{"{} {}", "at byte 3: data after the end"},
		{"NaN", "unexpected character"},
		{"-", "unexpected character"},
		{"+1", "unexpected character"},
		{".5", "unexpected character"},
		{"01", "data after the end"},
		{"1.", "want digits after the point"},
		{"1e", "want digits in the exponent"},
		{"0x10", "data after the end"},
		{`{"a"}`, `want a colon after key "a"`},
		{`{"a":1,}`, "want a key"},
		{`{a:1}`, "want a key"},
		{`{"a":1 "b":2}`, `want a comma or } after "a"`},
		{`[1 2]`, "want a comma or ]"},
		{`[1,]`, "unexpected character"},
		{`"abc`, "string does not end"},
		{`"abc\`, "string does not end"},
		{"\"a\nb\"", "control character"},
		{`"\x41"`, "unknown escape"},
		{`"\u12"`, "four hexadecimal digits"},
		{`"\u+123"`, "four hexadecimal digits"},
		{`"\ud83d"`, "half a surrogate pair"},
		{`"\ud83dx\ude00"`, "half a surrogate pair"},
		{`"\ude00\ud83d"`, "half a surrogate pair"},
		{`"\ud83d\ud83d\ude00"`, "half a surrogate pair"},
		{`{"a":1,"b":{"c":[{"d":1,"d":2}]}}`, `duplicate key "b.c.d"`},
		{`{"a\/b":1,"a/b":2}`, `duplicate key "a/b"`},
		{`{"😀":1,"\ud83d\ude00":2}`, `duplicate key "😀"`},
		{`{"` + strings.Repeat("k", 1000) + `"`, `key "` + strings.Repeat("k", 80) + `"`},
		{"[\"\xed\xa0\x80\"]", "invalid UTF-8 at byte 2"},
		{"[\"é\xc3\"]", "invalid UTF-8 at byte 4"},
	}
	for _, tt := range tests {
		err := CheckJSON([]byte(tt.data))
		if tt.want != "" {
			wantInvalid(t, err, tt.want)
		} else if err != nil {
			t.Errorf("CheckJSON(%.60s) = %v, want no error", tt.data, err)
		}
	}
}

// strictly is CheckJSON's rule once more, slower, out of encoding/json's parts. sure is false where
// those cannot tell half a surrogate pair from the character that they replace it by.
func strictly(data []byte) (ok, sure bool) {
	if !json.Valid(data) || !utf8.Valid(data) {
		return false, true
	}
	type open struct {
		keys    map[string]bool // nil in an array
		wantKey bool
	}
	var stack []open
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return true, true
		} else if err != nil {
			return false, true
		}
		if s, ok := token.(string); ok && strings.ContainsRune(s, utf8.RuneError) {
			return false, false
		}
		if n := len(stack); n > 0 && stack[n-1].keys != nil && token != json.Delim('}') {
			top := &stack[n-1]
			if top.wantKey {
				key := token.(string)
				if top.keys[key] {
					return false, true
				}
				top.keys[key] = true
			}
			top.wantKey = !top.wantKey
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, open{map[string]bool{}, true})
		case json.Delim('['):
			stack = append(stack, open{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
		if len(stack) > maxDepth {
			return false, true
		}
	}
}

func FuzzCheckJSON(f *testing.F) {
	for _, file := range []string{"job", "handover", "result", "chunk"} {
		f.Add(golden(f, file+".v1.json"))
	}
	for _, s := range []string{`{"a":1,"\u0061":2}`, `{"a":{"b":[1e-7]},"c":"\ud83d\ude00"}`, `"\ud83d"`, "[\"\xff\"]", `{"a":1}x`, strings.Repeat("[", 70)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := CheckJSON(data)
		if want, sure := strictly(data); sure && want != (got == nil) {
			t.Errorf("CheckJSON = %v, but encoding/json says %t", got, want)
		}
		if got == nil && !json.Valid(data) {
			t.Error("CheckJSON takes what is no JSON")
		}
	})
}
