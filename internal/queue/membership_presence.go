package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// The states of a worker.
const (
	StateReady    = "ready"    // the engine can work
	StateLoading  = "loading"  // it will soon
	StateDown     = "down"     // it does not answer, or fails one job after the other
	StateDraining = "draining" // the worker is being stopped and takes no more jobs
)

// Presence is what a worker says of itself every few seconds. It vanishes when the worker does.
type Presence struct {
	Worker        string             `json:"worker"`  // its id, unique among all workers
	Machine       string             `json:"machine"` // the name a person knows the machine by
	Role          jobs.Stage         `json:"role"`    // prefill or decode
	Model         string             `json:"model"`   // canonical
	Engine        string             `json:"engine,omitempty"`
	EngineVersion string             `json:"engine_version,omitempty"`
	ModelDigest   string             `json:"model_digest,omitempty"`
	State         string             `json:"state"`
	Problem       string             `json:"problem,omitempty"` // why it is down, with the remedy
	Slots         int                `json:"slots"`             // jobs it runs at once
	Busy          int                `json:"busy"`              // of those, in use now
	Running       []protocol.Running `json:"running,omitempty"` // the jobs that it is at
	ContextTokens int                `json:"context_tokens,omitempty"`
	Capabilities  []string           `json:"capabilities,omitempty"` // of the model in its engine, as in tools and vision; left out if the engine does not say
	HTTP          string             `json:"http,omitempty"`         // address of its HTTP API
	Version       string             `json:"version,omitempty"`
	Handover      []jobs.Kind        `json:"handover,omitempty"`
	Fingerprint   *jobs.Fingerprint  `json:"fingerprint,omitempty"`   // of the KV states that it writes or reads; nil if it moves none
	StatesURL     string             `json:"states_url,omitempty"`    // where it offers KV states; empty if it does not
	StatesKey     string             `json:"states_key,omitempty"`    // SHA-256 of the key of its certificate there, in hex; empty if others vouch for that, or there is none
	NoState       string             `json:"no_state,omitempty"`      // why it moves none, with the remedy
	Strict        bool               `json:"strict,omitempty"`        // it hands over only between engines that name their builds equally
	Check         *protocol.Check    `json:"check,omitempty"`         // what its engine predicts after the prompts of the check
	StoppedPairs  []string           `json:"stopped_pairs,omitempty"` // machines from which it takes no KV states, until an operator clears that
	SkewSeconds   float64            `json:"skew_seconds"`            // its wall clock minus the NATS server's
	Started       time.Time          `json:"started"`
	Rates         protocol.Rates     `json:"rates"`              // measured
	Prefixes      map[string]int     `json:"prefixes,omitempty"` // tokens of shared prefixes in its engine's cache, by a part of the hash of their text
	Copies        map[string]int     `json:"copies,omitempty"`   // likewise slots that have them
	Rows          map[string]int     `json:"rows,omitempty"`     // likewise tokens whose part of a KV state need not be sent to it
}

// Live reports whether the worker takes jobs now or will in a moment.
func (p Presence) Live() bool { return p.State == StateReady || p.State == StateLoading }

// age has what the worker runs go on for so long since it said so. A job that ought to have ended, and of whose end nobody has heard, goes on for a while: to
// think that it ends at any moment would have others wait for it, and look again and again.
func (p *Presence) age(d time.Duration) {
	p.Running = slices.Clone(p.Running)
	for i := range p.Running {
		r := &p.Running[i]
		r.FirstSeconds = max(0, r.FirstSeconds-d.Seconds())
		if r.EndsSeconds -= d.Seconds(); r.EndsSeconds < 0 {
			r.EndsSeconds = -r.EndsSeconds * lateShare
			if r.Ahead { // it waits, with its KV state
				r.EndsSeconds = 0
			}
		}
	}
}

// lateShare is for how long a late job goes on, as a share of how late it is.
const lateShare = 0.25

// presenceKey is where a worker's presence is kept: <role>.<model>.<worker>.
func presenceKey(role jobs.Stage, model, worker string) string {
	return protocol.KeyToken(string(role)) + "." + protocol.KeyToken(model) + "." + protocol.KeyToken(worker)
}

// presencePrefix is what the subjects of the bucket's keys begin with.
const presencePrefix = "$KV." + BucketWorkers + "."

// livePrefix is what the subjects begin with on which workers say what they are at, between their beats. Nothing of it is stored.
const livePrefix = "ctl.worker."

// Workers lists who is present, in the order of role, model and worker. The account must have JetStream.
func (c *Conn) Workers(ctx context.Context) ([]Presence, error) {
	return c.presences(ctx, ">")
}

