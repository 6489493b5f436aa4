package slots

import (
	"context"
	"math"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// singly is how many prompts of the check are also computed token by token.
const singly = 3

// Check has the server compute the prompts of the check, and says what it predicts after them: each in a slot in which nothing of the prompt is used,
// then with all of it but its last token in the cache, as a hand-over does, and some of them token by token.
func (s *Server) Check(ctx context.Context) (*protocol.Check, error) {
	prompts, name := engine.CheckPrompts()
	c := &protocol.Check{Prompts: name, Start: s.id.Start}
	var cached, single []float64
	for i, text := range prompts {
		tokens, err := s.Tokens(ctx, text)
		if err != nil {
			return nil, err
		}
		ways := [][]int{nil, {len(tokens) - 1}}
		if i < singly {
			ways = append(ways, oneByOne(len(tokens)))
		}
		p, err := s.predictions(ctx, Prompt{Tokens: tokens}, ways)
		if err != nil {
			return nil, err
		}
		c.Predictions = append(c.Predictions, short(p[0]))
		cached = append(cached, engine.Divergence(p[0], p[1]))
		if i < singly {
			single = append(single, engine.Divergence(p[0], p[2]))
		}
	}
	c.Cached, c.Far = engine.Apart(cached)
	c.Single, _ = engine.Apart(single)
	return c, nil
}

// oneByOne are the steps in which a prompt of n tokens is computed token by token.
func oneByOne(n int) (steps []int) {
	for i := 1; i < n; i++ {
		steps = append(steps, i)
	}
	return steps
}

// predictions is what a slot predicts after a prompt, computed afresh in each of these ways.
func (s *Server) predictions(ctx context.Context, p Prompt, ways [][]int) (list [][]jobs.TokenProb, err error) {
	sl, err := s.Acquire(ctx, p.Tokens)
	if err != nil {
		return nil, err
	}
	defer sl.Release()
	for _, steps := range ways {
		after, err := sl.afresh(ctx, p, steps...)
		if err != nil {
			return nil, err
		}
		list = append(list, after.tokens)
	}
	return list, nil
}

// afresh predicts what follows a prompt of which nothing that the slot holds is used: it is computed up to each of these numbers of tokens, one after the
// other, and then to its end.
func (sl *Slot) afresh(ctx context.Context, p Prompt, steps ...int) (prediction, error) {
	sl.cache.forget()
	sl.cache.foreign = true
	for _, n := range steps {
		if _, err := sl.compute(ctx, p.Tokens[:n], p.progress); err != nil {
			return prediction{}, err
		}
	}
	after, err := sl.predict(ctx, p.Tokens)
	if err != nil {
		return prediction{}, err
	}
	n := len(p.Tokens)
	if len(steps) == 0 && after.cached > 0 || len(steps) > 0 && after.cached < sl.server.Proof(n-1) {
		return prediction{}, jobs.Errorf(jobs.CodeEngineBusy, "slot %d had %d tokens of a prompt of %d in its cache after %d steps, so another request has used it; let only the worker use this llama-server", sl.cache.id, after.cached, n, len(steps))
	}
	return after, nil
}

// short is a prediction with as many digits as are told to others.
func short(list []jobs.TokenProb) map[int]float64 {
	p := engine.Prediction(list)
	for id, l := range p {
		p[id] = math.Round(1e4*l) / 1e4
	}
	return p
}
