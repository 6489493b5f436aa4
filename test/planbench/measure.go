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
	startLimit = 2 * time.Minute // for the processes of one class to be there
	warmJobs   = 4               // by each plan, at least
)

// class is a load with so many jobs, to be run on a fleet.
type class struct {
	load
	jobs int
}

// warm are the jobs by which workers measure their engines: enough that each slot has some, and not the giant.
func (c class) warm(s *site) []kind {
	n := warmJobs
	for _, m := range s.Machines {
		n = max(n, 2*m.Slots)
	}
	return c.kinds(max(4*n, c.jobs))[:n]
}

// row is one line of the report: a class on a fleet, by each policy.
type row struct {
	Fleet, Load string
	Jobs        int
	TimeScale   float64
	Bound       float64 // seconds of the fleet's time
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

// measure runs the class by each policy, each on engines, workers and a NATS server of its own: at the same time, so that whatever else this machine does
// meets all of them, or one after the other.
func (s *site) measure(ctx context.Context, c class, policies []string, sequential bool, dir string) (_ *row, err error) {
	kinds := c.kinds(c.jobs)
	r := &row{Fleet: s.Name, Load: c.Name, Jobs: c.jobs, TimeScale: s.timeScale, Outcomes: make([]*outcome, len(policies))}
	if r.Bound, err = bound(s.Fleet, kinds, careful); err != nil {
		return nil, err
	}
	started := make([]policy, len(policies))
	defer func() {
		for _, p := range started {
			if p != nil {
				err = errors.Join(err, p.stop())
			}
		}
	}()
	starting, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not there after %v", startLimit))
	defer cancel()
	err = each(len(policies), false, func(i int) (err error) {
		started[i], err = s.startPolicy(starting, policies[i], filepath.Join(dir, strings.ReplaceAll(policies[i], " ", "-")), c.warm(s))
		return err
	})
	if err != nil {
		return nil, err
	}
	limit := time.Minute + time.Duration(20*r.Bound*s.timeScale*float64(time.Second))
	ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
	defer cancel()
	if err := each(len(policies), false, func(i int) error { return started[i].warmUp(ctx) }); err != nil {
		return nil, err
	}
	list := makeJobs(s.Model, "run", kinds)
	err = each(len(policies), sequential, func(i int) (err error) {
		if r.Outcomes[i], err = started[i].run(ctx, list); err != nil {
			return fmt.Errorf("%s: %w", policies[i], err)
		}
		return nil
	})
	return r, err
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
