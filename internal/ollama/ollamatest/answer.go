package ollamatest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// body is a request to /api/generate or /api/chat.
type body struct {
	Model    string
	System   string
	Prompt   string
	Raw      bool
	Template string
	Context  []int
	Messages []struct{ Role, Content string }
	Format   json.RawMessage
	Think    any
	Stream   *bool
	Shift    *bool
	Options  struct {
		runnerOptions
		NumPredict  int      `json:"num_predict"`
		Temperature *float64 `json:"temperature"`
		Seed        *uint64  `json:"seed"`
		Stop        []string `json:"stop"`
	}
	KeepAlive any `json:"keep_alive"`
}

// runnerOptions restart the model's runner when they change, and it loses its cache.
type runnerOptions struct {
	NumCtx    int `json:"num_ctx"`
	NumThread int `json:"num_thread"`
	shift     bool
}

// slot is what one concurrent request computes in; it remembers the last prompt.
type slot struct {
	busy   bool
	tokens []string
}

func (b *body) loads() bool { return b.Prompt == "" && len(b.Messages) == 0 }

// rendered is the prompt as the model sees it.
func (b *body) rendered() string {
	if b.Raw {
		return b.Prompt
	}
	if b.Template == "{{ .Prompt }}" {
		return detokenize(b.Context) + b.Prompt
	}
	var out strings.Builder
	out.WriteString(detokenize(b.Context))
	turn := func(role, content string) {
		if content != "" {
			out.WriteString("<" + role + ">" + content)
		}
	}
	turn("system", b.System)
	turn("user", b.Prompt)
	for _, m := range b.Messages {
		turn(m.Role, m.Content)
	}
	out.WriteString("<assistant>")
	return out.String()
}

// answer serves /api/generate and /api/chat.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	var b body
	if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	var fault Fault
	ended := func() {}
	if !b.loads() {
		s.change(func() { s.calls++; s.running++; s.peak = max(s.peak, s.running) })
		ended = sync.OnceFunc(func() { s.change(func() { s.running-- }) })
		defer ended()
		fault = s.nextFault()
	}
	m := s.find(b.Model)
	thinks, _ := b.Think.(bool)
	if level, ok := b.Think.(string); ok && level != "" {
		thinks = true
	}
	switch {
	case fault.before(r.Context(), w, b.Model):
	case m == nil:
		writeError(w, http.StatusNotFound, fmt.Sprintf("model '%s' not found", b.Model))
	case thinks && !s.options.Thinks:
		writeError(w, http.StatusBadRequest, fmt.Sprintf("%q does not support thinking", b.Model))
	case b.loads() && (b.KeepAlive == 0.0 || b.KeepAlive == "0s"):
		s.unload(m)
		writeJSON(w, http.StatusOK, map[string]any{"model": b.Model, "created_at": now(), "response": "", "done": true, "done_reason": "unload"})
	case b.loads():
		s.load(m, &b)
		writeJSON(w, http.StatusOK, map[string]any{"model": b.Model, "created_at": now(), "response": "", "done": true, "done_reason": "load"})
	default:
		s.load(m, &b)
		thinks = thinks || b.Think == nil && s.options.Thinks
		s.generate(r.Context(), w, m, &b, thinks, fault, ended)
	}
}

// load starts the runner unless the one in memory has the same options.
func (s *Server) load(m *model, b *body) {
	want := b.Options.runnerOptions
	want.NumCtx = cmp.Or(want.NumCtx, 4096)
	want.shift = b.Shift == nil || *b.Shift
	s.change(func() {
		if m.runner == nil || *m.runner != want {
			m.runner = &want
			s.loads++
			m.forget()
		}
	})
}

// take waits for a free slot of a model and returns its number.
func (s *Server) take(ctx context.Context, m *model) (n int, err error) {
	return n, s.wait(ctx, func() bool {
		for i := range m.slots {
			if !m.slots[i].busy {
				m.slots[i].busy, n = true, i
				return true
			}
		}
		return false
	})
}