// Workers lists who is present, in the order of role, model and worker.
func (c *Client) Workers(ctx context.Context) ([]Presence, error) {
	if !c.grader {
		return c.Conn.Workers(ctx)
	}
	o, err := c.Inspect(ctx)
	switch {
	case errors.Is(err, errNoWorker):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return o.Workers, nil
}

// presences reads the presences whose keys match the pattern, in the order of role, model and worker.
// What it cannot read it skips: another version's record must not hide the rest. It reads the messages
// themselves, since a watcher waits for ever for one that expires before it is delivered.
func (c *Conn) presences(ctx context.Context, pattern string) ([]Presence, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit) // no leader, no answer
	defer cancel()
	present := map[string]Presence{}
	bucket, err := c.js.Stream(ctx, "KV_"+BucketWorkers) // asked anew, for the server's time
	if err != nil {
		return nil, c.failed(ctx, err, "list workers")
	}
	now, ttl := bucket.CachedInfo().TimeStamp, bucket.CachedInfo().Config.MaxAge
	for seq := uint64(1); ; {
		msg, err := bucket.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(presencePrefix+pattern)) // a direct get: see topology_leader.go
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return nil, c.failed(ctx, err, "list workers")
		}
		seq = msg.Sequence + 1
		var p Presence
		if msg.Header.Get("KV-Operation") != "" || !recent(msg.Time, now, ttl) {
			delete(present, msg.Subject)
		} else if json.Unmarshal(msg.Data, &p) == nil {
			p.age(now.Sub(msg.Time))
			present[msg.Subject] = p
		}
	}
	return slices.SortedFunc(maps.Values(present), inOrder), nil
}

// recent reports whether what was stored at stamp is of somebody who may live. The server itself forgets what is older than ttl, but not when
// its clock was set back: then it keeps what is of the future until that has come, and all that was stored later. Who lives says so again within a beat.
func recent(stamp, now time.Time, ttl time.Duration) bool {
	return now.Sub(stamp).Abs() <= ttl
}

// inOrder is the order of role, model and worker.
func inOrder(a, b Presence) int {
	return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Worker, b.Worker))
}

// beat publishes the worker's presence regularly, and when asked to, until ctx ends.
func (w *Worker) beat(ctx context.Context) {
	tick := time.NewTicker(w.c.timing.Beat)
	defer tick.Stop()
	var settled <-chan time.Time
	failing := false
	for {
		select {
		case <-tick.C:
		case <-w.changed:
		case <-w.load.moved:
			settled = time.After(loadSettles)
			continue
		case <-settled:
			if free, _ := w.cfg.Slots.Idle(); (free > 0) == w.load.told {
				continue
			}
		case <-ctx.Done():
			return
		}
		switch err := w.publishPresence(ctx); {
		case err == nil:
			failing = false
		case ctx.Err() == nil && !failing:
			failing = true
			w.log.Warn("publish presence", "error", err)
		}
	}
}

// Broadcast tells the others of the model what the worker is at. Who does not hear it will hear the next beat.
func (w *Worker) Broadcast() {
	p := w.describe()
	data, err := json.Marshal(p)
	if err == nil {
		err = w.c.nc.Publish(livePrefix+presenceKey(p.Role, p.Model, p.Worker), data)
	}
	if err != nil {
		w.log.Debug("broadcast presence", "error", err)
	}
}

// loadSettles is for how long a worker has a free slot, or none, before it says so rather than with its next beat. Between two jobs
// that is not worth a stored message.
const loadSettles = 100 * time.Millisecond

// load is what a worker tells others of its slots.
type load struct {
	moved chan struct{} // holds a value when slots were taken or released
	told  bool          // it said that one was free; only beat's goroutine knows, once that runs
}

// changed notes that a slot was taken or released.
func (l *load) changed() {
	select {
	case l.moved <- struct{}{}:
	default: // that is known
	}
}

// describe is the worker's presence.
func (w *Worker) describe() Presence {
	p := w.cfg.Describe()
	p.Worker, p.Machine, p.Role, p.Model = w.cfg.ID, w.cfg.Machine, w.cfg.Role, w.cfg.Model
	p.Started, p.SkewSeconds = w.started, w.clock.skew(time.Now()).Seconds()
	if problem := w.breaker.problem(); problem != "" && p.Live() {
		p.State, p.Problem = StateDown, problem
	}
	if w.draining.Load() {
		p.State = StateDraining
	}
	return p
}

// publishPresence publishes the worker's presence and reads the server's clock off it.
func (w *Worker) publishPresence(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(w.c.timing.Beat, time.Second))
	defer cancel()
	p := w.describe()
	w.load.told = p.Busy < p.Slots
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode presence: %w", err)
	}
	key := presenceKey(p.Role, p.Model, p.Worker)
	before := time.Now()
	revision, err := w.presence.Put(ctx, key, data)
	after := time.Now()
	if err != nil {
		return fmt.Errorf("publish presence: %w", w.c.explain(err))
	}
	entry, err := w.presence.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil // a follower has not heard of it yet; the next beat tells the time
	}
	if err != nil {
		return fmt.Errorf("read presence: %w", w.c.explain(err))
	}
	if entry.Revision() == revision {
		w.clock.observe(before, after, entry.Created())
	}
	return nil
}

// deregister removes the worker's presence, so that nobody waits for its TTL.
func (w *Worker) deregister() {
	if !w.c.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tryLimit)
	defer cancel()
	if err := w.presence.Delete(ctx, presenceKey(w.cfg.Role, w.cfg.Model, w.cfg.ID)); err != nil {
		w.log.Warn("remove presence", "error", err)
	}
}
