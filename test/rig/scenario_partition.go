package rig

import (
	"context"
	"errors"
	"slices"
	"time"

	"tandem/test/rig/history"
	"tandem/test/rig/host"
	"tandem/test/rig/tap"
)

// partitionScenarios have servers of NATS that do not reach one another.
func partitionScenarios() []Scenario {
	return []Scenario{{
		Name: "partitioned cluster", arrange: partitioned,
		What: "of three servers of NATS the leader of the intake is cut off from the others while its clients reach it, until another leads and has brought a batch to its end, then a follower; then the routes between all are slow, and narrow",
	}}
}

// cutOff is the part of a plan that is played while a server is cut off.
type cutOff struct {
	near, far Batch // whose callers are connected to that server, or to another one, when it happens
	held      Batch // submitted at that server meanwhile, which cannot take it
	later     Batch // submitted at another one meanwhile, and brought to its end; some of its jobs are cancelled

	confined map[string]chan struct{} // by caller: closed when it reaches the one server only at which it is to be
}

func partitioned(_ context.Context, a *act) error {
	const jobs, batches = 10, 10
	plan := scenePlan(jobs * batches).split(slices.Repeat([]int{jobs}, batches)...)
	a.plan = plan
	b := plan.Batches
	confined := map[string]chan struct{}{}
	for _, b := range b[:8] {
		confined[callerPrefix+b.Name] = make(chan struct{})
	}
	leader, follower := cutOff{b[0], b[1], b[2], b[3], confined}, cutOff{b[4], b[5], b[6], b[7], confined}
	for _, part := range []cutOff{leader, follower} {
		for i := 0; i < jobs; i += 4 {
			part.later.Jobs[i].Cancel = true
		}
	}
	a.Each = 2
	a.Nodes, a.PerToken = 3, 10*time.Millisecond // so that jobs are at work when a server is cut off
	a.hooks.wire = func(_ *System, process string, op *tap.Op) tap.Verdict {
		if there := confined[process]; there != nil { // it says nothing before
			select {
			case <-there:
			case <-op.Done:
			}
		}
		return tap.Pass
	}
	a.strike = func(ctx context.Context, s *scene) error {
		if err := s.cutOff(ctx, "the leader", func(leader int) int { return leader }, leader); err != nil {
			return err
		}
		if err := s.cutOff(ctx, "a follower", func(leader int) int { return (leader + 1) % len(s.nodes) }, follower); err != nil {
			return err
		}
		if err := s.spoiltRoutes(ctx, "delay", tap.Conditions{Delay: 100 * time.Millisecond}, b[8]); err != nil {
			return err
		}
		return s.spoiltRoutes(ctx, "narrow", tap.Conditions{BytesPerSecond: 20_000}, b[9])
	}
	a.expect = func(s *scene) {
		s.want(s.faults(Wire+": "+RouteWire) == 4, "", "want 4 faults of routes, got %d", s.faults(Wire+": "+RouteWire))
		for _, b := range plan.Batches {
			for _, j := range b.Jobs {
				e := s.end(j.Marker)
				s.want(e.Status == "succeeded" || j.Cancel && e.Status == "cancelled", j.Marker, "want it to succeed, or to be cancelled if it was to be: got %q (%s)", e.Status, e.Error.Message)
				s.wantEnteredOnce(j)
			}
		}
	}
	return nil
}

// wantEnteredOnce asks that no stage took a job twice. The judge allows that where NATS had a fault, but who is cut off forgets nothing.
func (s *scene) wantEnteredOnce(j Job) {
	first := map[string]uint64{} // sequence, by subject
	for _, e := range s.events(j.Marker, history.Accepted, history.Stored) {
		seq, known := first[e.Subject]
		s.want(!known || seq == e.Seq, j.Marker, "the server stored %s as #%d, and again as #%d", e.Subject, seq, e.Seq)
		first[e.Subject] = e.Seq
	}
}

