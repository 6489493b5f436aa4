package paced

import (
	"encoding/json"
	"net/http"
)

// pieceTokens is how much text one event has at most; the first one has a token. Text flows in bursts, and an event for each token, as
// llama-server sends it, would cost the reader too much where time runs fast.
const pieceTokens = 16

// writer writes the answer to a completion: whole, or as a stream of events.
type writer struct {
	w       http.ResponseWriter
	request *request
	task    *task
	chat    bool
	model   string

	begun     bool
	processed int // tokens of the prompt that progress was told of
	generated int // tokens that were sent
	sent      int // bytes of text
}

// write writes what is new.
func (a *writer) write(now report) {
	if !a.request.Stream {
		if now.finished {
			reply(a.w, a.whole(now))
		}
		return
	}
	if !a.begun {
		a.begun = true
		a.w.Header().Set("Content-Type", "text/event-stream")
		a.processed = -1
	}
	if a.request.Progress && now.begun && now.done > a.processed {
		a.processed = now.done
		a.event(map[string]any{"prompt_progress": map[string]any{"total": len(a.task.prompt), "cache": now.cached, "processed": now.done}}, "", "")
	}
	for a.generated < now.generated {
		if a.generated == 0 {
			a.generated = 1
		} else {
			a.generated = min(a.generated+pieceTokens, now.generated)
		}
		text := a.task.answer.after(a.generated)
		if piece := text[a.sent:]; piece != "" {
			a.sent = len(text)
			a.event(map[string]any{}, piece, "")
		}
	}
	if now.finished {
		a.event(map[string]any{"timings": a.task.measure(now)}, "", a.reason())
		if a.chat {
			_, _ = a.w.Write([]byte("data: [DONE]\n\n")) // to who has left
		}
	}
	_ = http.NewResponseController(a.w).Flush() // likewise
}

// reason is why the answer ended, in the words of the API that was asked.
func (a *writer) reason() string {
	switch limit := a.task.answer.limit; {
	case a.chat && limit:
		return "length"
	case a.chat:
		return "stop"
	case limit:
		return "limit"
	}
	return "eos"
}

// event writes one event: what it has beside its text, the text, and why the answer ended if it did.
func (a *writer) event(body map[string]any, text, reason string) {
	if a.chat {
		choice := map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": nil}
		if text != "" {
			choice["delta"] = map[string]any{"content": text}
		}
		if reason != "" {
			choice["finish_reason"] = reason
		}
		body["object"], body["model"], body["choices"] = "chat.completion.chunk", a.model, []any{choice}
	} else {
		body["index"], body["content"], body["stop"] = 0, text, reason != ""
		if reason != "" {
			body["stop_type"], body["id_slot"] = reason, a.task.slot.id
		}
	}
	data, _ := json.Marshal(body) // strings and numbers
	_, _ = a.w.Write(append(append([]byte("data: "), data...), "\n\n"...))
}

// whole is an answer that is not streamed.
func (a *writer) whole(now report) map[string]any {
	t := a.task
	body := map[string]any{"model": a.model, "timings": t.measure(now)}
	if a.chat {
		body["object"] = "chat.completion"
		body["choices"] = []any{map[string]any{
			"index": 0, "finish_reason": a.reason(), "message": map[string]any{"role": "assistant", "content": t.answer.text},
		}}
		body["usage"] = map[string]any{
			"prompt_tokens": len(t.prompt), "completion_tokens": now.generated, "prompt_tokens_details": map[string]any{"cached_tokens": now.cached},
		}
		return body
	}
	body["content"], body["stop"], body["stop_type"], body["id_slot"] = t.answer.text, true, a.reason(), t.slot.id
	if n := a.request.NumProbs; n > 0 {
		body["completion_probabilities"] = []any{predict(t.prompt, n)}
	}
	return body
}
