package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// membership is one worker's view of the workers that serve its model. It hears each of their beats and
// takes one for gone when it was silent for the bucket's TTL, whether or not the server has noticed.
type membership struct {
	model string
	role  jobs.Stage    // of the worker whose view it is
	self  string        // the key of its presence
	ttl   time.Duration // silence after which a worker is gone
	grace time.Duration // for a prefill worker to appear, or appear again, before its jobs are taken over

	mu         sync.Mutex
	heartbeats map[string]heartbeat // by the key of the presence
	heard      time.Time            // when one of the others was heard last
	alone      time.Time            // since when there is no live prefill worker; zero while there is one
	view       snapshot
	changed    chan struct{} // closed and replaced when view changes
	heardOf    chan struct{} // and when anybody is heard of

	asks chan chan struct{} // of catchUp
}

type heartbeat struct {
	presence Presence
	heard    time.Time
}

// snapshot is what a worker decides by.
type snapshot struct {
	decodeSlots int  // of the live decode workers
	noPrefill   bool // no live prefill worker is left, and none came within the grace
	peers       int  // other live workers of the same role
	idleSlots   int  // of those that are ready, as they said last
}

func newMembership(model string, timing Timing, now time.Time) *membership {
	return &membership{
		model: model, ttl: timing.PresenceTTL, grace: timing.Beat / 3, // so that the jobs of the last one are begun within 12 s: 10 of silence, this, and two ticks
		heartbeats: map[string]heartbeat{}, alone: now, changed: make(chan struct{}), heardOf: make(chan struct{}), asks: make(chan chan struct{}),
	}
}

// begin sets the time from which workers are waited for.
func (f *membership) begin(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alone = now
}

// snapshot returns the present view and a channel that is closed when it changes.
func (f *membership) snapshot() (snapshot, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view, f.changed
}

// news returns a channel that is closed when anybody is heard of, and by notify.
func (f *membership) news() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.heardOf
}

// notify has whoever waits for news look again.
func (f *membership) notify() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notifyLocked()
}

func (f *membership) notifyLocked() {
	close(f.heardOf)
	f.heardOf = make(chan struct{})
}

// peers lists the live workers of the model but one, in the order of role and worker. What they run has gone on since they were heard.
func (f *membership) peers(but string) []Presence {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []Presence
	now := time.Now()
	for _, s := range f.heartbeats {
		p := s.presence
		if !p.Live() || p.Model != f.model || p.Worker == but {
			continue
		}
		p.age(now.Sub(s.heard))
		list = append(list, p)
	}
	slices.SortFunc(list, inOrder)
	return list
}

// record takes a sign of life; a nil presence means that the worker deregistered.
func (f *membership) record(key string, p *Presence, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p == nil {
		delete(f.heartbeats, key)
	} else {
		f.heartbeats[key] = heartbeat{*p, now}
	}
	if key != f.self {
		f.heard = now
	}
	f.count(now)
	f.notifyLocked()
}

// lastHeard is when one of the others was heard last.
func (f *membership) lastHeard() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.heard
}

// expire forgets who was silent for too long.
func (f *membership) expire(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, s := range f.heartbeats {
		if now.Sub(s.heard) > f.ttl {
			delete(f.heartbeats, key)
		}
	}
	f.count(now)
}

// extend renews all leases: it was this worker that could not hear.
func (f *membership) extend(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, s := range f.heartbeats {
		f.heartbeats[key] = heartbeat{s.presence, now}
	}
}

// count brings the view up to date. The lock must be held.
func (f *membership) count(now time.Time) {
	var prefill, slots, peers, idle int
	for key, s := range f.heartbeats {
		if p := s.presence; p.Live() && p.Model == f.model && p.Role == f.role && key != f.self {
			peers++
			if p.State == StateReady {
				idle += max(0, p.Slots-p.Busy)
			}
		}
		switch p := s.presence; {
		case !p.Live() || p.Model != f.model:
		case p.Role == protocol.RolePrefill:
			prefill++
		case p.Role == protocol.RoleDecode:
			slots += p.Slots
		}
	}
	switch {
	case prefill > 0:
		f.alone = time.Time{}
	case f.alone.IsZero():
		f.alone = now
	}
	view := snapshot{
		decodeSlots: slots, noPrefill: prefill == 0 && now.Sub(f.alone) >= f.grace, peers: peers, idleSlots: idle,
	}
	if view != f.view {
		f.view = view
		close(f.changed)
		f.changed = make(chan struct{})
		f.notifyLocked()
	}
}

// receive takes what a worker says of itself.
func (f *membership) receive(m *nats.Msg) {
	key, broadcast := strings.CutPrefix(m.Subject, livePrefix)
	if !broadcast {
		key = m.Subject[len(presencePrefix):]
	}
	var p Presence
	if m.Header.Get("KV-Operation") != "" {
		f.record(key, nil, time.Now())
	} else if json.Unmarshal(m.Data, &p) == nil {
		f.record(key, &p, time.Now())
	}
}

// catchUp waits until all that has come of others was heard, though not for long: when the answer to a question to NATS is here, so is all that others
// said before.
func (f *membership) catchUp() {
	const longest = 20 * time.Millisecond
	limit, done := time.After(longest), make(chan struct{})
	select {
	case f.asks <- done:
	case <-limit:
		return
	}
	select {
	case <-done:
	case <-limit:
	}
}

// watch keeps the view up to date until the context ends. The first view is complete when
// ready is called.
func (f *membership) watch(ctx context.Context, c *Conn, ready func()) error {
	nc := c.nc
	pattern := "*." + protocol.KeyToken(f.model) + ".*"
	heard := make(chan *nats.Msg, 256)
	sub, err := nc.ChanSubscribe(presencePrefix+pattern, heard)
	if err != nil {
		return fmt.Errorf("watch workers: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	live, err := nc.ChanSubscribe(livePrefix+pattern, heard)
	if err != nil {
		return fmt.Errorf("watch workers: %w", err)
	}
	defer func() { _ = live.Unsubscribe() }()
	status := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(status)

	// The beats tell everything within one beat; the bucket tells it at once.
	var present []Presence
	if err := retryUnavailable(ctx, absentLimit, func() (err error) {
		present, err = c.presences(ctx, pattern)
		return err
	}); err != nil {
		return err
	}
	for _, p := range present {
		f.record(presenceKey(p.Role, p.Model, p.Worker), &p, time.Now())
	}
	ready()

	tick := time.NewTicker(max(f.grace/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case m := <-heard:
			f.receive(m)
		case done := <-f.asks:
			for len(heard) > 0 {
				f.receive(<-heard)
			}
			close(done)
		case now := <-tick.C:
			if nc.IsConnected() {
				f.expire(now)
			}
		case <-status:
			f.extend(time.Now())
		case <-ctx.Done():
			return nil
		}
	}
}
