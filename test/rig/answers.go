package rig

import (
	"net/http"

	"tandem/test/rig/history"
	"tandem/test/rig/tap"
)

// answers is what an engine does that is not well, by the name in a plan. All were seen of real ones, see docs/ARCHITECTURE.md.
var answers = map[string]tap.Answer{
	"refuse":             {Verdict: tap.Reset},
	"500 out of memory":  {Status: http.StatusInternalServerError, Text: `{"error":"an error was encountered while running the model: out of memory"}`},
	"503 loading":        {Status: http.StatusServiceUnavailable, Text: `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`},
	"404 missing":        {Status: http.StatusNotFound, Text: `{"error":"model 'x' not found"}`},
	"hang before":        {Verdict: tap.Lose},
	"hang in mid stream": {Hang: 100},
	"error line":         {Cut: 100, Append: "\n" + `{"error":"an error was encountered while running the model: unexpected EOF"}` + "\n"},
	"close early":        {Cut: 100},
	"rubbish":            {Status: http.StatusOK, Text: "<html>this is no engine</html>"},
}

// spoil has the engine's next call that computes go wrong.
func (m *machine) spoil(how string) {
	m.answerMu.Lock()
	defer m.answerMu.Unlock()
	m.answers = append(m.answers, how)
}

// slotSteps are the calls by which a llama-server moves the state of a slot, by their parameter.
var slotSteps = map[string]Step{"save": InSave, "restore": InRestore}

// on reads a request on its way to the engine.
func (m *machine) on(r *recorder) func(*tap.Exchange) tap.Answer {
	return func(e *tap.Exchange) tap.Answer {
		if !r.call(m.Name(), e) {
			step := slotSteps[e.Request.URL.Query().Get("action")]
			return tap.Answer{Answered: func() { m.worker.reached(step) }}
		}
		m.answerMu.Lock()
		how := ""
		if len(m.answers) > 0 {
			how, m.answers = m.answers[0], m.answers[1:]
		}
		m.answerMu.Unlock()
		if how != "" {
			r.log.Add(history.Event{Kind: history.Fault, Process: m.Name(), Note: Answer + ": " + how})
		}
		a := answers[how]
		a.Answered = func() { m.worker.reached(InCall) }
		return a
	}
}

// spoilState sets bytes of a KV state to what no computation gave, away from the head, which llama-server checks.
func spoilState(at int, piece []byte) {
	const head = 6 << 10
	for i := range piece {
		if at+i > head && (at+i)%64 == 0 {
			piece[i] ^= 0x55
		}
	}
}
