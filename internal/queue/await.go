package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/internal/protocol"
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
	h, err := c.subscribeResults(ctx, anyBatch, []string{jobID}) // first, since finding a job takes as long as one that computes little
	if err != nil {
		return nil, err
	}
	defer h.close()
	var r *jobs.Result
	var place Place
	err = retryUnavailable(ctx, absentLimit, func() (err error) {
		r, place, err = c.lookUp(ctx, jobID, true)
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, c.timeoutError(ctx, []string{jobID})
	case errors.Is(err, errNoWorker): // the job may be queued
	case err != nil:
		return nil, err
	case r == nil && (place == PlaceUnknown || place == PlaceDead):
		return nil, c.noResult(c.user, jobID, place)
	}
	for r, err := range h.results(ctx) {
		return r, err
	}
	return nil, errors.New("await result: the results ended without one") // they go on until none is missing
}

// AwaitBatch yields the results of the jobs in ids, or of their replays, each once: those that are
// there already, then the others as they come, and ends after the last. Calling it again, after a
// crash for example, yields all of them again. Jobs need not have been submitted yet. An error is
// the last thing yielded; it is as of [Client.Await].
func (c *Client) AwaitBatch(ctx context.Context, batch string, ids []string) iter.Seq2[*jobs.Result, error] {
	return func(yield func(*jobs.Result, error) bool) {
		h, err := c.subscribeResults(ctx, jobs.EncodeToken(batch), ids)
		if err != nil {
			yield(nil, err)
			return
		}
		defer h.close()
		h.results(ctx)(yield)
	}
}