// generate gives its slot back and calls ended before it says that it has: the client may send its next request then.
func (s *Server) generate(ctx context.Context, w http.ResponseWriter, m *model, b *body, thinks bool, fault Fault, ended func()) {
	prompt := b.rendered()
	if thinks {
		prompt += "<think>"
	}
	list := tokens(prompt)
	numCtx := cmp.Or(b.Options.NumCtx, 4096)
	if len(list) >= numCtx {
		writeOverflow(w, len(list), numCtx)
		return
	}
	n, err := s.take(ctx, m)
	if err != nil {
		return
	}
	cached := s.cached(m, n, list)
	release := sync.OnceFunc(func() { s.change(func() { m.slots[n].busy = fault == LoseSlot }) })
	defer release()

	start := time.Now()
	if !s.spend(ctx, len(list)-cached) {
		return
	}
	prefilled := time.Now()
	limit := b.Options.NumPredict
	if room := numCtx - len(list); limit < 1 || limit > room {
		limit = room // 0 and less do not stop
	}
	pieces, reason := b.pieces(prompt, limit)

	out := &stream{w: w, chat: len(b.Messages) > 0, model: b.Model, whole: b.Stream != nil && !*b.Stream}
	thought := 0
	if thinks {
		thought = max(1, len(pieces)/2)
	}
	for i, p := range pieces {
		if i == min(2, len(pieces)-1) && fault.within(ctx, out) {
			return
		}
		if !s.spend(ctx, 1) {
			return
		}
		if i < thought {
			out.piece("", p)
		} else {
			out.piece(p, "")
		}
	}
	end := map[string]any{
		"done_reason": reason, "total_duration": time.Since(start) + 1, "load_duration": 1,
		"prompt_eval_count": len(list), "prompt_eval_duration": prefilled.Sub(start) + 1,
		"eval_count": len(pieces), "eval_duration": time.Since(prefilled) + 1,
	}
	if s.options.Version >= "0.34" {
		end["prompt_eval_cached_count"] = cached
	}
	if !out.chat && !b.Raw {
		end["context"] = ids(tokens(prompt + strings.Join(pieces, "")))
	}
	switch fault {
	case WrongDone:
		end["done_reason"] = "unload"
	case WrongCounts:
		end["prompt_eval_cached_count"] = len(list) + 1
	}
	release()
	ended()
	out.done(end)
}

// cached returns how much of a prompt the slot has computed already, and makes it the slot's prompt.
// The last token is always computed again.
func (s *Server) cached(m *model, n int, list []string) (common int) {
	s.change(func() {
		before := m.slots[n].tokens
		for common < min(len(before), len(list)-1) && before[common] == list[common] {
			common++
		}
		m.slots[n].tokens = list
	})
	return common
}

// pieces is the answer, at most limit tokens of it, and why it ends there.
func (b *body) pieces(prompt string, limit int) (list []string, reason string) {
	var ended bool
	if len(b.Format) > 0 {
		list = tokens(instance(b.Format))
		ended = len(list) <= limit
		list = list[:min(len(list), limit)]
	} else {
		var random *rand.Rand
		if t := b.Options.Temperature; t == nil || *t > 0 {
			random = rand.New(rand.NewPCG(rand.Uint64(), 0))
			if seed := b.Options.Seed; seed != nil {
				random = rand.New(rand.NewPCG(*seed, 0))
			}
		}
		list, ended = generate(prompt, limit, random)
	}
	list, stopped := cutAtStop(list, b.Options.Stop)
	if ended || stopped {
		return list, "stop"
	}
	return list, "length"
}

// spend takes the time that n tokens take, and reports whether the client is still there.
func (s *Server) spend(ctx context.Context, n int) bool {
	if s.options.PerToken == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(time.Duration(n) * s.options.PerToken)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
