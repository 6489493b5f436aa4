package slots

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"tandem/internal/engine/enginetest"
	"tandem/jobs"
)

// parrot is a llama-server that gives every request one answer.
type parrot struct {
	status int
	body   string
}

func (p parrot) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: p.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(p.body))}, nil
}

// answering is a server whose every answer is the body.
func answering(status int, body string) *Server {
	return &Server{
		config: Config{Client: NewClient(&http.Client{Transport: parrot{status, body}}), Endpoint: Endpoint{URL: "http://127.0.0.1:1"}},
		pool:   newPool(1, true), importGate: newImportGate(), sampling: newImportGate(),
	}
}

// Whatever answers at the engine's address, what is kept of it is within bounds.
func FuzzDescribe(f *testing.F) {
	good := `{"build_info":"b1","model_path":"/m.gguf","total_slots":2,"media_marker":"x","default_generation_settings":{"n_ctx":4096}}`
	for _, s := range []string{
		good, strings.Replace(good, "2", "1000000000", 1), strings.Replace(good, "4096", "1e400", 1), strings.Replace(good, "b1", strings.Repeat("b", 5000), 1),
		`[]`, `null`, `{}`, `{"total_slots":-1}`, good + good, strings.Repeat("[", 20_000),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := answering(http.StatusOK, body)
		id, err := Describe(t.Context(), s.config.Client, s.config.Endpoint)
		if err != nil {
			enginetest.CheckError(t, err)
			return
		}
		if id.Slots < 1 || id.Slots > mostSlots || id.Context < 1 || id.Context > jobs.MaxTokens || len(id.Build)+len(id.Model)+len(id.Start) > 3*longestMark {
			t.Errorf("believed %+v", id)
		}
	})
}

// The short answers: tokens, slots, and what became of a slot's state.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		`{"tokens":[1,2,3]}`, `{"tokens":[-1,2147483648]}`, `[{"id":0,"id_task":1,"is_processing":true}]`, `{"n_saved":5,"n_written":-1,"n_restored":1e400}`,
		`{"completion_probabilities":[{"top_logprobs":[{"id":1,"logprob":-0.5}]}],"timings":{"cache_n":1}}`, `{"tokens":"x"}`, `[[]]`, ``,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := answering(http.StatusOK, body)
		if tokens, err := s.Tokens(t.Context(), "x"); err != nil {
			enginetest.CheckError(t, err)
		} else if len(tokens) > len(body) {
			t.Errorf("%d bytes are read as %d tokens", len(body), len(tokens))
		}
		if tasks, err := s.tasks(t.Context()); err != nil {
			enginetest.CheckError(t, err)
		} else if len(tasks) > len(body) {
			t.Errorf("%d bytes are read as %d slots", len(body), len(tasks))
		}
		slot := &Slot{server: s, cache: &cache{}}
		if _, err := slot.act(t.Context(), "save", "x"); err != nil {
			enginetest.CheckError(t, err)
		}
		if p, err := slot.predict(t.Context(), []int32{1, 2}); err != nil {
			enginetest.CheckError(t, err)
		} else if len(p.tokens) == 0 || len(p.tokens) > len(body) {
			t.Errorf("%d bytes are read as a prediction of %d tokens", len(body), len(p.tokens))
		}
	})
}

// A stream of events succeeds only with its last event, and nothing after that is read.
func FuzzStream(f *testing.F) {
	for _, s := range []string{
		"data: {\"content\":\"a\"}\n\ndata: {\"content\":\"\",\"stop\":true,\"stop_type\":\"limit\"}\n\n",
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		"data: {\"error\":{\"code\":500,\"message\":\"\x1b[31mred\"}}\n\n", "error: {\"error\":{\"type\":\"exceed_context_size_error\"}}\n\n",
		"data: {\"timings\":{\"prompt_ms\":1e308,\"cache_n\":-5}}\n\n", "data: not json\n\n", "data: {\"content\":1}\n\n", "data: {", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		last, text := false, 0
		err := answering(http.StatusOK, body).Stream(t.Context(), "/completion", nil, func() {}, func(e *Event) error {
			if last {
				t.Error("an event after the last one was handed on")
			}
			last = e.Stop
			text += len(e.Content)
			return nil
		})
		if err != nil {
			enginetest.CheckError(t, err)
		} else if !last && !strings.Contains(body, done) {
			t.Error("an answer without an end was taken for a whole one")
		}
		if text > 3*len(body) { // a byte that is no UTF-8 becomes three
			t.Errorf("%d bytes are read as %d bytes of text", len(body), text)
		}
	})
}

// However a llama-server says no, the job is told why, and a status that is none of its own is never a success.
func FuzzRefusal(f *testing.F) {
	for _, s := range []string{
		`{"error":{"code":400,"message":"no","type":"invalid_request_error"}}`, `{"error":{"type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":-5}}`,
		`{"error":"text"}`, `<html>`, `{"error":{"message":"\u001b[31mred\u202e` + strings.Repeat("é", 400) + `"}}`, `{"error":{"message":"x Failed to parse input: the answer"}}`,
	} {
		for _, status := range []int{302, 400, 401, 404, 429, 500, 503} {
			f.Add(status, s)
		}
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status == http.StatusOK {
			return
		}
		_, err := answering(status, body).Tokens(t.Context(), "x")
		if err == nil {
			t.Fatalf("status %d was taken for a success", status)
		}
		enginetest.CheckError(t, err)
	})
}
