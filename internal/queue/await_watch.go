package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/jobs"
)

// resultWatch listens for the results that all waits of a client await, and finds out about their jobs: one or two subscriptions and one goroutine,
// whatever the number of waits, and none while there is none.
type resultWatch struct {
	c *Client

	mu       sync.Mutex
	waits    map[*resultWait]bool
	jobs     map[string]*awaitedJob
	fresh    []string // jobs of which it is to be found out at once whether they are known
	unlearnt []string // jobs whose deadlines are not known, in the order in which to ask
	turn     []string // jobs that may be missing, in the order in which they are looked up by and by

	one      *nats.Subscription // of what the first wait awaits
	all      *nats.Subscription // of all results of the user, once there is a second one
	wake     chan struct{}      // holds a value when there are fresh ones
	stop     func()             // ends the goroutine
	deserted time.Time          // since when a job is past its deadline, and no worker alive to end it
}

// awaitedJob is a job whose result is awaited.
type awaitedJob struct {
	waits    []*resultWait
	deadline time.Time // its own; zero if it has none, or if it is not known
	learnt   bool      // it is known
}

func newResultWatch(c *Client) *resultWatch {
	return &resultWatch{c: c, waits: map[*resultWait]bool{}, jobs: map[string]*awaitedJob{}, wake: make(chan struct{}, 1)}
}

// join begins to listen for the results of jobs. Batch is a token, or [anyBatch].
func (s *resultWatch) join(batch string, ids []string) (*resultWait, error) {
	w := &resultWait{c: s.c, watch: s, batch: batch, known: true, missing: map[string]bool{}, unreadable: map[string]bool{}, news: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.listen(batch, ids); err != nil {
		return nil, err
	}
	s.waits[w] = true
	for _, id := range ids {
		if !w.missing[id] {
			w.missing[id] = true
			w.due = append(w.due, id)
			s.addLocked(w, id)
		}
	}
	return w, nil
}

// listen subscribes to what a new wait awaits. The lock must be held.
func (s *resultWatch) listen(batch string, ids []string) (err error) {
	job := "*"
	if len(ids) == 1 {
		job = ids[0]
	}
	switch {
	case len(s.waits) == 0:
		if s.one, err = s.c.nc.Subscribe(resultsOf(s.c.user, batch, job), s.hear); err != nil {
			return s.c.failed(context.Background(), err, "listen for results")
		}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { s.run(ctx) })
		s.stop = func() {
			cancel()
			running.Wait()
		}
	case s.all == nil:
		if s.all, err = s.c.nc.Subscribe(resultsOf(s.c.user, anyBatch, "*"), s.hear); err != nil {
			return s.c.failed(context.Background(), err, "listen for results")
		}
	}
	return nil
}

// leave ends a wait, and with the last one all that there is for them.
func (s *resultWatch) leave(w *resultWait) {
	s.mu.Lock()
	delete(s.waits, w)
	for id := range w.missing {
		s.doneLocked(w, id)
	}
	var stop func()
	if len(s.waits) == 0 {
		stop, s.stop = s.stop, nil
		for _, sub := range []*nats.Subscription{s.one, s.all} {
			if sub != nil {
				_ = sub.Unsubscribe() // fails only on a closed connection
			}
		}
		s.one, s.all, s.fresh, s.unlearnt, s.turn, s.deserted = nil, nil, nil, nil, nil, time.Time{}
	}
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// add has a wait await one more job.
func (s *resultWatch) add(w *resultWait, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil { // which the first wait's own subscription may not match
		if all, err := s.c.nc.Subscribe(resultsOf(s.c.user, anyBatch, "*"), s.hear); err == nil { // else it is looked up by and by
			s.all = all
		}
	}
	s.addLocked(w, id)
}

func (s *resultWatch) addLocked(w *resultWait, id string) {
	j := s.jobs[id]
	if j == nil {
		j = &awaitedJob{}
		s.jobs[id] = j
		s.unlearnt, s.turn = append(s.unlearnt, id), append(s.turn, id)
	}
	j.waits = append(j.waits, w)
}

// done takes a job off that a wait has the result of.
func (s *resultWatch) done(w *resultWait, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doneLocked(w, id)
}

func (s *resultWatch) doneLocked(w *resultWait, id string) {
	if j := s.jobs[id]; j != nil {
		if j.waits = slices.DeleteFunc(j.waits, func(o *resultWait) bool { return o == w }); len(j.waits) == 0 {
			delete(s.jobs, id)
		}
	}
}

// check has it found out whether jobs are known. If one is not, its waits end.
func (s *resultWatch) check(ids []string) {
	s.mu.Lock()
	s.fresh = append(s.fresh, ids...)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // it is about to be
	}
}

// learnt notes what is known of a job: it was accepted, with this deadline.
func (s *resultWatch) learnt(id string, deadline time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[id]; j != nil {
		j.deadline, j.learnt = deadline, true
	}
}

// take returns what a wait was told since it asked last.
func (s *resultWatch) take(w *resultWait) hints {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := w.told
	w.told = hints{}
	return h
}

// tell has the waits of a job know something. The lock must be held.
func (s *resultWatch) tell(id string, what func(*hints)) {
	if j := s.jobs[id]; j != nil {
		for _, w := range j.waits {
			what(&w.told)
			select {
			case w.news <- struct{}{}:
			default: // it has not taken what it was told before
			}
		}
	}
}

