package engine

import (
	"math"
	"math/bits"

	"tandem/internal/protocol"
	"tandem/internal/schedule"
	"tandem/jobs"
)

// Size is what is known of a job before it runs.
type Size struct {
	Tokens    int    // of the prompt
	Prefix    int    // of these, shared with others
	Generated int    // tokens of the answer
	Key       string // of the shared prefix, as of [PrefixKey]; empty if there is none
}

// Text is how much text a job has, from which its size is estimated. It holds none of it.
type Text struct {
	Bytes  int    // of the prompt
	Shared int    // of these, shared with others
	Key    string // of what is shared, as of [PrefixKey]
	Kind   string // of its answer, as of [KindOf]
	Limit  int    // tokens of the answer at most; -1 if the job says nothing of it
}

// TextOf measures a job.
func TextOf(j *jobs.Job) Text {
	req := RequestOf(j)
	t := Text{Bytes: j.TextBytes(), Key: PrefixKey(req), Kind: KindOf(j), Limit: LimitOf(j)}
	if t.Key != "" {
		t.Shared = min(PrefixTokens(req, t.Bytes), t.Bytes)
	}
	return t
}

// LimitOf is how many tokens the answer of a job has at most; -1 if it says nothing of that.
func LimitOf(j *jobs.Job) int {
	if j.Embed != nil { // which has no answer
		return 0
	}
	if limit := j.Options.NumPredict; limit != nil && *limit >= 0 {
		return *limit
	}
	return -1
}

// Size estimates the job's size. answer is how many tokens its answer has, as of [Answer].
func (t Text) Size(bytesPerToken, answer float64) Size {
	z := Size{
		Tokens: max(1, int(math.Ceil(float64(t.Bytes)/bytesPerToken))), Prefix: int(math.Ceil(float64(t.Shared) / bytesPerToken)), Generated: int(answer), Key: t.Key,
	}
	z.Prefix = min(z.Prefix, z.Tokens)
	return z
}

// Answer is how many tokens the answer of a model's job of a kind has, and at most the limit if that is not below 0, as far as any of its workers has
// measured that.
func Answer(model, kind string, limit int, workers []Peer) Speed {
	for _, w := range workers {
		if s := SpeedsOf(model, w.Role, w.Rates).Generated(kind, limit); s.Measured {
			return s
		}
	}
	return SpeedsOf(model, protocol.RoleDecode, protocol.Rates{}).Generated(kind, limit)
}

// BytesPerToken is how much text a token of a model is, as far as any of its workers has measured that.
func BytesPerToken(workers []Peer) Speed {
	for _, w := range workers {
		if v := w.Rates.PromptBytesPerToken; v > 0 {
			return Speed{v, true}
		}
	}
	return Speed{coldBytesPerToken, false}
}

// Kinds puts jobs of about equal size together: kinds of them, each as large as its jobs are on average, and all in lots of a kind, in order. Of a prompt's own
// part and of an answer the first four binary digits must be equal.
func Kinds(sizes []Size) (kinds []Size, lots []schedule.Lot) {
	known := map[Size]int{}
	var counts []int
	for _, z := range sizes {
		like := Size{Tokens: rounded(z.Tokens - z.Prefix), Prefix: rounded(z.Prefix), Generated: rounded(z.Generated), Key: z.Key}
		kind, there := known[like]
		if !there {
			kind = len(kinds)
			known[like] = kind
			kinds, counts = append(kinds, Size{Key: z.Key}), append(counts, 0)
		}
		sum := &kinds[kind]
		sum.Tokens, sum.Prefix, sum.Generated = sum.Tokens+z.Tokens, sum.Prefix+z.Prefix, sum.Generated+z.Generated
		counts[kind]++
		if last := len(lots) - 1; last >= 0 && lots[last].Kind == kind {
			lots[last].Count++
		} else {
			lots = append(lots, schedule.Lot{Kind: kind, Count: 1})
		}
	}
	for i, n := range counts {
		k := &kinds[i]
		k.Tokens, k.Prefix, k.Generated = k.Tokens/n, k.Prefix/n, k.Generated/n
	}
	return kinds, lots
}

// rounded keeps the first four binary digits of a number that is not negative.
func rounded(n int) int {
	shift := max(0, bits.Len(uint(n))-4)
	return (n + 1<<shift>>1) >> shift << shift
}
