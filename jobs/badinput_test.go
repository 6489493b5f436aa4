package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

const mebibyte = 1 << 20

const testID = "01936f2a-5b7c-7d3e-8f90-a1b2c3d4e5f6"

// recordWith is a job as JSON with fields of the test's own; an empty text takes a field away.
func recordWith(t *testing.T, fields map[string]any) []byte {
	t.Helper()
	all := map[string]any{
		"v": 1, "id": testID, "user": "u", "batch": "b", "class": "batch", "model": "m:latest", "prompt": "p",
	}
	for k, v := range fields {
		if raw, ok := v.(string); ok && raw == "" {
			delete(all, k)
			continue
		}
		all[k] = v
	}
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Names that would be something else where they end up: a wildcard in a subject, a folder above, a line of a header,
// a command to a terminal.
func TestBadNamesAreRefusedByName(t *testing.T) {
	for name, value := range map[string]string{
		"newline": "a\nb", "header injection": "a\r\nNats-Msg-Id: x", "NUL": "a\x00b", "bidi override": "a\u202eb", "bidi isolate": "a\u2066b",
		"escape sequence": "\x1b[31mred", "escape of one character": "\u009b31m", "delete": "a\x7f", "line separator": "a\u2028b",
		"a megabyte": strings.Repeat("n", mebibyte), "a megabyte that grows when it is encoded": strings.Repeat("*", mebibyte),
	} {
		for _, field := range []string{"user", "batch", "custom_id", "model"} {
			t.Run(field+", "+name, func(t *testing.T) {
				want := " allowed"
				if len(value) < MaxName {
					want = fmt.Sprintf("%q holds", value+":1")
				}
				_, err := Decode[Job](recordWith(t, map[string]any{field: value + ":1"}))
				wantInvalid(t, err, field+" ")
				wantInvalid(t, err, want)
				checkRefusal(t, err)
			})
		}
	}
}

// Names that look dangerous and need not be refused: as a token they are harmless.
func TestOddNamesTravelAsTokens(t *testing.T) {
	for _, name := range []string{"*", ">", "a.b", "a/b", `a\b`, "..", ".", "../../etc/passwd", "CON", "nul", "$JS.API", "_INBOX.x", "=2E", "%2e", "a b", "ünï 漢字 🙂"} {
		j := validJob()
		j.User, j.Batch, j.CustomID = name, name, name
		data, err := Encode(j)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		back, err := Decode[Job](data)
		if err != nil || back.User != name || back.Batch != name || back.CustomID != name {
			t.Errorf("%q came back as %q, %v", name, back.User, err)
		}
		if token := EncodeToken(name); strings.ContainsAny(token, ".*> /\\") {
			t.Errorf("%q makes the token %q", name, token)
		}
	}
	j := validJob()
	j.User = ""
	wantInvalid(t, j.Validate(), "user is empty")
	j = validJob()
	j.Model = ""
	wantInvalid(t, j.Validate(), "model is empty")
}

func TestBadValuesAreRefusedByName(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	digits := strings.Repeat("9", mebibyte)
	for _, tt := range []struct {
		name   string
		fields map[string]any
		want   string
	}{
		{"temperature 1e400", map[string]any{"options": raw(`{"temperature":1e400}`)}, "options.temperature is a JSON number 1e400; want a number"},
		{"temperature of a megabyte", map[string]any{"options": raw(`{"temperature":` + digits + `}`)}, "options.temperature is a JSON number 999"},
		{"temperature as text", map[string]any{"options": raw(`{"temperature":"NaN"}`)}, "options.temperature is a JSON string; want a number"},
		{"temperature 11", map[string]any{"options": raw(`{"temperature":11}`)}, "options.temperature is 11; want 0 to 10"},
		{"top_p 1.5", map[string]any{"options": raw(`{"top_p":1.5}`)}, "options.top_p is 1.5; want 0 to 1"},
		{"num_predict -1", map[string]any{"options": raw(`{"num_predict":-1}`)}, "options.num_predict is -1; want 1 to 16777216"},
		{"num_predict 2^63", map[string]any{"options": raw(`{"num_predict":9223372036854775808}`)}, "options.num_predict is a JSON number 9223372036854775808; want a whole number of 64 bits"},
		{"num_ctx 2^62", map[string]any{"options": raw(`{"num_ctx":4611686018427387904}`)}, "options.num_ctx is 4611686018427387904; want"},
		{"seed 2^63", map[string]any{"options": raw(`{"seed":9223372036854775808}`)}, "options.seed is a JSON number 9223372036854775808"},
		{"seed with a fraction", map[string]any{"options": raw(`{"seed":0.5}`)}, "options.seed is a JSON number 0.5"},
		{"stop of a megabyte", map[string]any{"options": map[string]any{"stop": []string{strings.Repeat("s", mebibyte)}}}, "options.stop has a word of 1048576 bytes"},
		{"shared_prefix 1e400", map[string]any{"shared_prefix": raw(`1e400`)}, "shared_prefix is a JSON number 1e400"},
		{"shared_prefix 2^63", map[string]any{"shared_prefix": raw(`9223372036854775808`)}, "shared_prefix is a JSON number 9223372036854775808"},
		{"shared_prefix beyond the prompt", map[string]any{"shared_prefix": 99}, "shared_prefix is 99; it must lie within"},
		{"year 99999", map[string]any{"deadline": "99999-01-01T00:00:00Z"}, "deadline cannot be read; want a time such as"},
		{"year -1", map[string]any{"deadline": "-0001-01-01T00:00:00Z"}, "deadline cannot be read"},
		{"deadline of a megabyte", map[string]any{"deadline": digits}, "deadline cannot be read"},
		{"class", map[string]any{"class": strings.Repeat("\x1b", mebibyte/2)}, "class is \"\\x1b"},
		{"plan", map[string]any{"plan": strings.Repeat("p", mebibyte)}, "plan is \"ppp"},
		{"think", map[string]any{"think": strings.Repeat("\u202e", mebibyte)}, `think is "\u202e`},
		{"model that shrinks", map[string]any{"model": strings.Repeat("library/", 50_000) + "m"}, `model is "library/`},
		{"id", map[string]any{"id": "../" + testID}, `id is "../`},
		{"id in upper case", map[string]any{"id": strings.ToUpper(testID)}, "want a UUID in lower case"},
		{"version as an escape", map[string]any{"v": "\u009b31m\u202e"}, "v is \"\ufffd31m\ufffd\""},
		{"a field in another case", map[string]any{"PROMPT": "x"}, `PROMPT is unknown; did you mean "prompt"?`},
		{"role", map[string]any{"prompt": "", "messages": []map[string]string{{"role": strings.Repeat("\x1b", mebibyte/2), "content": "x"}}}, `messages[0].role is "\x1b`},
		{"role as number", map[string]any{"prompt": "", "messages": raw(`[{"role":1}]`)}, "messages.role is a JSON number"},
		{"label's name", map[string]any{"labels": map[string]string{strings.Repeat("\x1b", mebibyte/2): ""}}, `labels."\x1b`},
		{"a prompt of 4 MiB and a byte", map[string]any{"prompt": strings.Repeat("p", MaxBody+1)}, "the prompt is 4194305 bytes long; 4194304 are allowed"},
		{"format of a megabyte", map[string]any{"format": map[string]string{"x": strings.Repeat("f", mebibyte)}}, "format is 1048584 bytes long; 262144 are allowed"},
		{"format nested 10,000 deep", map[string]any{"format": raw(strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000))}, "nested too deep"},
		{"an unknown field nested 10,000 deep", map[string]any{"later": raw(strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000))}, "nested too deep"},
		{"messages nested 10,000 deep", map[string]any{"prompt": "", "messages": raw(strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000))}, "nested too deep"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode[Job](recordWith(t, tt.fields))
			wantInvalid(t, err, tt.want)
			checkRefusal(t, err)
		})
	}
}