// results yields the results of the jobs, or of their replays, until none is missing. What is heard of a result is a hint only: it is looked up
// where it is kept, since the server may refuse what was published, or not have stored it yet. What was not heard is looked up by and by.
func (h *resultSubscription) results(ctx context.Context) iter.Seq2[*jobs.Result, error] {
	return func(yield func(*jobs.Result, error) bool) {
		for len(h.missing) > 0 {
			results, err := h.look(ctx)
			for _, r := range results {
				var replay string
				if replay, err = h.c.awaitedReplay(ctx, r); err != nil {
					break
				}
				delete(h.missing, r.JobID)
				if replay != "" {
					h.add(replay)
				} else if !yield(r, nil) {
					return
				}
			}
			if err == nil {
				err = h.wait(ctx)
			}
			if ctx.Err() != nil {
				err = h.c.timeoutError(ctx, slices.Sorted(maps.Keys(h.missing)))
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

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

// resultSubscription is what an await has still to see, and hears. It belongs to one goroutine.
type resultSubscription struct {
	c        *Client
	batch    string               // a token, or anyBatch
	missing  map[string]time.Time // job → its own deadline, zero if it has none or is not known
	unlearnt []string             // jobs whose deadline is not known, in the order in which to ask
	turn     []string             // jobs that may be missing, in the order in which they are looked up by and by

	sub     *nats.Subscription
	msgs    chan *nats.Msg
	back    chan nats.Status // the connection is
	tick    *time.Timer
	due     []string // jobs whose results are to be looked up now
	heard   []string // jobs whose results were heard, and are not there yet,
	looks   int      // though they were looked up so often
	settled bool     // what was being stored at the beginning is
	slow    bool     // the server was seen to take longer to keep a result than to tell of it

	unreadable map[string]bool // jobs of which that was said
	deserted   time.Time       // since when a job is past its deadline, and no worker alive to end it
}

// subscribeResults begins to listen for the results of jobs. Batch is a token, or [anyBatch].
func (c *Client) subscribeResults(ctx context.Context, batch string, ids []string) (*resultSubscription, error) {
	h := &resultSubscription{c: c, batch: batch, missing: map[string]time.Time{}, unreadable: map[string]bool{}, msgs: make(chan *nats.Msg, 4*awaitBatch), tick: time.NewTimer(awaySoon)} // a result that was published before and not yet stored is not heard, nor there at the first look
	for _, id := range ids {
		h.add(id)
	}
	job := "*"
	if len(ids) == 1 {
		job = ids[0]
	}
	var err error
	if h.sub, err = c.nc.ChanSubscribe(resultsOf(c.user, batch, job), h.msgs); err != nil {
		h.tick.Stop()
		return nil, c.failed(ctx, err, "listen for results")
	}
	h.back = c.nc.StatusChanged(nats.CONNECTED)
	return h, nil
}

func (h *resultSubscription) close() {
	_ = h.sub.Unsubscribe() // fails only on a closed connection
	h.c.nc.RemoveStatusListener(h.back)
	h.tick.Stop()
}

func (h *resultSubscription) add(id string) {
	if _, there := h.missing[id]; !there {
		h.missing[id] = time.Time{}
		h.unlearnt, h.turn, h.due = append(h.unlearnt, id), append(h.turn, id), append(h.due, id)
	}
}

// look returns the results that are there of some of the jobs that are due.
func (h *resultSubscription) look(ctx context.Context) ([]*jobs.Result, error) {
	n := min(len(h.due), awaitAtOnce)
	some := slices.DeleteFunc(slices.Clone(h.due[:n]), func(id string) bool { return !h.isMissing(id) })
	slices.Sort(some)
	some = slices.Compact(some)
	found, errs := make([]*jobs.Result, len(some)), make([]error, len(some))
	var asked sync.WaitGroup
	for i, id := range some {
		asked.Go(func() { found[i], errs[i] = h.c.stored(ctx, h.batch, id) })
	}
	asked.Wait()
	for i, err := range errs {
		if jobs.CodeOf(err) != jobs.CodeInvalid {
			continue
		}
		if errs[i] = nil; !h.unreadable[some[i]] { // a newer version's, perhaps, which does not end the waiting for others
			h.c.log.Warn("result cannot be read", "error", err)
			h.unreadable[some[i]] = true
		}
	}
	if err := errors.Join(errs...); err != nil {
		if err = transient(err, h.c); err == nil {
			pause(ctx, awaySoon)
		}
		return nil, err
	}
	h.due = h.due[n:]
	return slices.DeleteFunc(found, func(r *jobs.Result) bool { return r == nil }), nil
}

func (h *resultSubscription) isMissing(id string) bool {
	_, is := h.missing[id]
	return is
}

// wait waits until jobs are due, or ctx ends.
func (h *resultSubscription) wait(ctx context.Context) error {
	h.heard = slices.DeleteFunc(h.heard, func(id string) bool { return !h.isMissing(id) })
	for len(h.due) == 0 && len(h.missing) > 0 && ctx.Err() == nil {
		var again <-chan time.Time
		if len(h.heard) > 0 {
			again = time.After(awaitPause << h.looks)
		}
		select {
		case m := <-h.msgs:
			h.hint(m)
			for len(h.msgs) > 0 {
				h.hint(<-h.msgs)
			}
		case <-again:
			h.slow, h.due = true, slices.Clone(h.heard)
			if h.looks++; h.looks == awaitPauses { // whoever published it died, or the server refused it
				h.heard, h.looks = nil, 0
			}
		case <-h.back: // and nobody knows what was missed
			h.due = slices.Sorted(maps.Keys(h.missing))
		case <-h.tick.C:
			h.tick.Reset(awaitLook)
			return h.examine(ctx)
		case <-ctx.Done():
		}
	}
	return nil
}

// hint notes that the result of a job was heard.
func (h *resultSubscription) hint(m *nats.Msg) {
	if id := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]; h.isMissing(id) {
		if h.heard, h.looks = append(h.heard, id), 0; !h.slow {
			h.due = append(h.due, id)
		}
	}
}

// examine finds out about missing jobs, has those ended whose deadlines have passed, and has some looked up that may have been missed.
func (h *resultSubscription) examine(ctx context.Context) error {
	for len(h.turn) > 0 && len(h.due) < awaitBatch {
		id := h.turn[0]
		if h.turn = h.turn[1:]; h.isMissing(id) {
			h.due = append(h.due, id)
		}
	}
	if len(h.turn) == 0 { // from the beginning
		h.turn = slices.Sorted(maps.Keys(h.missing))
	}
	if !h.settled {
		h.settled = true
		return nil
	}
	if err := h.learn(ctx); err != nil {
		return h.noWorker(err)
	}
	late := h.expired(h.c.clock.at(time.Now()).Add(-h.c.timing.DeadlineGrace))
	if len(late) == 0 {
		return nil
	}
	_, err := control[ended](ctx, h.c.Conn, verbExpire, h.c.user, request{Jobs: late[:min(len(late), awaitBatch)]})
	return h.noWorker(err)
}

// noWorker ignores an error that comes of workers, or NATS, being away; for how long if jobs are past their deadlines is bounded.
func (h *resultSubscription) noWorker(err error) error {
	if !errors.Is(err, errNoWorker) {
		h.deserted = time.Time{}
		return transient(err, h.c)
	}
	switch now := time.Now(); {
	case len(h.expired(h.c.clock.at(now).Add(-h.c.timing.DeadlineGrace))) == 0:
		h.deserted = time.Time{}
	case h.deserted.IsZero():
		h.deserted = now
	case now.Sub(h.deserted) > h.c.timing.PresenceTTL:
		return jobs.Errorf(jobs.CodeDecodeMissing, jobs.MsgDecodeMissing)
	}
	return nil
}

// learn finds out where some jobs are of which nothing is known, and their deadlines. Those that are nowhere are asked for again later: they may not be submitted yet.
func (h *resultSubscription) learn(ctx context.Context) error {
	h.unlearnt = slices.DeleteFunc(h.unlearnt, func(id string) bool { return !h.isMissing(id) })
	n := min(len(h.unlearnt), awaitBatch)
	if n == 0 {
		return nil
	}
	found, err := h.c.find(ctx, false, h.unlearnt[:n]...)
	if err != nil {
		return err
	}
	h.unlearnt = h.unlearnt[n:]
	for _, f := range found {
		switch {
		case f.pending():
			h.missing[f.JobID] = f.Deadline
		case f.Place == PlaceFinished:
			h.due = append(h.due, f.JobID)
		default:
			h.unlearnt = append(h.unlearnt, f.JobID)
		}
	}
	return nil
}

// expired returns the missing jobs whose own deadline was before t.
func (h *resultSubscription) expired(t time.Time) []string {
	var ids []string
	for id, deadline := range h.missing {
		if !deadline.IsZero() && deadline.Before(t) {
			ids = append(ids, id)
		}
	}
	return ids
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
