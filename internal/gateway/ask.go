package gateway

import (
	"context"
	"net/http"

	"tandem/internal/people"
)

// askPath is where the console's page Try it asks, as a program does at Ollama's /api/generate, and within the same limits of the token that the person signed in with.
const (
	askPath = consolePath + "ask"
	maxAsk  = 256 << 10 // bytes
)

func (g *gateway) ask(w http.ResponseWriter, r *http.Request) error {
	who := people.From(r.Context())
	if !who.Role.May(people.Grader) {
		return refuse(http.StatusForbidden, "role", "to ask takes the role grader, which whoever runs the gateway gives to a token, unless its console is read-only")
	}
	from := caller{system: g.System}
	if g.tokens != nil {
		token, leave, err := g.tokens.enterNamed(who.Name)
		if from, leave, err = g.within(r.Context(), token, leave, err); err != nil {
			return err
		}
		defer leave()
	}
	leave, err := g.place()
	if err != nil {
		return err
	}
	defer leave()
	if seen, is := w.(*recorder); is {
		traced, answered := traced(seen, r, "POST "+askPath)
		defer answered()
		r = traced
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxAsk)
	return g.generate(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, from)))
}
