package rig

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tandem/test/rig/history"
	"tandem/test/rig/host"
)

// round is what is done and what it takes, one time for each row of its [Measure].
type round func(ctx context.Context, s *site) ([]time.Duration, error)

// blow is how a worker is struck; the rest of it, if there is any, follows when the job is elsewhere.
type blow func(ctx context.Context, s *site, u *unit) (fault int, rest func() error, err error)

// killed ends a worker at once, and it stays down.
func killed(_ context.Context, s *site, u *unit) (int, func() error, error) {
	u.hold()
	fault := s.fault(u.name, Kill+": "+string(InCall))
	u.current().Kill()
	return fault, func() error { return nil }, nil
}

// stopped tells a worker to end, and it stays down.
func stopped(_ context.Context, s *site, u *unit) (int, func() error, error) {
	u.hold()
	fault := s.fault(u.name, firstSignal)
	p := u.current()
	err := p.Terminate()
	return fault, func() error { return s.exit(u, p) }, err
}

// frozen stops a worker where it is, until its job has ended elsewhere.
func frozen(ctx context.Context, s *site, u *unit) (int, func() error, error) {
	ctx, thaw := context.WithCancel(ctx)
	fault := s.fault(u.name, Freeze+": "+string(InCall))
	p := u.current()
	if err := p.Freeze(); err != nil {
		thaw()
		return 0, nil, err
	}
	thawed := make(chan struct{})
	s.helpers.Go(func() {
		defer close(thawed)
		<-ctx.Done()
		_ = p.Thaw() // it may have been killed by the end of all
		s.Log.Add(history.Event{Kind: history.Healed, Process: u.name, Note: "thawed"})
	})
	return fault, func() error {
		s.callers.Wait() // the job has ended
		thaw()
		<-thawed
		return nil
	}, nil
}

// inCall submits jobs and returns the first worker of a role whose engine begins to compute for one of them.
func (s *site) inCall(role string, jobs int) (*unit, error) {
	from := len(s.Log.Events())
	s.submit(jobs)
	e, err := s.event("an engine call of a "+role+" worker", from, func(e history.Event) bool {
		return e.Kind == history.Called && strings.HasPrefix(e.Process, enginePrefix+role)
	})
	if err != nil {
		return nil, err
	}
	return s.unit(strings.TrimPrefix(e.Process, enginePrefix))
}

func (s *site) unit(name string) (*unit, error) {
	for _, u := range s.workers {
		if u.name == name {
			return u, nil
		}
	}
	return nil, fmt.Errorf("no worker is named %q", name)
}

// struckIn strikes a worker of a role in mid call.
func struckIn(role string, strike blow) round {
	return func(ctx context.Context, s *site) (took []time.Duration, err error) {
		u, err := s.inCall(role, 1)
		if err != nil {
			return nil, err
		}
		fault, rest, err := strike(ctx, s, u)
		if err != nil {
			return nil, err
		}
		err = s.await("the job to be at another worker", func(all story) (bool, error) {
			d, found, err := all.elsewhere(fault)
			took = []time.Duration{d}
			return found, err
		})
		if err != nil {
			return nil, err
		}
		return took, rest()
	}
}

// prefillGone strikes all prefill workers while jobs wait for them.
func prefillGone(strike blow) round {
	return func(ctx context.Context, s *site) (took []time.Duration, err error) {
		const jobs = 10 // more than prefill begins before the strike
		from := len(s.Log.Events())
		if _, err := s.inCall("prefill", jobs); err != nil {
			return nil, err
		}
		if err := s.await("all jobs to be accepted", func(all story) (bool, error) {
			n := 0
			for _, e := range all[from:] {
				if e.Kind == history.Accepted {
					n++
				}
			}
			return n >= jobs, nil
		}); err != nil {
			return nil, err
		}
		var last int
		var rests []func() error
		for _, u := range s.workers {
			if strings.HasPrefix(u.name, "prefill") {
				fault, rest, err := strike(ctx, s, u)
				if err != nil {
					return nil, err
				}
				last, rests = fault, append(rests, rest)
			}
		}
		err = s.await("a waiting job to be at the decode side", func(all story) (bool, error) {
			d, found := all.takenOver(last)
			took = []time.Duration{d}
			return found, nil
		})
		for _, rest := range rests {
			if err == nil {
				err = rest()
			}
		}
		return took, err
	}
}

