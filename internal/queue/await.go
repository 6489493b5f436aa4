package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"tandem/internal/protocol"
	"tandem/internal/tracing"
	"tandem/jobs"
)

const (
	awaitLook   = time.Second           // between looks for jobs whose results may have been missed
	awaitBatch  = 200                   // jobs that are looked up by and by,
	awaitAtOnce = 6                     // and at once: results of 8 MiB must not be more than a server holds back for a connection
	awaitPause  = time.Millisecond      // until a result that was heard is looked up, if it is not there at once; then twice as long each time,
	awaitPauses = 10                    // so often
	awaySoon    = 50 * time.Millisecond // until what NATS could not do, or did not know yet, is tried again
	lastLook    = 3 * time.Second       // for finding out why a result did not come
	sampled     = 50                    // missing jobs that are asked for their model when the caller gives up
)

// Await returns the result of a job, or of its replay, when it is there; one that is there already at
// once. A job past its own deadline, by the NATS server's clock, that no worker has ended is ended by one then, as expired.
//
// When ctx's deadline passes first, or the job's own while no worker is alive, the error is of code decode_unavailable with
// [jobs.MsgDecodeMissing] if no decode worker serves the job's model, else of code timeout. The job
// lives on either way, and Await may be called again. A job that is unknown is of code invalid_request.
func (c *Client) Await(ctx context.Context, jobID string) (*jobs.Result, error) {
	if err := checkToken(jobID); err != nil {
		return nil, err
	}
	w, err := c.watch.join(anyBatch, []string{jobID}) // first, since finding a job takes as long as one that computes little
	if err != nil {
		return nil, err
	}
	defer w.leave()
	w.known = false
	return w.first(ctx)
}

// Run submits a job and returns its result. It is Submit and Await in one, and asks the server for less.
func (c *Client) Run(ctx context.Context, j *jobs.Job, opts SubmitOptions) (r *jobs.Result, err error) {
	ctx, ended := tracing.Run(ctx, j)
	defer func() { ended(r, err) }()
	w, err := c.watch.join(jobs.EncodeToken(j.Batch), []string{j.ID})
	if err != nil {
		return nil, err
	}
	defer w.leave()
	if err := c.Submit(ctx, j, opts); err != nil {
		return nil, err
	}
	w.due = nil              // of a job that is new there is no result yet, and of one that is not it is looked up soon
	if j.Deadline.IsZero() { // else the server's clock must be known, too
		w.watch.learnt(j.ID, j.Deadline)
	}
	return w.first(ctx)
}

// AwaitBatch yields the results of the jobs in ids, or of their replays, each once: those that are
// there already, then the others as they come, and ends after the last. Calling it again, after a
// crash for example, yields all of them again. Jobs need not have been submitted yet. An error is
// the last thing yielded; it is as of [Client.Await].
func (c *Client) AwaitBatch(ctx context.Context, batch string, ids []string) iter.Seq2[*jobs.Result, error] {
	return func(yield func(*jobs.Result, error) bool) {
		w, err := c.watch.join(jobs.EncodeToken(batch), ids)
		if err != nil {
			yield(nil, err)
			return
		}
		defer w.leave()
		w.results(ctx)(yield)
	}
}

// resultWait is one call that awaits results. What is heard of a result is a hint only: it is looked up where it is kept, since the server may
// refuse what was published, or not have stored it yet. What was not heard is looked up by and by. It belongs to one goroutine, but for what
// the watch tells it.
type resultWait struct {
	c       *Client
	watch   *resultWatch
	batch   string          // a token, or anyBatch
	missing map[string]bool // jobs
	due     []string        // jobs whose results are to be looked up now
	heard   []string        // jobs whose results were heard, and are not there yet,
	looks   int             // though they were looked up so often
	slow    bool            // the server was seen to take longer to keep a result than to tell of it
	known   bool            // its jobs need not be known yet, or are

	unreadable map[string]bool // jobs of which that was said

	news chan struct{} // holds a value when the watch has told something
	told hints         // guarded by the watch's lock
}

// hints are what a wait is told.
type hints struct {
	heard []string        // jobs whose results were published
	look  map[string]bool // jobs whose results may have been missed
	err   error           // ends the wait
}

// first returns the first result.
func (w *resultWait) first(ctx context.Context) (*jobs.Result, error) {
	for r, err := range w.results(ctx) {
		return r, err
	}
	return nil, errors.New("await result: the results ended without one") // they go on until none is missing
}

