package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	startLimit = 2 * time.Minute // for all processes to be there
	runLimit   = 2 * time.Minute // for what else than engines takes time
	warmJobs   = 4               // by each plan, at least
)

// warm are the jobs by which workers measure their engines: enough that each slot has some, and not the giant.
func (s *site) warm(l load) []kind {
	n := warmJobs
	for _, m := range s.Machines {
		n = max(n, 2*m.Slots)
	}
	return l.kinds(4 * n)[:n]
}

// row is one line of the report: a class on a fleet, by each policy.
type row struct {
	Fleet, Load string
	Slows       bool // one of the fleet's machines is slower than its workers have measured
	Jobs        int
	TimeScale   float64
	Bound       float64       // seconds of the fleet's time
	Late        time.Duration // of one in a hundred wake-ups on this machine, meanwhile
	Outcomes    []*outcome
}

// seconds are those of the fleet's time that a policy took; 0 if it was not measured.
func (r *row) seconds(policy string) float64 {
	for _, o := range r.Outcomes {
		if o.Policy == policy {
			return o.Took.Seconds() / r.TimeScale
		}
	}
	return 0
}

// foretold is what was foretold of a policy, as a share of what it took; 0 if nothing was.
func (r *row) foretold(o *outcome) float64 { return o.Foretold / r.seconds(o.Policy) }

// measure runs classes of one load, of so many jobs each, one after the other by each policy, each policy on engines, workers and a NATS server of its own:
// at the same time, so that whatever else this machine does meets all of them, or one after the other. done is called after each class.
func (s *site) measure(ctx context.Context, l load, jobs []int, policies []string, sequential bool, dir string, done func(*row) error) (err error) {
	started := make([]policy, len(policies))
	defer func() {
		for _, p := range started {
			if p != nil {
				err = errors.Join(err, p.stop())
			}
		}
	}()
	err = s.within(ctx, startLimit, func(ctx context.Context) error {
		return each(len(policies), false, func(i int) (err error) {
			started[i], err = s.startPolicy(ctx, policies[i], filepath.Join(dir, strings.ReplaceAll(policies[i], " ", "-")), s.warm(l))
			return err
		})
	})
	if err != nil {
		return err
	}
	least, err := bound(s.Fleet, s.warm(l), rough)
	if err != nil {
		return err
	}
	err = s.within(ctx, s.limit(least), func(ctx context.Context) error {
		return each(len(policies), false, func(i int) error { return started[i].warmUp(ctx) })
	})
	if err != nil {
		return err
	}
	for _, n := range jobs {
		kinds := l.kinds(n)
		r := &row{Fleet: s.Name, Load: l.Name, Slows: slows(s.Fleet), Jobs: n, TimeScale: s.timeScale, Outcomes: make([]*outcome, len(policies))}
		if r.Bound, err = bound(s.Fleet, kinds, careful); err != nil {
			return err
		}
		list := makeJobs(s.Model, fmt.Sprintf("run-%d", n), kinds)
		foretold := make([]float64, len(policies)) // before any of them runs, which would be disturbed
		err := s.within(ctx, runLimit, func(ctx context.Context) error {
			return each(len(policies), true, func(i int) (err error) {
				foretold[i], err = started[i].foretell(ctx, list)
				return err
			})
		})
		if err != nil {
			return err
		}
		stop := watchLateness()
		err = s.within(ctx, s.limit(r.Bound), func(ctx context.Context) error {
			return each(len(policies), sequential, func(i int) (err error) {
				if r.Outcomes[i], err = started[i].run(ctx, list); err != nil {
					return fmt.Errorf("%d jobs, %s: %w", n, policies[i], err)
				}
				r.Outcomes[i].Foretold = foretold[i] / s.timeScale
				return nil
			})
		})
		r.Late = stop()
		if err != nil {
			return err
		}
		if err := done(r); err != nil {
			return err
		}
	}
	return nil
}

// limit is how long jobs may take here that take so many seconds of the fleet's time at least.
func (s *site) limit(bound float64) time.Duration {
	return runLimit + time.Duration(20*bound*s.timeScale*float64(time.Second))
}

// within calls do with a context that ends after a time.
func (s *site) within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
	defer cancel()
	return do(ctx)
}

// each calls do with 0 to n−1, at once or one after the other, and returns all errors.
func each(n int, sequential bool, do func(int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		if sequential {
			errs[i] = do(i)
			continue
		}
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// timelines are the pictures of a row.
func (r *row) timelines() (list []timeline) {
	for _, o := range r.Outcomes {
		list = append(list, timeline{
			Title: fmt.Sprintf("%s, %s, %d jobs, %s", r.Fleet, r.Load, r.Jobs, o.Policy), Took: o.Took.Seconds() / r.TimeScale, Lanes: o.Lanes,
		})
	}
	return list
}