// leaderLost ends the leader of the intake and submits a job.
func leaderLost(ctx context.Context, s *site) (took []time.Duration, err error) {
	if err := s.replicated(); err != nil {
		return nil, err
	}
	leader, err := s.cluster.StreamLeader(ctx, intake)
	if err != nil {
		return nil, err
	}
	node := s.nodes[leader]
	fault := s.fault(node.Name(), NATS+": the leader")
	node.Kill()
	s.submit(1)
	if err := s.await("a submit to be accepted", func(all story) (bool, error) {
		d, found := all.accepted(fault)
		took = []time.Duration{d}
		return found, nil
	}); err != nil {
		return nil, err
	}
	return took, s.start(ctx, node)
}

// natsLost ends the only server while jobs are at work, and starts it.
func natsLost(ctx context.Context, s *site) (took []time.Duration, err error) {
	if _, err := s.inCall("decode", 4); err != nil {
		return nil, err
	}
	node := s.nodes[0]
	fault := s.fault(node.Name(), NATS+": the only node")
	node.Kill()
	down := len(s.Log.Events()) - 1
	if err := s.start(ctx, node); err != nil {
		return nil, err
	}
	err = s.await("a job to be done", func(all story) (bool, error) {
		d, found := all.done(fault, down)
		took = []time.Duration{d}
		return found, nil
	})
	return took, err
}

func (s *site) start(ctx context.Context, node *host.NATS) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := node.Start(ctx); err != nil {
		return err
	}
	s.Log.Add(history.Event{Kind: history.Healed, Process: node.Name(), Note: "started again"})
	return nil
}

// exit waits until a worker that was told to end has, and writes down how.
func (s *site) exit(u *unit, p *host.Process) error {
	select {
	case <-p.Exited():
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	s.Log.Add(history.Event{Kind: history.Healed, Process: u.name, Note: fmt.Sprint(endedNote, p.Code())})
	return nil
}

// drained tells a busy decode worker to end.
func drained(ctx context.Context, s *site) ([]time.Duration, error) {
	u, err := s.inCall("decode", 1)
	if err != nil {
		return nil, err
	}
	fault, rest, err := stopped(ctx, s, u)
	if err != nil {
		return nil, err
	}
	if err := rest(); err != nil {
		return nil, err
	}
	s.callers.Wait()
	all := story(s.Log.Events())
	call, after, err := all.drained(fault)
	if err != nil {
		return nil, err
	}
	job, err := all.held(fault)
	if err != nil {
		return nil, err
	}
	return []time.Duration{call, after}, all.miscounted(job)
}

// aborted tells a busy decode worker to end, and once more.
func aborted(ctx context.Context, s *site) ([]time.Duration, error) {
	u, err := s.inCall("decode", 1)
	if err != nil {
		return nil, err
	}
	first, rest, err := stopped(ctx, s, u)
	if err != nil {
		return nil, err
	}
	p := u.current()
	if err := p.Says(ctx, `"draining"`); err != nil {
		return nil, err
	}
	second := s.fault(u.name, secondSignal)
	if err := p.Terminate(); err != nil {
		return nil, err
	}
	if err := rest(); err != nil {
		return nil, err
	}
	s.callers.Wait()
	all := story(s.Log.Events())
	job, err := all.held(first)
	if err != nil {
		return nil, err
	}
	ended, err := all.ended(second)
	if err != nil {
		return nil, err
	}
	elsewhere, found, err := all.elsewhere(second)
	if err == nil && !found {
		err = fmt.Errorf("job %s, which %s handed back, ran nowhere else", job, u.name)
	}
	if err != nil {
		return nil, err
	}
	return []time.Duration{all.took(second, ended), elsewhere}, all.miscounted(job)
}
