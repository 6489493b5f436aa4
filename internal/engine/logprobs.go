package engine

import (
	"slices"

	"tandem/jobs"
)

// TokenLogprob is how Ollama, llama-server and servers of the OpenAI API write a token and how likely it was.
type TokenLogprob struct {
	Token   string         `json:"token"`
	Logprob float64        `json:"logprob"`
	Bytes   []int          `json:"bytes"` // of its text; left out by some
	Top     []TokenLogprob `json:"top_logprobs"`
}

// Logprobs gathers what an answer says of its tokens. Those of which no text came, since they are part of a character or of a call, are told with the next piece.
type Logprobs struct {
	all  []jobs.TokenLogprob
	told int
}

// Add takes what a server said, and of the likeliest tokens in the place of each as many as are asked for.
func (l *Logprobs) Add(list []TokenLogprob, top int) {
	for _, t := range list {
		one := recordOf(t)
		for _, other := range t.Top[:min(top, len(t.Top))] {
			one.Top = append(one.Top, recordOf(other))
		}
		l.all = append(l.all, one)
	}
}

// News are those that were not told yet.
func (l *Logprobs) News() []jobs.TokenLogprob {
	news := l.all[l.told:]
	l.told = len(l.all)
	return news
}

// All are those of the whole answer.
func (l *Logprobs) All() []jobs.TokenLogprob { return l.all }

// LogprobBytes is about how long logprobs are in a record.
func LogprobBytes(list []jobs.TokenLogprob) (n int) {
	for _, t := range list {
		n += len(`{"token":"","logprob":-1.2345678901234567},`) + len(t.Token) + 4*len(t.Bytes) + LogprobBytes(t.Top)
	}
	return n
}

func recordOf(t TokenLogprob) jobs.TokenLogprob {
	one := jobs.TokenLogprob{Token: t.Token, Logprob: t.Logprob}
	if t.Bytes != nil && !slices.Equal(t.Bytes, one.TextBytes()) { // of a part of a character, for which Ollama writes another, and llama-server none
		one.Bytes = t.Bytes
	}
	return one
}
