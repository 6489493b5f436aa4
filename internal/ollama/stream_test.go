package ollama

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"tandem/jobs"
)

const doneLine = `{"model":"m","response":"","done":true,"done_reason":"stop","context":[1,2],"prompt_eval_count":3,"prompt_eval_cached_count":2,"eval_count":1}` + "\n"

func TestReadStream(t *testing.T) {
	piece := func(s string) string { return `{"response":"` + s + `","done":false}` + "\n" }
	for name, tt := range map[string]struct {
		in   io.Reader
		text string
		want string // of the error
	}{
		"whole":            {strings.NewReader(piece("a") + piece("b") + doneLine), "ab", ""},
		"byte by byte":     {iotest.OneByteReader(strings.NewReader(piece("ä") + doneLine)), "ä", ""},
		"no last newline":  {strings.NewReader(piece("a") + strings.TrimSpace(doneLine)), "a", ""},
		"empty lines":      {strings.NewReader("\n" + piece("a") + "\r\n" + "\n" + doneLine), "a", ""},
		"after done":       {strings.NewReader(doneLine + "rubbish"), "", ""},
		"empty":            {strings.NewReader(""), "", "without its mark"},
		"no done":          {strings.NewReader(piece("a")), "a", "without its mark"},
		"cut":              {io.MultiReader(strings.NewReader(piece("a")+`{"resp`), iotest.ErrReader(io.ErrUnexpectedEOF)), "a", "unexpected EOF"},
		"not JSON":         {strings.NewReader(piece("a") + "<html>\n"), "a", "line 2"},
		"wrong type":       {strings.NewReader(`{"response": 1}` + "\n"), "", "line 1"},
		"error line":       {strings.NewReader(piece("a") + `{"error":"no memory"}` + "\n" + doneLine), "a", "status 200"},
		"repetition":       {strings.NewReader(strings.Repeat(piece(" x"), 31)), strings.Repeat(" x", 31), "repeated itself (31"},
		"few repeats":      {strings.NewReader(strings.Repeat(piece(" x"), 20)), strings.Repeat(" x", 20), "without its mark"},
		"too much cached":  {strings.NewReader(`{"done":true,"prompt_eval_count":1,"prompt_eval_cached_count":2}`), "", "impossible"},
		"negative counts":  {strings.NewReader(`{"done":true,"prompt_eval_count":-1}`), "", "impossible"},
		"negative time":    {strings.NewReader(`{"done":true,"eval_duration":-1}`), "", "impossible"},
		"endless line":     {&endless{of: strings.Repeat("x", 1<<16)}, "", "too long"},
		"endless lines":    {&endless{of: `{"model":"` + strings.Repeat("m", 1<<16) + `"}` + "\n"}, "", "too long"},
		"chat and answers": {strings.NewReader(`{"message":{"content":"c","thinking":"t"}}` + "\n" + doneLine), "ct", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			_, err := readStream(tt.in, func(a answer) {
				text, thinking := a.text()
				got += text + thinking
			})
			if got != tt.text || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, %v; want %q, %q", got, err, tt.text, tt.want)
			}
		})
	}
}

// endless never stops giving the same text.
type endless struct {
	of string
	at int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.of[e.at:])
	e.at = (e.at + n) % len(e.of)
	return n, nil
}

func TestReadRefusal(t *testing.T) {
	for body, want := range map[string]refusal{
		`{"error":"model 'm' not found"}`: {message: "model 'm' not found"},
		`{"error":"{\"error\":{\"code\":400,\"message\":\"too long\",\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":9014,\"n_ctx\":2048}}"}`: {
			message: "too long", kind: "exceed_context_size_error", tokens: 9014, context: 2048},
		`{"error":"{\"error\":{}}"}`: {message: `{"error":{}}`},
		`{"error":{"message":"x"}}`:  {},
		`<html>`:                     {},
		``:                           {},
	} {
		want.status = 400
		if got := readRefusal(400, []byte(body)); *got != want {
			t.Errorf("readRefusal(%s) = %+v, want %+v", body, *got, want)
		}
	}
}

// FuzzReadStream: whatever a server sends, reading it ends without a panic, and only a line that is
// marked as done, with counts that can be, makes a success.
func FuzzReadStream(f *testing.F) {
	f.Add([]byte(doneLine))
	f.Add([]byte(`{"response":"a"}` + "\n" + `{"error":"{\"error\":{\"message\":\"m\",\"n_ctx\":5}}"}` + "\n"))
	f.Add([]byte(strings.Repeat("{}\n", 40)))
	f.Add([]byte(`{"message":{"content":"x","thinking":"y"},"done":true,"context":[-1,99999999999]}`))
	f.Add([]byte("\xff\xfe\n{\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, sawDone := 0, false
		last, err := readStream(iotest.HalfReader(strings.NewReader(string(data))), func(a answer) {
			lines++
			if sawDone {
				t.Error("a line after the one marked as done was handed on")
			}
			sawDone = a.Done
		})
		if err == nil && (!sawDone || !last.Done || last.cached() > last.PromptEvalCount || last.EvalDuration < 0) {
			t.Errorf("success with %+v after %d lines", last, lines)
		}
		if known, ok := errors.AsType[*jobs.Error](err); ok && known.Code != jobs.CodeEngineFailed {
			t.Errorf("unexpected code %s", known.Code)
		}
	})
}
