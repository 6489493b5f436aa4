package engine

import (
	"math"
	"math/bits"

	"tandem/internal/jobs"
	"tandem/internal/schedule"
)

// Size is what is known of a job before it runs.
type Size struct {
	Tokens    int    // of the prompt
	Prefix    int    // of these, shared with others
	Generated int    // tokens of the answer
	Key       string // of the shared prefix, as of [PrefixKey]; empty if there is none
}

// SizeOf estimates the size of a job whose text is so many bytes. answer is how many tokens answers of its kind have.
func SizeOf(j *jobs.Job, promptBytes int, bytesPerToken, answer float64) Size {
	req := RequestOf(j)
	z := Size{Tokens: max(1, int(math.Ceil(float64(promptBytes)/bytesPerToken))), Generated: int(answer)}
	if z.Key = PrefixKey(req); z.Key != "" {
		z.Prefix = min(PrefixTokens(req, z.Tokens), z.Tokens)
	}
	if limit := j.Options.NumPredict; limit != nil && *limit >= 0 {
		z.Generated = min(z.Generated, *limit)
	}
	return z
}

// Answer is how many tokens the answers of a model's jobs have, as far as any of its workers has measured that.
func Answer(model string, workers []Peer) Speed {
	for _, w := range workers {
		if s := SpeedsOf(model, w.Role, w.Rates).Generated(); s.Measured {
			return s
		}
	}
	return SpeedsOf(model, jobs.RoleDecode, jobs.Rates{}).Generated()
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

// Kinds puts jobs of about equal size together: kinds of them, and all in lots of a kind, in order. Of a prompt's own part and of an answer four binary
// digits count, so that a job is off by 6 % at most, and all jobs by hardly anything.
func Kinds(sizes []Size) (kinds []Size, lots []schedule.Lot) {
	known, prefixes := map[Size]int{}, map[string]int{}
	for _, z := range sizes {
		own := rounded(z.Tokens - z.Prefix)
		if prefix, there := prefixes[z.Key]; there {
			z.Prefix = prefix // as long as that of the others, which was estimated, too
		}
		prefixes[z.Key] = z.Prefix
		z.Tokens, z.Generated = z.Prefix+own, rounded(z.Generated)
		kind, there := known[z]
		if !there {
			kind = len(kinds)
			known[z] = kind
			kinds = append(kinds, z)
		}
		if last := len(lots) - 1; last >= 0 && lots[last].Kind == kind {
			lots[last].Count++
		} else {
			lots = append(lots, schedule.Lot{Kind: kind, Count: 1})
		}
	}
	return kinds, lots
}

// rounded keeps the first four binary digits of a number that is not negative.
func rounded(n int) int {
	shift := max(0, bits.Len(uint(n))-4)
	return (n + 1<<shift>>1) >> shift << shift
}
