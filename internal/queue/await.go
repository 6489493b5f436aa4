package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"tandem/internal/jobs"
)

const (
	awaitLook  = time.Second     // after so long without a result, jobs that are missing are looked up
	awaitBatch = 200             // jobs that are looked up at a time
	lastLook   = 3 * time.Second // for finding out why a result did not come
	sampled    = 50              // missing jobs that are asked for their model when the caller gives up
)

// Await returns the result of a job, or of its replay, when it is there; one that is there already at
// once. A job past its own deadline, by the NATS server's clock, that no worker has ended is ended here, as expired.
//
// When ctx's deadline passes first, the error is of code decode_unavailable with
// [jobs.MsgDecodeMissing] if no decode worker serves the job's model, else of code timeout. The job
// lives on either way, and Await may be called again. A job that is unknown is of code invalid_request.
func (c *Client) Await(ctx context.Context, jobID string) (*jobs.Result, error) {
	for {
		r, err := c.awaitOne(ctx, jobID)
		if err != nil {
			return nil, err
		}
		replay, err := c.awaitedReplay(ctx, r)
		if err != nil {
			return nil, err
		}
		if replay == "" {
			return r, nil
		}
		jobID = replay
	}
}

func (c *Client) awaitOne(ctx context.Context, jobID string) (*jobs.Result, error) {
	var l *location
	err := whileAbsent(ctx, absentLimit, func() (err error) {
		l, err = c.locate(ctx, c.user, jobID)
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, c.gaveUp(ctx, []string{jobID})
	case err != nil:
		return nil, err
	case l.result != nil:
		return l.result, nil
	case l.job == nil:
		return nil, c.noResult(ctx, jobID, l)
	}
	w := newWanted([]string{jobID})
	w.learn(jobID, l)
	for r, err := range c.watch(ctx, jobs.ResultSubject(c.user, l.job.Batch, jobID), w) {
		return r, err
	}
	return nil, errors.New("await result: the results ended without one") // watch yields until w is empty
}

// AwaitBatch yields the results of the jobs in ids, or of their replays, each once: those that are
// there already, then the others as they come, and ends after the last. Calling it again, after a
// crash for example, yields all of them again. Jobs need not have been submitted yet. An error is
// the last thing yielded; it is as of [Client.Await].
func (c *Client) AwaitBatch(ctx context.Context, batch string, ids []string) iter.Seq2[*jobs.Result, error] {
	return func(yield func(*jobs.Result, error) bool) {
		w := newWanted(ids)
		for r, err := range c.watch(ctx, jobs.BatchResults(c.user, batch), w) {
			if err == nil {
				var replay string
				if replay, err = c.awaitedReplay(ctx, r); replay != "" {
					w.add(replay)
					continue
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// awaitedReplay is replayOf for who waits anyway: minutes for NATS to come back, as for the results.
func (c *Client) awaitedReplay(ctx context.Context, r *jobs.Result) (id string, err error) {
	err = whileAbsent(ctx, batchAbsent, func() (err error) {
		id, err = c.replayOf(ctx, r)
		return err
	})
	return id, err
}

// watch yields the wanted results under a subject until none is missing. It ends jobs whose own
// deadline has passed.
func (c *Client) watch(ctx context.Context, subject string, w *wanted) iter.Seq2[*jobs.Result, error] {
	return func(yield func(*jobs.Result, error) bool) {
		results := &reader{c: c.Conn, stream: StreamResults, filter: subject}
		defer results.close()
		for len(w.missing) > 0 {
			msg, err := results.next(ctx, awaitLook)
			if err == nil && msg == nil {
				if err = c.look(ctx, w); err == nil {
					continue
				}
			}
			if ctx.Err() != nil {
				err = c.gaveUp(ctx, w.ids())
			}
			if err != nil {
				yield(nil, err)
				return
			}
			r, err := jobs.Decode[jobs.Result](msg.Data())
			if err != nil {
				c.log.Warn("result cannot be read", "subject", msg.Subject(), "error", err)
				continue
			}
			if w.take(r.JobID) && !yield(r, nil) {
				return
			}
		}
	}
}

// look finds out about missing jobs' deadlines and ends those that have passed.
func (c *Client) look(ctx context.Context, w *wanted) error {
	for _, id := range w.unknown(awaitBatch) {
		l, err := c.locate(ctx, c.user, id)
		if err != nil {
			return transient(err, c)
		}
		w.learn(id, l)
	}
	if !w.deadlines() {
		return nil
	}
	now, err := c.serverTime(ctx)
	if err != nil {
		return transient(err, c)
	}
	for _, id := range w.expired(now.Add(-c.timing.DeadlineGrace)) {
		if err := c.expire(ctx, id); err != nil {
			return transient(err, c)
		}
	}
	return nil
}

// serverTime asks the NATS server for its time: the workers go by it, too, and this machine's clock may be wrong or jump.
func (c *Client) serverTime(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	before := time.Now()
	s, err := c.js.Stream(ctx, StreamResults)
	if err != nil {
		return time.Time{}, c.failed(ctx, err, "ask NATS for the time")
	}
	c.clock.observe(before, time.Now(), s.CachedInfo().TimeStamp)
	return c.clock.at(time.Now()), nil
}

// transient forgives an error that comes of NATS being away: the next look may succeed.
func transient(err error, c *Client) error {
	if !c.nc.IsConnected() || absent(err) {
		return nil
	}
	return err
}

// gaveUp says why the results of the jobs ids did not come before ctx ended.
func (c *Client) gaveUp(ctx context.Context, ids []string) error {
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	timeout := func(why any) error {
		what := fmt.Sprintf("%d jobs have", len(ids))
		if len(ids) == 1 {
			what = "job " + ids[0] + " has"
		}
		return jobs.Errorf(jobs.CodeTimeout, "%s no result yet: %v", what, why)
	}
	if !c.nc.IsConnected() {
		return timeout("the connection to NATS is lost")
	}
	workers, err := c.Workers(ctx)
	if err != nil {
		return timeout(c.explain(err))
	}
	decodes := func(model string) bool {
		return slices.ContainsFunc(workers, func(p Presence) bool { return p.Live() && p.Role == jobs.RoleDecode && p.Model == model })
	}
	place := PlaceUnknown
	for _, id := range ids[:min(len(ids), sampled)] {
		l, err := c.locate(ctx, c.user, id)
		if err != nil {
			return timeout(err)
		}
		if l.pending() && !decodes(l.job.Model) {
			return jobs.Errorf(jobs.CodeDecodeMissing, jobs.MsgDecodeMissing)
		}
		if place == PlaceUnknown {
			place = c.whereabouts(ctx, l)
		}
	}
	switch {
	case place == PlaceUnknown:
		return timeout("not submitted, or purged")
	case len(ids) > 1:
		return timeout("the first of them is " + string(place))
	}
	return timeout("it is " + string(place))
}

// wanted is what an await has still to see.
type wanted struct {
	missing  map[string]time.Time // job → its own deadline, zero if it has none or is not known
	unlearnt []string             // jobs whose deadline is not known, in the order in which to ask
}

func newWanted(ids []string) *wanted {
	w := &wanted{missing: make(map[string]time.Time, len(ids))}
	for _, id := range ids {
		w.add(id)
	}
	return w
}

func (w *wanted) add(id string) {
	if _, there := w.missing[id]; !there {
		w.missing[id] = time.Time{}
		w.unlearnt = append(w.unlearnt, id)
	}
}

// take reports whether the result of a job is wanted, and crosses it off.
func (w *wanted) take(id string) bool {
	_, there := w.missing[id]
	delete(w.missing, id)
	return there
}

// learn notes what was found out about a job. One that is nowhere is asked for again later: it may
// not be submitted yet.
func (w *wanted) learn(id string, l *location) {
	i := slices.Index(w.unlearnt, id)
	if i >= 0 {
		w.unlearnt = slices.Delete(w.unlearnt, i, i+1)
	}
	switch {
	case l.pending():
		w.missing[id] = l.job.Deadline
	case l.result == nil:
		w.unlearnt = append(w.unlearnt, id)
	}
}

// unknown returns up to n missing jobs that nothing is known about.
func (w *wanted) unknown(n int) []string {
	w.unlearnt = slices.DeleteFunc(w.unlearnt, func(id string) bool {
		_, there := w.missing[id]
		return !there
	})
	return slices.Clone(w.unlearnt[:min(n, len(w.unlearnt))])
}

// deadlines reports whether any missing job is known to have a deadline of its own.
func (w *wanted) deadlines() bool {
	for _, deadline := range w.missing {
		if !deadline.IsZero() {
			return true
		}
	}
	return false
}

// expired returns the missing jobs whose own deadline was before t.
func (w *wanted) expired(t time.Time) []string {
	var ids []string
	for id, deadline := range w.missing {
		if !deadline.IsZero() && deadline.Before(t) {
			ids = append(ids, id)
		}
	}
	return ids
}

// ids returns the missing jobs in order.
func (w *wanted) ids() []string {
	ids := make([]string, 0, len(w.missing))
	for id := range w.missing {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