// A time that JSON can say and Go cannot write would be accepted and never passed on.
func TestTimesAtTheEdgeSurviveAHop(t *testing.T) {
	for _, when := range []string{"9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00+23:59", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"} {
		j, err := Decode[Job](recordWith(t, map[string]any{"deadline": when, "submitted_at": when}))
		if err != nil {
			t.Errorf("%s: %v", when, err)
			continue
		}
		if _, err := Encode(&Handover{V: Version, Stage: StageFallback, Job: *j}); err != nil {
			t.Errorf("%s was accepted and cannot be passed on: %v", when, err)
		}
	}
}

func TestDuplicateKeysAndTrailingData(t *testing.T) {
	good := recordWith(t, nil)
	for want, data := range map[string][]byte{
		`duplicate key "user"`: bytes.Replace(good, []byte(`{`), []byte(`{"user":"other",`), 1),
		`duplicate key "v"`:    bytes.Replace(good, []byte(`{`), []byte(`{"\u0076":1,`), 1),
		"data after the end":   append(bytes.Clone(good), good...),
		"invalid UTF-8":        bytes.Replace(good, []byte(`"u"`), []byte("\"\xff\""), 1),
		"half a surrogate":     bytes.Replace(good, []byte(`"u"`), []byte(`"\ud800"`), 1),
		"is no JSON object":    []byte("[" + string(good) + "]"),
		"bytes long as JSON":   append(bytes.Clone(good), bytes.Repeat([]byte(" "), MaxJob)...),
	} {
		_, err := Decode[Job](data)
		wantInvalid(t, err, want)
		checkRefusal(t, err)
	}
}

// What is read of a record costs memory in proportion to its size, whatever is in it.
func TestMemoryIsBoundedByTheRecord(t *testing.T) {
	var many strings.Builder
	many.WriteString(`{"v":1`)
	for i := range 200_000 {
		fmt.Fprintf(&many, `,"x%d":[{}]`, i)
	}
	many.WriteString(`}`)
	for name, data := range map[string][]byte{
		"many unknown fields": []byte(many.String()),
		"one long key":        []byte(`{"v":1,"` + strings.Repeat("k", 5*mebibyte) + `":1}`),
		"many brackets":       []byte(`{"v":1,"x":[` + strings.Repeat(`[],`, mebibyte) + `[]]}`),
		"a long number":       []byte(`{"v":1,"seed":` + strings.Repeat("9", 5*mebibyte) + `}`),
		"escapes in a key":    []byte(`{"v":1,"` + strings.Repeat(`\u0041`, 800_000) + `":1}`),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := Decode[Job](data); err == nil {
				t.Error("it was accepted")
			}
			runtime.ReadMemStats(&after)
			if used, limit := after.TotalAlloc-before.TotalAlloc, uint64(40*len(data)+mebibyte); used > limit {
				t.Errorf("%d bytes cost %d of memory", len(data), used)
			}
		})
	}
}
