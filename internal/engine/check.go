package engine

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"tandem/internal/protocol"
)

// Checker is implemented by engines that can say what they predict after the prompts of the check. It takes seconds.
type Checker interface {
	Check(ctx context.Context) (*protocol.Check, error)
}

// checkPrompts are some kinds of text, of 40 to 120 tokens, and one that fills more than a batch of 512.
var checkPrompts = []string{
	"The quick brown fox jumps over the lazy dog, and the dog, who has seen many foxes, does not get up. What it thinks of the matter is not known, but it is",
	"def mean(values):\n    total = 0\n    for value in values:\n        total += value\n    return total / len(values)\n\nprint(mean([1, 2, 3, 4]))\n# The output is",
	"sales <- read.csv(\"sales.csv\")\nby_region <- aggregate(amount ~ region, data = sales, FUN = sum)\nby_region[order(-by_region$amount), ]\n# The first row shows the region with",
	"1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584, 4181, 6765, 10946,",
	"{\"student\": \"S-017\", \"section\": \"Joins\", \"points\": 7, \"of\": 10, \"comment\": \"The join is right; rows without a match are dropped, which the task did not ask for\", \"next\": \"",
	"Eine Tabelle hat Zeilen und Spalten. Jede Zeile ist eine Beobachtung, jede Spalte eine Variable, und in jeder Zelle steht",
	"Explain this program line by line:\n" + strings.Repeat("total <- total + price[i] * quantity[i]; i <- i + 1\n", 40) + "The value of total is",
}

// CheckPrompts are the prompts of the check, and what they are called together.
func CheckPrompts() (prompts []string, name string) {
	return slices.Clone(checkPrompts), fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(checkPrompts, "\n"))))[:12]
}

// How far apart predictions may be, of two engines and of one with and without its cache: the median over the prompts of the check, and how many of these may
// be more than farApart. Of sound engines no median was seen beyond 0.003, with a q8_0 cache 0.028, and one prompt of some hundred far apart, with random weights, where two tokens are nearly
// as likely; of a broken backend, or with other settings, medians of 0.2 to 0.7, or two prompts and more of seven (docs/MEASUREMENTS.md). Prompts computed token by token do not count: with some
// shapes a sound engine is 0.2 apart from itself there. They tell which of two is the wrong one.
const (
	mostDistance = 0.05
	farApart     = 0.25
	mostFar      = 1
)

// Apart is the median of some distances, 0 of none, and how many are far.
func Apart(distances []float64) (median float64, far int) {
	if len(distances) == 0 {
		return 0, 0
	}
	for _, d := range distances {
		if d > farApart {
			far++
		}
	}
	sorted := slices.Sorted(slices.Values(distances))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2, far
}

// Between is how far apart the predictions of two engines are. It is not known of checks with other prompts.
func Between(a, b *protocol.Check) (median float64, far int, ok bool) {
	if a.Prompts != b.Prompts || len(a.Predictions) != len(b.Predictions) || len(a.Predictions) == 0 {
		return 0, 0, false
	}
	var list []float64
	for i := range a.Predictions {
		list = append(list, Distance(a.Predictions[i], b.Predictions[i]))
	}
	median, far = Apart(list)
	return median, far, true
}

// Differ says why two engines are not to hand KV states to each other, which of them is suspected and what to try; it is empty if nothing speaks
// against it. Each is named by its machine.
func Differ(machineA string, a *protocol.Check, machineB string, b *protocol.Check) string {
	between, far, comparable := Between(a, b)
	if !comparable {
		return fmt.Sprintf("%s and %s were checked with other prompts; install the same version of Tandem on both", machineA, machineB)
	}
	if max(between, a.Cached, b.Cached) <= mostDistance && max(far, a.Far, b.Far) <= mostFar {
		return ""
	}
	suspect := "one of the two"
	switch itself := (a.Cached + a.Single + float64(a.Far)) - (b.Cached + b.Single + float64(b.Far)); {
	case itself > mostDistance:
		suspect = "the engine of " + machineA
	case itself < -mostDistance:
		suspect = "the engine of " + machineB
	}
	return fmt.Sprintf("after the same %d prompts, each computed by itself, %s and %s predict tokens %.3f apart (median; at most %.3g), %d times more than %.3g; "+
		"with and without its cache %s is %.3f apart from itself, %d times more, and %s %.3f, %d times; token by token and in batches %.3f and %.3f; suspected: %s. "+
		"Try another driver or build there, or variables of its backend (GGML_VK_DISABLE_F16=1), and start the engine again",
		len(a.Predictions), machineA, machineB, between, mostDistance, far, farApart, machineA, a.Cached, a.Far, machineB, b.Cached, b.Far, a.Single, b.Single, suspect)
}
