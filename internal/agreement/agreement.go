// Package agreement says how far two people, or a person and a model, agree in their judgements of the same things.
package agreement

import (
	"math"
	"slices"
)

// Pair is one thing that both have judged, on a scale of levels: 0, 1, 2, ….
type Pair struct{ A, B int }

// Figure is a statistic with its interval.
type Figure struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"` // 95 % interval, by bootstrap
	High  float64 `json:"high"`
}

// Report is how far A and B agree. A figure is left out where it is not defined: where one of the two, or both, gave all things the same level.
type Report struct {
	Pairs  int     `json:"pairs"`
	Exact  *Figure `json:"exact,omitempty"`      // share of equal judgements
	Within *Figure `json:"within_one,omitempty"` // share of those that are one level apart at most
	Kappa  *Figure `json:"kappa,omitempty"`      // Cohen's, with quadratic weights (1968)
	ICC    *Figure `json:"icc,omitempty"`        // ICC(3,1) of Shrout and Fleiss (1979): two-way mixed, single judge, consistency
	Bias   *Figure `json:"bias,omitempty"`       // mean of B − A, in levels
}

// resamples is how often the pairs are drawn anew for an interval.
const resamples = 2000

// Of compares judgements on a scale of so many levels. The same pairs in the same order have the same report.
func Of(pairs []Pair, levels int) Report {
	return Report{
		Pairs:  len(pairs),
		Exact:  figure(pairs, exact),
		Within: figure(pairs, within),
		Kappa:  figure(pairs, func(p []Pair) float64 { return kappa(p, levels) }),
		ICC:    figure(pairs, icc),
		Bias:   figure(pairs, bias),
	}
}

// figure is a statistic of some pairs with its percentile interval, nil if it is not defined for them. Draws for which it is not defined are left out.
func figure(pairs []Pair, of func([]Pair) float64) *Figure {
	value := of(pairs)
	if math.IsNaN(value) {
		return nil
	}
	draws := make([]float64, 0, resamples)
	drawn := make([]Pair, len(pairs))
	next := generator()
	for range resamples {
		for i := range drawn {
			drawn[i] = pairs[next()%uint64(len(pairs))]
		}
		if v := of(drawn); !math.IsNaN(v) {
			draws = append(draws, v)
		}
	}
	slices.Sort(draws)
	return &Figure{value, quantile(draws, 0.025), quantile(draws, 0.975)}
}

// generator is SplitMix64 from the seed 1: a few lines in any language, so that a reference can draw the same.
// Source: https://prng.di.unimi.it/splitmix64.c
func generator() func() uint64 {
	state := uint64(1)
	return func() uint64 {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
}

// quantile is that of sorted figures, between two of them by a straight line (type 7 of Hyndman and Fan, as R and NumPy have it).
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func share(pairs []Pair, holds func(Pair) bool) float64 {
	n := 0
	for _, p := range pairs {
		if holds(p) {
			n++
		}
	}
	return float64(n) / float64(len(pairs)) // of none: not a number
}

func exact(pairs []Pair) float64 { return share(pairs, func(p Pair) bool { return p.A == p.B }) }

func within(pairs []Pair) float64 {
	return share(pairs, func(p Pair) bool { return p.A-p.B <= 1 && p.B-p.A <= 1 })
}

func bias(pairs []Pair) float64 {
	sum := 0
	for _, p := range pairs {
		sum += p.B - p.A
	}
	return float64(sum) / float64(len(pairs))
}

// kappa is 1 − Σ w·observed ÷ Σ w·expected, with w the square of the distance.
func kappa(pairs []Pair, levels int) float64 {
	byA, byB := make([]float64, levels), make([]float64, levels)
	observed := 0.0
	for _, p := range pairs {
		byA[p.A]++
		byB[p.B]++
		observed += float64((p.A - p.B) * (p.A - p.B))
	}
	expected := 0.0
	for a := range byA {
		for b := range byB {
			expected += float64((a-b)*(a-b)) * byA[a] * byB[b]
		}
	}
	return 1 - observed*float64(len(pairs))/expected // 0 ÷ 0 where both have one level only
}

// icc is (MSR − MSE) ÷ (MSR + MSE), of two judges: mean squares between things, and of what is left beside things and judges.
func icc(pairs []Pair) float64 {
	n := float64(len(pairs))
	if n < 2 {
		return math.NaN()
	}
	var sumA, sumB float64
	for _, p := range pairs {
		sumA, sumB = sumA+float64(p.A), sumB+float64(p.B)
	}
	mean := (sumA + sumB) / (2 * n)
	var rows, total float64
	for _, p := range pairs {
		a, b := float64(p.A)-mean, float64(p.B)-mean
		rows += 2 * (a + b) / 2 * (a + b) / 2
		total += a*a + b*b
	}
	judges := n * (math.Pow(sumA/n-mean, 2) + math.Pow(sumB/n-mean, 2))
	msr, mse := rows/(n-1), (total-rows-judges)/(n-1)
	if msr+mse < 1e-12 {
		return math.NaN()
	}
	return (msr - mse) / (msr + mse)
}
