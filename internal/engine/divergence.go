package engine

import (
	"math"

	"tandem/jobs"
)

// Divergence says how far apart two predictions of the next token are: their total variation distance
// over the tokens that either lists, from 0 (equal) to 1 (nothing in common). A token that one does
// not list counts there with nothing, and what both leave out is not compared, so the value is at most the
// true distance plus the smaller of the two rests.
func Divergence(a, b []jobs.TokenProb) float64 { return Distance(Prediction(a), Prediction(b)) }

// Prediction is the list of a prediction by its tokens, with the natural logarithms of their probabilities.
func Prediction(list []jobs.TokenProb) map[int]float64 {
	p := make(map[int]float64, len(list))
	for _, t := range list {
		p[t.ID] = t.LogProb
	}
	return p
}

// Distance is [Divergence] of predictions by their tokens.
func Distance(a, b map[int]float64) float64 {
	var sum float64
	for id, p := range a {
		q, both := b[id]
		if !both {
			q = math.Inf(-1)
		}
		sum += math.Abs(math.Exp(p) - math.Exp(q))
	}
	for id, q := range b {
		if _, both := a[id]; !both {
			sum += math.Exp(q)
		}
	}
	return min(sum/2, 1)
}
