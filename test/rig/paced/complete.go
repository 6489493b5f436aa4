package paced

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
)

// request is the body of /completion and of /v1/chat/completions, as far as it is read.
type request struct {
	Prompt      prompt    `json:"prompt"`
	Messages    []message `json:"messages"`
	NumPredict  *int      `json:"n_predict"`
	NumProbs    int       `json:"n_probs"` // of the first token of an answer that is not streamed
	Temperature *float64  `json:"temperature"`
	Seed        *int64    `json:"seed"`
	Stop        []string  `json:"stop"`
	Slot        *int      `json:"id_slot"`
	Cache       *bool     `json:"cache_prompt"`
	Stream      bool      `json:"stream"`
	Progress    bool      `json:"return_progress"`
}

// prompt is a text or a list of tokens.
type prompt []int32

// UnmarshalJSON reads long lists several times as fast as package json does.
func (p *prompt) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var text string
		err := json.Unmarshal(data, &text)
		*p = tokens(text)
		return err
	}
	data = bytes.Trim(data, "[] \t\r\n")
	list := make(prompt, 0, bytes.Count(data, []byte(","))+1)
	for field := range bytes.SplitSeq(data, []byte(",")) {
		n, err := strconv.ParseInt(string(bytes.TrimSpace(field)), 10, 32)
		if err != nil || n < 0 {
			return fmt.Errorf("prompt: token %d is %.20q; want an id", len(list), field)
		}
		list = append(list, int32(n))
	}
	*p = list
	return nil
}

// complete answers a prompt.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, chat bool) {
	var q request
	came := s.loop.elapsed()
	if !read(w, r, &q) {
		return
	}
	text := ""
	if chat {
		text = render(q.Messages)
		q.Prompt = tokens(text)
	} else {
		text = detokenize(q.Prompt)
	}
	n := len(q.Prompt)
	switch {
	case n == 0:
		refuse(w, http.StatusBadRequest, "the prompt is empty")
		return
	case n >= s.options.Context:
		problem{
			Code: http.StatusBadRequest, Type: "exceed_context_size_error", Prompt: n, Context: s.options.Context,
			Message: fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", n, s.options.Context),
		}.reply(w)
		return
	}
	limit := s.options.Context - n
	if q.NumPredict != nil && *q.NumPredict >= 0 {
		limit = min(limit, *q.NumPredict)
	}
	t := newTask(-1)
	if q.Slot != nil {
		t.want = *q.Slot
	}
	t.prompt, t.cache, t.stream = q.Prompt, q.Cache == nil || *q.Cache, q.Stream
	t.answer = compose(t.prompt, natural(text, s.options.Answer), limit, q.Stop, seedOf(q.Temperature, q.Seed))
	if err := s.loop.submit(t, came); err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	a := writer{w: w, request: &q, task: t, chat: chat, model: s.options.Fleet.Model}
	if !s.follow(r.Context(), &a) {
		// What the loop has ended already is not cancelled, and a loop that has ended cancels nothing.
		_ = s.loop.do(func() { s.loop.cancel(t) })
	}
}

// follow writes what becomes of the task, and reports whether it came to its end.
func (s *Server) follow(ctx context.Context, a *writer) bool {
	for {
		select {
		case now := <-a.task.latest:
			a.write(now)
			if now.finished {
				return true
			}
		case <-ctx.Done():
			return false
		case <-s.loop.ended:
			return false
		}
	}
}

// timings are llama-server's measures of a request.
type timings struct {
	Cached        int     `json:"cache_n"`
	Computed      int     `json:"prompt_n"`
	PromptMS      float64 `json:"prompt_ms"`
	PromptRate    float64 `json:"prompt_per_second"`
	Predicted     int     `json:"predicted_n"`
	PredictedMS   float64 `json:"predicted_ms"`
	PredictedRate float64 `json:"predicted_per_second"`
}

// measure is what a request took in all. Who asks for no token has one all the same, which is not kept.
func (t *task) measure(r report) timings {
	m := timings{
		Cached: r.cached, Computed: len(t.prompt) - r.cached, PromptMS: milliseconds(r.prefill),
		Predicted: max(1, r.generated), PredictedMS: milliseconds(r.decode),
	}
	rate := func(n int, ms float64) float64 {
		if r := float64(n) * 1000 / ms; !math.IsInf(r, 0) && !math.IsNaN(r) {
			return r
		}
		return 0
	}
	m.PromptRate, m.PredictedRate = rate(m.Computed, m.PromptMS), rate(m.Predicted, m.PredictedMS)
	return m
}
