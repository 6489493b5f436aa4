package handover

import (
	"fmt"
	"sync"
	"time"
)

const (
	// briefLimit is the time for a connection, TLS and all, to an address that could not be reached a moment ago. Within it a
	// neighbour answers many times over, and a link that is dead no longer costs every job the whole connectLimit.
	briefLimit = 250 * time.Millisecond
	// A link may be slow rather than dead, so after a pause one attempt has all its time again. If it fails, the pause doubles.
	firstAbsence = 5 * time.Second
	longAbsence  = time.Minute
	maxAbsent    = 64 // addresses; no decode machine has so many that take turns in being away
)

// absences remembers the addresses that could not be reached, until they can. The zero value remembers none.
type absences struct {
	mu    sync.Mutex
	hosts map[string]*absence
}

// absence is one such address.
type absence struct {
	noted  time.Time     // when it last could not be reached, with all the time that it takes
	pause  time.Duration // from then on attempts are brief
	trying bool          // an attempt has all its time at the moment
}

// attempt is one try to reach an address.
type attempt struct {
	of    *absences
	host  string
	known *absence // the address was away when this began; nil if not
	whole bool     // it has all its time though the address was away
	away  string   // what is known of an address to which this is a brief attempt
}

// begin starts an attempt. One that is patient has all its time in any case: it is for a transfer that is worth it.
func (a *absences) begin(host string, patient bool) *attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := &attempt{of: a, host: host, known: a.hosts[host]}
	if t.known == nil || patient {
		return t
	}
	ago := time.Since(t.known.noted)
	left := t.known.pause - ago
	switch {
	case t.known.trying:
		t.away = fmt.Sprintf("it was unreachable %s ago, and another job gives it more time now", ago.Round(time.Second))
	case left > 0:
		t.away = fmt.Sprintf("it was unreachable %s ago; it is given more time again in %s", ago.Round(time.Second), left.Round(time.Second))
	default:
		t.whole, t.known.trying = true, true
	}
	return t
}

// brief reports whether the attempt has to be over within briefLimit.
func (t *attempt) brief() bool { return t.away != "" }

// reached notes that the address answered.
func (t *attempt) reached() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	delete(t.of.hosts, t.host)
}

// failed notes that it could not be reached. Several that began before anybody knew are one failure, and a brief attempt says
// nothing new.
func (t *attempt) failed() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	now, there := time.Now(), t.of.hosts[t.host]
	switch {
	case there == nil:
		if t.of.hosts == nil || len(t.of.hosts) >= maxAbsent {
			t.of.hosts = map[string]*absence{}
		}
		t.of.hosts[t.host] = &absence{noted: now, pause: firstAbsence}
	case t.whole && there == t.known:
		there.noted, there.pause, there.trying = now, min(2*there.pause, longAbsence), false
	}
}

// unknown notes that the attempt ended for another reason.
func (t *attempt) unknown() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.whole {
		t.known.trying = false
	}
}
