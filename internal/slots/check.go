package slots

import (
	"context"
	"math"

	"tandem/internal/engine"
	"tandem/internal/jobs"
)

// singly is how many prompts of the check are also computed token by token.
const singly = 3

// Check has the server compute the prompts of the check, and says what it predicts after them: each in a slot in which nothing of the prompt is used,
// then with all of it but its last token in the cache, as a hand-over does, and some of them token by token.
func (s *Server) Check(ctx context.Context) (*jobs.Check, error) {
	prompts, name := engine.CheckPrompts()
	c := &jobs.Check{Prompts: name, Start: s.id.Start}
	var cached, single []float64
	for i, text := range prompts {
		tokens, err := s.Tokens(ctx, text)
		if err != nil {
			return nil, err
		}
		sl, err := s.Acquire(ctx, tokens)
		if err != nil {
			return nil, err
		}
		p, err := sl.check(ctx, tokens, i < singly)
		sl.Release()
		if err != nil {
			return nil, err
		}
		c.Predictions = append(c.Predictions, short(p.cold))
		cached = append(cached, engine.Divergence(p.cold, p.cached))
		if p.single != nil {
			single = append(single, engine.Divergence(p.cold, p.single))
		}
	}
	c.Cached, c.Far = engine.Apart(cached)
	c.Single, _ = engine.Apart(single)
	return c, nil
}

// checked is what a slot predicts after one prompt, on three ways.
type checked struct{ cold, cached, single []jobs.TokenProb }

// check computes one prompt on these ways, token by token only if singly.
func (sl *Slot) check(ctx context.Context, tokens []int32, singly bool) (c checked, err error) {
	n := len(tokens)
	ways := []struct {
		to    *[]jobs.TokenProb
		steps []int // how much of the prompt is computed before the rest
	}{
		{&c.cold, nil},
		{&c.cached, []int{n - 1}},
	}
	if singly {
		var each []int
		for i := 1; i < n; i++ {
			each = append(each, i)
		}
		ways = append(ways, struct {
			to    *[]jobs.TokenProb
			steps []int
		}{&c.single, each})
	}
	for _, w := range ways {
		sl.cache.forget()
		sl.cache.foreign = true // so that what is computed first uses nothing of what the slot holds
		for _, k := range w.steps {
			if _, err := sl.compute(ctx, tokens[:k], func() {}); err != nil {
				return c, err
			}
		}
		p, err := sl.predict(ctx, tokens)
		if err != nil {
			return c, err
		}
		want := 0
		if len(w.steps) > 0 {
			want = sl.server.Proof(n - 1)
		}
		if p.cached < want || len(w.steps) == 0 && p.cached > 0 {
			return c, jobs.Errorf(jobs.CodeEngineBusy, "slot %d had %d tokens of a prompt of %d in its cache while the engine was checked, so another request has used it; let only the worker use this llama-server", sl.cache.id, p.cached, n)
		}
		*w.to = p.tokens
	}
	return c, nil
}

// short is a prediction with as many digits as are told to others.
func short(list []jobs.TokenProb) map[int]float64 {
	p := engine.Prediction(list)
	for id, l := range p {
		p[id] = math.Round(1e4*l) / 1e4
	}
	return p
}
