package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"tandem/test/rig/host"
	"tandem/test/rig/paced/fleet"
)

// unit is a load on a fleet: what is measured at once with others, on engines of its own.
type unit struct {
	rows  []*row
	drawn bytes.Buffer // what each slot did, as text
	err   error
	done  chan struct{}
}

// measure measures all loads on all fleets, some at once, and prints what was drawn, and each fleet's table as soon as it and all before it are done. A load
// that fails does not keep the others from being measured.
func (o options) measure(ctx context.Context, w, report io.Writer, programs *host.Programs, c chosen) (all []*row, err error) {
	units, next := make([]unit, len(c.fleets)*len(c.loads)), make(chan int, len(c.fleets)*len(c.loads))
	for i := range units {
		units[i].done = make(chan struct{})
		next <- i
	}
	close(next)
	var measuring sync.WaitGroup
	defer measuring.Wait()
	for range o.atOnce {
		measuring.Go(func() {
			for i := range next {
				u, f, l := &units[i], c.fleets[i/len(c.loads)], c.loads[i%len(c.loads)]
				if ctx.Err() == nil {
					if u.rows, u.err = o.load(ctx, &u.drawn, programs, f, l, c); u.err != nil {
						u.err = fmt.Errorf("%s: %s: %w", f.Name, l.Name, u.err)
						fmt.Fprintln(o.work, u.err) // the run goes on for long
					}
				}
				close(u.done)
			}
		})
	}
	for i, f := range c.fleets {
		var rows []*row
		for k := range c.loads {
			u := &units[i*len(c.loads)+k]
			<-u.done
			rows, err = append(rows, u.rows...), errors.Join(err, u.err)
			_, failed := u.drawn.WriteTo(w)
			err = errors.Join(err, failed)
		}
		all = append(all, rows...)
		printFleet(report, f, c.policies, rows)
	}
	return all, errors.Join(err, context.Cause(ctx))
}

// load measures classes of one load on a fleet, and returns those that it has measured.
func (o options) load(ctx context.Context, w io.Writer, programs *host.Programs, f *fleet.Fleet, l load, c chosen) (rows []*row, err error) {
	file, err := filepath.Abs(filepath.Join(o.fleetDir, f.Name+".json"))
	if err != nil {
		return nil, err
	}
	s := &site{Fleet: f, file: file, programs: programs, timeScale: o.timeScale, sizeScale: o.sizeScale}
	if s.timeScale == 0 {
		least, err := bound(f, l.kinds(manyJobs), rough)
		if err != nil {
			return nil, err
		}
		s.timeScale = o.seconds / least
	}
	for _, jobs := range rounds(f, c.jobs) {
		name := fmt.Sprintf("%s-%s-%d", f.Name, l.Name, jobs[0])
		if o.trace != "" {
			s.traceDir = filepath.Join(o.trace, name)
			if err := os.MkdirAll(s.traceDir, 0o755); err != nil {
				return rows, fmt.Errorf("trace: %w", err)
			}
		}
		began, dir := time.Now(), filepath.Join(o.dir, name)
		err := s.measure(ctx, l, jobs, c.policies, o.sequential, dir, func(r *row) error {
			rows = append(rows, r)
			var b bytes.Buffer
			fmt.Fprintf(&b, "%s (%.0f s, %.1f ms late) ", f.Name, time.Since(began).Seconds(), 1000*r.Late.Seconds())
			printRow(&b, r, c.policies)
			_, _ = o.work.Write(b.Bytes()) // in one piece, beside those of others
			began = time.Now()
			return o.draw(w, r)
		})
		if err != nil {
			return rows, err
		}
		if !o.keep {
			if err := os.RemoveAll(dir); err != nil {
				return rows, fmt.Errorf("remove files of a run: %w", err)
			}
		}
	}
	return rows, nil
}
