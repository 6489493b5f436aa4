package rubric

import (
	"math/big"
	"strconv"
	"strings"
)

// Limits of a number, so that 1e999999999 costs nothing: a rational number of it would have a billion digits.
const (
	maxDigits   = 64
	maxExponent = 64
)

// sane reports whether a JSON number is one that a rubric may hold.
func sane(text string) bool {
	if len(text) > maxDigits {
		return false
	}
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return true
	}
	e, err := strconv.Atoi(text[at+1:])
	return err == nil && e >= -maxExponent && e <= maxExponent
}

// number reads a number, or a string that is one, exactly. Of "40%" it gives 40 and says that this is a percentage. nil stands for no number.
func (n *node) number() (value *big.Rat, percent bool) {
	if n == nil || n.kind != '0' && n.kind != '"' {
		return nil, false
	}
	text, percent := strings.CutSuffix(strings.TrimSpace(n.text), "%")
	if text = strings.TrimSpace(text); !sane(text) {
		return nil, false
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, false
	}
	return value, percent
}

// part reads a number in which "40%" is 0.4.
func (n *node) part() *big.Rat {
	value, percent := n.number()
	if percent {
		value.Quo(value, big.NewRat(100, 1))
	}
	return value
}

// decimal writes a number for a person, with six decimals at most.
func decimal(r *big.Rat) string {
	s := r.FloatString(6)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// near reports whether two numbers differ by no more than within.
func near(a, b, within *big.Rat) bool {
	d := new(big.Rat).Sub(a, b)
	return d.Abs(d).Cmp(within) <= 0
}

// sum adds up.
func sum(list []*big.Rat) *big.Rat {
	total := new(big.Rat)
	for _, r := range list {
		total.Add(total, r)
	}
	return total
}
