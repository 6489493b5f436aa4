package engine

import (
	"math"

	"tandem/internal/jobs"
)

// Divergence says how far apart two predictions of the next token are: their total variation distance
// over the tokens that either lists, from 0 (equal) to 1 (nothing in common). A token that one does
// not list counts there with nothing, and what both leave out is not compared, so the value is at most the
// true distance plus the smaller of the two rests.
func Divergence(a, b []jobs.TokenProb) float64 {
	p := map[int]float64{}
	for _, t := range a {
		p[t.ID] += math.Exp(t.LogProb)
	}
	for _, t := range b {
		p[t.ID] -= math.Exp(t.LogProb)
	}
	var sum float64
	for _, d := range p {
		sum += math.Abs(d)
	}
	return min(sum/2, 1)
}
