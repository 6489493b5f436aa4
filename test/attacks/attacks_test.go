// Package attacks tries on a whole system what each identity might try that means harm, and looks at what came of it. It has no code, only
// the test, which writes the table in docs/SECURITY.md.
package attacks

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// aMoment is for how long an attack that went through, and is not allowed, is watched.
const aMoment = 60 * time.Millisecond

// plenty is for how long the effect of one that is allowed is waited for.
const plenty = 15 * time.Second

// table is all attacks, in the order in which they are made.
var table = slices.Concat(reading, forging, denying)

func TestAttacks(t *testing.T) {
	t.Run("keys", func(t *testing.T) {
		t.Parallel()
		newSite(t, true).attacked(byNobody, byGrader, byPrefill, byDecode, byGateway, byOperator)
	})
	// The same attacks succeed where they can: the test can see that.
	t.Run("no keys", func(t *testing.T) {
		t.Parallel()
		newSite(t, false).attacked(byAnybody)
	})
}

// attacked has every attack made by these identities.
func (s *site) attacked(by ...int) {
	for _, x := range table {
		for _, who := range by {
			s.now = x.name + ", by " + identities[who].column
			got, took := s.attack(x, who)
			if want := x.want[who]; got != want.word {
				s.t.Errorf("%s, by %s: %s, want %s", x.name, identities[who].column, got, want)
			}
			if took > 500*time.Millisecond {
				s.t.Logf("%s, by %s: %s", x.name, identities[who].column, took.Round(time.Millisecond))
			}
		}
	}
}

// attack makes one attack and says what came of it.
func (s *site) attack(x attack, who int) (word string, took time.Duration) {
	s.t.Helper()
	start := time.Now()
	if !x.ruins {
		s.settle()
	}
	v := s.victim()
	defer v.leave()
	a, err := v.attacker(identities[who])
	if err != nil {
		return denied.word, time.Since(start)
	}
	defer a.nc.Close()
	effect := x.try(a)
	watch := aMoment
	switch {
	case a.through == 0:
		watch = 0
	case x.want[who].word == own.word:
		watch = plenty
	}
	word = noEffect.word
	if poll(watch, effect) {
		word = own.word
	} else if a.through == 0 {
		word = denied.word
	}
	if x.ruins && word == own.word {
		s.remake()
	}
	return word, time.Since(start)
}