// cutOff plays a part in which a server, chosen by who leads the intake, is cut off from the others, though not from its clients.
func (s *scene) cutOff(ctx context.Context, which string, choose func(leader int) int, part cutOff) error {
	const work = 3 // jobs that end before
	if err := s.replicated(); err != nil {
		return err
	}
	leader, err := s.cluster.StreamLeader(ctx, intake)
	if err != nil {
		return err
	}
	node := choose(leader)
	other := (node + 1) % len(s.nodes)
	for i, u := range s.workers { // of each role one is at the server, and one is not
		u.nats.confine([]int{node, other}[i%2])
	}
	told := s.begin(ctx, part.near, part.far)
	if err := errors.Join(part.confine(ctx, s, part.near, node), part.confine(ctx, s, part.far, other)); err != nil {
		return err
	}
	before := s.ended()
	if err := s.await(ctx, "jobs to be at work", func() bool { return s.ended() >= before+work }); err != nil {
		return err
	}

	heal := s.spoilRoutes("drop, "+which, s.cluster.Route(node), s.nodes[node:node+1], tap.Conditions{Drop: true})
	if leader == node {
		if err := s.anotherLeads(leader); err != nil {
			return err
		}
	}
	held, later := s.begin(ctx, part.held), s.begin(ctx, part.later)
	if err := errors.Join(part.confine(ctx, s, part.held, node), part.confine(ctx, s, part.later, other)); err != nil {
		return err
	}
	if err := later(); err != nil {
		return err
	}
	s.want(!s.any(part.held, history.Accepted), "", "a server that was cut off took a job")
	s.want(!s.any(part.near, history.Told), "", "results passed a server that was cut off")
	heal()
	for _, u := range s.workers {
		u.nats.Set(tap.Conditions{})
	}
	return errors.Join(told(), held())
}

// any reports whether such a thing has happened to any job of a batch.
func (s *scene) any(b Batch, kind history.Kind) bool {
	return slices.ContainsFunc(b.Jobs, func(j Job) bool { return len(s.events(j.Marker, kind)) > 0 })
}

// anotherLeads waits until the others have a leader of the intake of their own. Who is cut off may not know it yet.
func (s *scene) anotherLeads(old int) error {
	return s.until(eventLimit, "a leader in the place of "+s.nodes[old].Name(), func(ctx context.Context) (bool, error) {
		leader, err := s.cluster.StreamLeader(ctx, intake)
		return leader != old, err
	})
}

// spoiltRoutes has a batch done while all routes are bad.
func (s *scene) spoiltRoutes(ctx context.Context, how string, c tap.Conditions, b Batch) error {
	var all host.Routes
	for i := range s.nodes {
		all = append(all, s.cluster.Route(i)...)
	}
	defer s.spoilRoutes(how, all, s.nodes, c)()
	return s.begin(ctx, b)()
}

// spoilRoutes makes routes bad until heal is called. Nodes are named whose they are.
func (s *scene) spoilRoutes(how string, r host.Routes, nodes []*host.NATS, c tap.Conditions) (heal func()) {
	name, note := nodeNames(nodes), Wire+": "+RouteWire+": "+how
	s.Log.Add(history.Event{Kind: history.Fault, Process: name, Note: note})
	r.Set(c)
	return func() {
		r.Set(tap.Conditions{})
		s.Log.Add(history.Event{Kind: history.Healed, Process: name, Note: note})
	}
}

// confine leaves a process no other server than one. It stays so until Set.
func (l link) confine(node int) {
	for i, t := range l {
		if i == node {
			t.Set(tap.Conditions{})
			continue
		}
		t.Set(tap.Conditions{Refuse: true})
		t.Reset()
	}
}

// confine leaves the caller of a batch, which has begun, no other server than one.
func (part cutOff) confine(ctx context.Context, s *scene, b Batch, node int) error {
	name := callerPrefix + b.Name
	return s.await(ctx, name, func() bool {
		s.callersMu.Lock()
		defer s.callersMu.Unlock()
		l, there := s.links[name]
		if there {
			l.confine(node)
			close(part.confined[name])
		}
		return there
	})
}