// look has results looked up that may have been missed. The lock must be held.
func (s *resultWatch) look(id string) {
	s.tell(id, func(h *hints) {
		if h.look == nil {
			h.look = map[string]bool{}
		}
		h.look[id] = true
	})
}

// hear notes that the result of a job was published.
func (s *resultWatch) hear(m *nats.Msg) {
	id := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(id, func(h *hints) { h.heard = append(h.heard, id) })
}

// run finds out about jobs until ctx ends.
func (s *resultWatch) run(ctx context.Context) {
	back := s.c.nc.StatusChanged(nats.CONNECTED)
	defer s.c.nc.RemoveStatusListener(back)
	tick := time.NewTicker(awaitLook)
	defer tick.Stop()
	for {
		select {
		case <-back: // and nobody knows what was missed
			s.mu.Lock()
			for id := range s.jobs {
				s.look(id)
			}
			s.mu.Unlock()
		case <-s.wake:
			for s.checkFresh(ctx) {
			}
		case <-tick.C:
			late, err := s.examine(ctx)
			if err != nil {
				s.fail(late, err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// fail ends the waits of some jobs, or all if none are given.
func (s *resultWatch) fail(ids []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ids == nil {
		for id := range s.jobs {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		s.tell(id, func(h *hints) { h.err = err })
	}
}

// examine finds out about missing jobs, has those ended whose deadlines have passed, and has some looked up that may have been missed. Late are the
// jobs that an error is about; nil is all.
func (s *resultWatch) examine(ctx context.Context) (late []string, err error) {
	s.mu.Lock()
	n := min(len(s.turn), awaitBatch)
	for _, id := range s.turn[:n] {
		s.look(id)
	}
	if s.turn = s.turn[n:]; len(s.turn) == 0 { // from the beginning
		for id := range s.jobs {
			s.turn = append(s.turn, id)
		}
		slices.Sort(s.turn)
	}
	s.mu.Unlock()
	if err := s.learn(ctx); err != nil {
		return s.noWorker(err)
	}
	if late = s.late(); len(late) == 0 {
		return nil, nil
	}
	_, err = control[ended](ctx, s.c.Conn, verbExpire, s.c.user, request{Jobs: late[:min(len(late), awaitBatch)]})
	return s.noWorker(err)
}

// checkFresh finds out whether some of the fresh jobs are known, and reports whether there were any.
func (s *resultWatch) checkFresh(ctx context.Context) bool {
	s.mu.Lock()
	n := min(len(s.fresh), awaitBatch)
	some := slices.DeleteFunc(slices.Clone(s.fresh[:n]), func(id string) bool { return s.jobs[id] == nil })
	s.fresh = s.fresh[n:]
	s.mu.Unlock()
	if len(some) == 0 {
		return n > 0
	}
	var found []Found
	err := retryUnavailable(ctx, absentLimit, func() (err error) {
		found, err = s.c.find(ctx, true, some...)
		return err
	})
	if err != nil && !errors.Is(err, errNoWorker) { // else the jobs may be queued
		s.fail(some, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range found {
		switch f.Place {
		case PlaceUnknown, PlaceDead:
			s.tell(f.JobID, func(h *hints) { h.err = s.c.noResult(s.c.user, f.JobID, f.Place) })
		case PlaceFinished:
			s.look(f.JobID)
		}
	}
	return true
}

// noWorker ignores an error that comes of workers, or NATS, being away; for how long if jobs are past their deadlines is bounded.
func (s *resultWatch) noWorker(err error) (late []string, _ error) {
	late = s.late()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := time.Now(); {
	case !errors.Is(err, errNoWorker):
		s.deserted = time.Time{}
		return nil, transient(err, s.c)
	case len(late) == 0:
		s.deserted = time.Time{}
	case s.deserted.IsZero():
		s.deserted = now
	case now.Sub(s.deserted) > s.c.timing.PresenceTTL:
		return late, jobs.Errorf(jobs.CodeDecodeMissing, jobs.MsgDecodeMissing)
	}
	return nil, nil
}

// learn finds out where some jobs are of which nothing is known, and their deadlines. Those that are nowhere are asked for again later: they may not be submitted yet.
func (s *resultWatch) learn(ctx context.Context) error {
	s.mu.Lock()
	s.unlearnt = slices.DeleteFunc(s.unlearnt, func(id string) bool { return s.jobs[id] == nil || s.jobs[id].learnt })
	some := slices.Clone(s.unlearnt[:min(len(s.unlearnt), awaitBatch)])
	s.mu.Unlock()
	if len(some) == 0 {
		return nil
	}
	found, err := s.c.find(ctx, false, some...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range found {
		switch j := s.jobs[f.JobID]; {
		case j == nil:
		case f.pending():
			j.deadline, j.learnt = f.Deadline, true
		case f.Place == PlaceFinished:
			s.look(f.JobID)
			j.learnt = true
		}
	}
	s.unlearnt = slices.DeleteFunc(s.unlearnt, func(id string) bool { return slices.Contains(some, id) })
	s.unlearnt = append(s.unlearnt, some...) // those that are learnt now are dropped at the next look
	return nil
}

// late returns the jobs whose own deadlines passed some time ago, by the server's clock.
func (s *resultWatch) late() []string {
	t := s.c.clock.at(time.Now()).Add(-s.c.timing.DeadlineGrace)
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id, j := range s.jobs {
		if !j.deadline.IsZero() && j.deadline.Before(t) {
			ids = append(ids, id)
		}
	}
	return ids
}
