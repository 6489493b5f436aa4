package llamacpp

import (
	"context"
	"strings"

	"tandem/internal/engine"
)

// shared is how many of the prompt's tokens belong to the part that other jobs begin with too, as the
// request says. Where the rendered text has that part's end is found by rendering the request with only it:
// both texts are equal up to there.
func (c *call) shared(ctx context.Context, req engine.Request, whole string) (int, error) {
	head, ok := sharedRequest(req)
	if !ok {
		return 0, nil
	}
	text := head.Prompt
	if !c.raw {
		var err error
		if text, err = c.server.render(ctx, chatOf(head)); err != nil {
			return 0, nil // a template may refuse half a conversation; only a saving is lost
		}
	}
	n := 0
	for n < min(len(text), len(whole)) && text[n] == whole[n] {
		n++
	}
	tokens, err := c.server.Tokens(ctx, strings.ToValidUTF8(whole[:n], ""))
	if err != nil {
		return 0, err
	}
	return common(tokens, c.prompt.Tokens), nil
}

// sharedRequest is the request with nothing but its shared part, and whether it has one that is not all.
func sharedRequest(req engine.Request) (engine.Request, bool) {
	n := req.SharedPrefix
	switch {
	case n <= 0:
		return req, false
	case len(req.Messages) > 0:
		if n >= len(req.Messages) {
			return req, false
		}
		req.Messages = req.Messages[:n]
	default:
		if n >= len(req.Prompt) {
			return req, false
		}
		req.Prompt = req.Prompt[:n]
	}
	return req, true
}

func common(a, b []int32) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
