package llamacpp

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"tandem/internal/engine"
	"tandem/jobs"
)

// endless repeats a text for ever and counts what was read of it.
type endless struct {
	text string
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.text[(e.read+n)%len(e.text):])
	}
	e.read += n
	return n, nil
}

func (e *endless) Close() error { return nil }

// streaming answers the chat with one stream, everything else as scripted does.
type streaming struct {
	scripted
	chat io.ReadCloser
}

func (s streaming) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/v1/chat/completions" {
		return s.scripted.RoundTrip(r)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: s.chat}, nil
}

// An answer that does not end is left where no result could hold more of it, or its line is longer than any event.
func TestAnswersWithoutEnd(t *testing.T) {
	piece := strings.Repeat("a", 100_000)
	for name, tt := range map[string]struct {
		body string
		want string
		most int
	}{
		"text":     {"data: {\"choices\":[{\"delta\":{\"content\":\"" + piece + "\"}}]}\n\n", "longer than 8323072 bytes, which no result could hold: give the job a num_predict", 10 << 20},
		"thinking": {"data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"" + piece + "\"}}]}\n\n", "longer than 8323072 bytes", 10 << 20},
		"a line":   {piece, "a line is longer than 1048576 bytes", 2 << 20},
		"an event": {"data: " + piece + "\n", "an event is longer than 1048576 bytes", 2 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			body := &endless{text: tt.body}
			e, err := New(Options{URL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: streaming{chat: body}}})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			_, err = e.Generate(t.Context(), engine.Request{Prompt: "x"}, ignore)
			if jobs.CodeOf(err) != jobs.CodeEngineFailed || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v (%s); want %s and %q", err, jobs.CodeOf(err), jobs.CodeEngineFailed, tt.want)
			}
			if body.read > tt.most {
				t.Errorf("%d bytes were read of it", body.read)
			}
		})
	}
}
