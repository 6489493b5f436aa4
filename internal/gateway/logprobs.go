package gateway

import (
	"unicode/utf8"

	"tandem/jobs"
)

// tokenLogprob is a token, and how likely it was, as both APIs have it.
type tokenLogprob struct {
	Token   string          `json:"token"`
	Logprob float64         `json:"logprob"`
	Bytes   []int           `json:"bytes"`
	Top     *[]tokenLogprob `json:"top_logprobs,omitempty"`
}

// logprobsOf writes logprobs as Ollama does.
func logprobsOf(list []jobs.TokenLogprob) []tokenLogprob {
	out := []tokenLogprob{}
	for _, t := range list {
		one := tokenLogprob{Token: t.Token, Logprob: t.Logprob, Bytes: t.TextBytes()}
		if len(t.Top) > 0 {
			one.Top = new(logprobsOf(t.Top))
		}
		out = append(out, one)
	}
	return out
}

// chatLogprobs writes logprobs as OpenAI's chat completions do, where the list of others is there always.
func chatLogprobs(list []jobs.TokenLogprob) any {
	if len(list) == 0 {
		return nil
	}
	out := logprobsOf(list)
	for i := range out {
		if out[i].Top == nil {
			out[i].Top = &[]tokenLogprob{}
		}
	}
	return map[string]any{"content": out, "refusal": nil}
}

// textLogprobs writes logprobs as OpenAI's text completions do: a list for each of their fields.
func (c *completion) textLogprobs(list []jobs.TokenLogprob) any {
	if len(list) == 0 {
		return nil
	}
	var out struct {
		Tokens   []string             `json:"tokens"`
		Logprobs []float64            `json:"token_logprobs"`
		Top      []map[string]float64 `json:"top_logprobs"` // null if no others are asked for
		Offsets  []int                `json:"text_offset"`
	}
	for _, t := range list {
		out.Tokens, out.Logprobs, out.Offsets = append(out.Tokens, t.Token), append(out.Logprobs, t.Logprob), append(out.Offsets, c.offset)
		c.offset += utf8.RuneCountInString(t.Token)
		if c.job.TopLogprobs > 0 {
			top := map[string]float64{}
			for _, other := range t.Top {
				top[other.Token] = other.Logprob
			}
			out.Top = append(out.Top, top)
		}
	}
	return out
}