// results yields the results of the jobs, or of their replays.
func (w *resultWait) results(ctx context.Context) iter.Seq2[*jobs.Result, error] {
	return func(yield func(*jobs.Result, error) bool) {
		soon := time.NewTimer(awaySoon) // a result that was published before and not yet stored is not heard, nor there at the first look
		defer soon.Stop()
		for len(w.missing) > 0 {
			results, err := w.look(ctx)
			for _, r := range results {
				var replay string
				if replay, err = w.c.awaitedReplay(ctx, r); err != nil {
					break
				}
				delete(w.missing, r.JobID)
				w.watch.done(w, r.JobID)
				if replay != "" {
					w.add(replay)
				} else if !yield(r, nil) {
					return
				}
			}
			if !w.known && len(results) == 0 {
				w.known = true
				w.watch.check(slices.Sorted(maps.Keys(w.missing)))
			}
			if err == nil {
				err = w.wait(ctx, soon.C)
			}
			if ctx.Err() != nil {
				err = w.c.timeoutError(ctx, slices.Sorted(maps.Keys(w.missing)))
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// add has another job waited for.
func (w *resultWait) add(id string) {
	if !w.missing[id] {
		w.missing[id] = true
		w.due = append(w.due, id)
		w.watch.add(w, id)
	}
}

// look returns the results that are there of some of the jobs that are due.
func (w *resultWait) look(ctx context.Context) ([]*jobs.Result, error) {
	n := min(len(w.due), awaitAtOnce)
	some := slices.DeleteFunc(slices.Clone(w.due[:n]), func(id string) bool { return !w.missing[id] })
	slices.Sort(some)
	some = slices.Compact(some)
	found, errs := make([]*jobs.Result, len(some)), make([]error, len(some))
	var asked sync.WaitGroup
	for i, id := range some {
		asked.Go(func() { found[i], errs[i] = w.c.stored(ctx, w.batch, id) })
	}
	asked.Wait()
	for i, err := range errs {
		if jobs.CodeOf(err) != jobs.CodeInvalid {
			continue
		}
		if errs[i] = nil; !w.unreadable[some[i]] { // a newer version's, perhaps, which does not end the waiting for others
			w.c.log.Warn("result cannot be read", "error", err)
			w.unreadable[some[i]] = true
		}
	}
	if err := errors.Join(errs...); err != nil {
		if err = transient(err, w.c); err == nil {
			pause(ctx, awaySoon)
		}
		return nil, err
	}
	w.due = w.due[n:]
	return slices.DeleteFunc(found, func(r *jobs.Result) bool { return r == nil }), nil
}

// wait waits until jobs are due, or ctx ends.
func (w *resultWait) wait(ctx context.Context, soon <-chan time.Time) error {
	w.heard = slices.DeleteFunc(w.heard, func(id string) bool { return !w.missing[id] })
	for len(w.due) == 0 && len(w.missing) > 0 && ctx.Err() == nil {
		var again <-chan time.Time
		if len(w.heard) > 0 {
			again = time.After(awaitPause << w.looks)
		}
		select {
		case <-w.news:
			h := w.watch.take(w)
			if h.err != nil {
				return h.err
			}
			w.due = slices.Sorted(maps.Keys(h.look))
			if len(h.heard) > 0 {
				if w.heard, w.looks = append(w.heard, h.heard...), 0; !w.slow {
					w.due = append(w.due, h.heard...)
				}
			}
		case <-again:
			w.slow, w.due = true, slices.Clone(w.heard)
			if w.looks++; w.looks == awaitPauses { // whoever published it died, or the server refused it
				w.heard, w.looks = nil, 0
			}
		case <-soon:
			w.due = slices.Sorted(maps.Keys(w.missing))
			w.due = w.due[:min(len(w.due), awaitBatch)]
		case <-ctx.Done():
		}
	}
	return nil
}

// leave ends the wait.
func (w *resultWait) leave() { w.watch.leave(w) }

// awaitedReplay is replayed for who waits anyway: minutes for NATS to come back, as for the results.
func (c *Client) awaitedReplay(ctx context.Context, r *jobs.Result) (id string, err error) {
	err = retryUnavailable(ctx, batchAbsent, func() (err error) {
		id, err = c.replayed(ctx, r)
		return err
	})
	return id, err
}

// replayed returns the id of the job that repeats one that failed, or "" if there is none, as far as can be told.
func (c *Client) replayed(ctx context.Context, r *jobs.Result) (string, error) {
	if r.Status != jobs.Failed {
		return "", nil
	}
	id := replayID(r.JobID)
	_, place, err := c.lookUp(ctx, id, true)
	if errors.Is(err, errNoWorker) || place == PlaceUnknown || place == PlaceDead {
		return "", nil
	}
	return id, err
}

// serverTime asks the NATS server for its time: the workers go by it, too, and this machine's clock may be wrong or jump.
func (c *Conn) serverTime(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	s, err := c.js.Stream(ctx, StreamResults)
	if err != nil {
		return time.Time{}, c.failed(ctx, err, "ask NATS for the time")
	}
	return s.CachedInfo().TimeStamp, nil
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// transient ignores an error that comes of NATS being away: the next look may succeed.
func transient(err error, c *Client) error {
	if !c.nc.IsConnected() || absent(err) {
		return nil
	}
	return err
}

// timeoutError says why the results of the jobs ids did not come before ctx ended.
func (c *Client) timeoutError(ctx context.Context, ids []string) error {
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
		return slices.ContainsFunc(workers, func(p Presence) bool { return p.Live() && p.Role == protocol.RoleDecode && p.Model == model })
	}
	found, err := c.find(ctx, len(ids) > 1, ids[:min(len(ids), sampled)]...) // of one job it is said whether it runs
	if errors.Is(err, errNoWorker) {
		return jobs.Errorf(jobs.CodeDecodeMissing, jobs.MsgDecodeMissing)
	}
	if err != nil {
		return timeout(err)
	}
	place := PlaceUnknown
	for _, f := range found {
		if f.pending() && !decodes(f.Model) {
			return jobs.Errorf(jobs.CodeDecodeMissing, jobs.MsgDecodeMissing)
		}
		if place == PlaceUnknown {
			place = f.Place
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
