package queue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// A list is read to its end also while presences expire under the reader.
func TestWorkersWhilePresencesExpire(t *testing.T) {
	t.Parallel()
	r := newRig(t, presenceTTL(2*time.Second))
	limit, cancel := context.WithTimeout(t.Context(), enough)
	defer cancel()
	kv, err := r.js.KeyValue(limit, BucketWorkers)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	most, last := 0, 1
	for i := 0; time.Since(start) < r.timing.PresenceTTL+time.Second || last > 0; i++ {
		if time.Since(start) < r.timing.PresenceTTL { // presences that end one after the other, later on
			p := fmt.Sprintf(`{"role":"decode","model":%q,"worker":"w%d"}`, testModel, i)
			if _, err := kv.PutString(limit, presenceKey(protocol.RoleDecode, testModel, fmt.Sprintf("w%d", i)), p); err != nil {
				t.Fatal(err)
			}
		}
		list, err := r.Workers(limit)
		if err != nil {
			t.Fatal(err)
		}
		last = len(list)
		most = max(most, last)
	}
	if most < 3 {
		t.Errorf("at most %d workers at once, so nothing was shown", most)
	}
}

// A worker knows the others that serve its model, what they say of their KV states included, and not itself.
func TestPeers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	states := func(build string) func(*WorkerConfig) {
		return func(c *WorkerConfig) {
			c.Machine = build
			c.Describe = func() Presence {
				return Presence{State: StateReady, Slots: 1, Fingerprint: &jobs.Fingerprint{Build: build}, StoppedPairs: []string{"spark-9"}}
			}
		}
	}
	down := func(c *WorkerConfig) { c.Describe = func() Presence { return Presence{State: StateDown} } }
	other := func(c *WorkerConfig) { c.Model = "other:1b" }
	s := r.prepare(protocol.RolePrefill, 1, passOn, states("here"))
	if list := s.Peers(); len(list) != 0 {
		t.Errorf("peers before the start: %+v", list)
	}
	s.begin()
	r.start(protocol.RolePrefill, 1, passOn, states("beside"))
	mac := r.start(protocol.RoleDecode, 1, answer, states("mac"))
	r.start(protocol.RoleDecode, 1, answer, down)
	r.start(protocol.RoleDecode, 1, answer, other)
	r.present("five workers", func(list []Presence) bool { return len(list) == 5 })
	r.eventually("two peers", func() bool { return len(s.Peers()) == 2 })
	for i, want := range []string{"mac", "beside"} { // decode comes before prefill
		p := s.Peers()[i]
		if p.Machine != want || p.Fingerprint == nil || p.Fingerprint.Build != want || len(p.StoppedPairs) != 1 || p.StoppedPairs[0] != "spark-9" {
			t.Errorf("peer %d = %+v, want that on %s", i, p, want)
		}
	}
	if err := mac.stop(); err != nil {
		t.Error(err)
	}
	r.eventually("one peer", func() bool { return len(s.Peers()) == 1 })
}

// Who is present is told by the server's time, so that a worker that died before the server's clock was set back, or after one that did, is gone.
func TestRecentPresence(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	now := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		ago  time.Duration
		want bool
	}{
		{"of this instant", 0, true},
		{"of the last beat", 3 * time.Second, true},
		{"stored while the list was read", -time.Second, true},
		{"which the server could not forget", 11 * time.Second, false},
		{"of before the clock was set back", -2 * time.Hour, false},
	} {
		if got := recent(now.Add(-tt.ago), now, ttl); got != tt.want {
			t.Errorf("a presence %s counts: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What a worker said that it runs has gone on since; the record itself stays as it is.
func TestAge(t *testing.T) {
	said := Presence{Running: []protocol.Running{{EndsSeconds: 10, FirstSeconds: 2}, {EndsSeconds: 1, HandsOver: true}, {EndsSeconds: 1, Ahead: true}}}
	p := said
	p.age(4 * time.Second)
	if want := []protocol.Running{{EndsSeconds: 6}, {EndsSeconds: 3 * lateShare, HandsOver: true}, {Ahead: true}}; !slices.Equal(p.Running, want) {
		t.Errorf("running %+v, want %+v", p.Running, want)
	}
	if said.Running[0].EndsSeconds != 10 {
		t.Errorf("what was said was changed: %+v", said.Running)
	}
}
