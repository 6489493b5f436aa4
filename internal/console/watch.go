package console

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"tandem/client/admin"
	"tandem/jobs"
)

const (
	keptEnded  = 2000            // requests that have ended
	pollEvery  = 2 * time.Second // while somebody looks
	pollLimit  = 5 * time.Second // for NATS to say who works
	goneAfter  = time.Hour       // a worker that went away is forgotten then
	listenWait = time.Second     // before events are listened for again

	keptUnended = 24 * time.Hour // a request of whose end nobody has heard
)

// watch is what was seen of jobs since it began, and of workers. It disturbs no queue: events are heard, and who works is asked for only while somebody looks.
type watch struct {
	system *admin.Client
	log    *slog.Logger
	asking sync.Mutex // one question at a time

	mu         sync.Mutex
	seen       uint64        // counts what changed
	stirred    chan struct{} // closed at the next change
	looking    int           // pages that are open
	wake       chan struct{} // holds a value when one was opened
	index      *index
	wanted     time.Time     // when somebody looked at jobs last
	want       chan struct{} // holds a value when somebody does
	unread     string        // why the streams could not be read
	surplus    int           // how often the streams were seen to hold fewer jobs than the index
	reconciled time.Time     // when that was mended last
	ended      []request     // the last ones
	total      int           // of all that ended
	workers    map[string]worker
	models     []admin.ModelStatus
	streams    []admin.StreamStatus
	problem    string    // why it is not known who works
	asked      time.Time // when it was

	since   time.Time          // when this began
	atWork  map[string]*atWork // by user and id: requests that a worker has begun
	lanes   lanes
	history history
	pairs   pairs
}

// request is one that has ended.
type request struct {
	Number   int
	Accepted time.Time
	jobs.Result
}

// worker is one that was seen.
type worker struct {
	admin.Presence
	seen time.Time
	gone bool
}

func newWatch(system *admin.Client, log *slog.Logger) *watch {
	return &watch{
		system: system, log: log, stirred: make(chan struct{}), wake: make(chan struct{}, 1), want: make(chan struct{}, 1), index: newIndex(), workers: map[string]worker{},
		since: time.Now(), atWork: map[string]*atWork{},
	}
}

// version counts what was seen; next is closed at the next change.
func (w *watch) version() (seen uint64, next <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen, w.stirred
}

// changed tells of a change. The lock must be held.
func (w *watch) changed() {
	w.seen++
	close(w.stirred)
	w.stirred = make(chan struct{})
}

// look notes that a page was opened, until it is closed.
func (w *watch) look() (closed func()) {
	w.mu.Lock()
	w.looking++
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // it is about to wake up
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.looking--
	}
}

// listen hears what happens to jobs, until ctx ends.
func (w *watch) listen(ctx context.Context) {
	for ctx.Err() == nil {
		events, err := w.system.JobEvents(ctx)
		if err != nil {
			w.log.Warn("the console cannot hear what happens to jobs; it tries again", "error", err)
		} else {
			for e := range events {
				w.event(e)
			}
		}
		select {
		case <-time.After(listenWait):
		case <-ctx.Done():
		}
	}
}

// event takes what happened to a job.
func (w *watch) event(e *jobs.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if max(len(e.Model), len(e.Worker), len(e.User), len(e.Batch), len(e.Code), len(e.Stage), len(e.Status), len(e.Method), len(e.Failure)) > 2*jobs.MaxName { // nothing of ours
		return
	}
	accepted := e.At
	if j := w.index.byKey[jobKey{wordOf(e.User), e.JobID}]; j != nil {
		accepted = j.accepted
	}
	w.index.event(e)
	if e.Type == jobs.EventEnded {
		w.end(e, accepted)
	}
	w.follow(time.Now(), e.User+" "+e.JobID, e)
	w.changed()
}

// end keeps a request that has ended. The lock must be held.
func (w *watch) end(e *jobs.Event, accepted time.Time) {
	w.total++
	r := request{Number: w.total, Accepted: accepted, Result: jobs.Result{JobID: e.JobID, Model: e.Model, Status: e.Status, Method: e.Method, FinishedAt: e.At}}
	if e.Usage != nil {
		r.Usage = *e.Usage
		r.Usage.Extra = nil
	}
	if e.Timings != nil {
		r.Timings = *e.Timings
		r.Timings.Extra = nil
	}
	if e.Code != "" {
		r.Error = &jobs.ErrorInfo{Code: e.Code, Stage: e.Stage}
	}
	if w.ended = append(w.ended, r); len(w.ended) > keptEnded {
		w.ended = slices.Delete(w.ended, 0, len(w.ended)-keptEnded)
	}
}

// poll asks who works while somebody looks, until ctx ends.
func (w *watch) poll(ctx context.Context) {
	for {
		w.mu.Lock()
		looking := w.looking
		w.mu.Unlock()
		var again <-chan time.Time
		if looking > 0 {
			w.refresh(ctx)
			again = time.After(pollEvery)
		}
		select {
		case <-again:
		case <-w.wake:
		case <-ctx.Done():
			return
		}
	}
}

// refresh asks who works, unless that was done a moment ago.
func (w *watch) refresh(ctx context.Context) {
	w.asking.Lock()
	defer w.asking.Unlock()
	w.mu.Lock()
	asked := w.asked
	w.mu.Unlock()
	if time.Since(asked) < pollEvery/2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	workers, err := w.system.Workers(ctx)
	var models []admin.ModelStatus
	var streams []admin.StreamStatus
	if err == nil {
		if o, failed := w.system.Inspect(ctx); failed == nil {
			models, streams = o.Models, o.Streams
		} else if len(workers) > 0 { // else nobody may be there to count, for a grader's key
			err = failed
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked = time.Now(); err != nil {
		w.problem = err.Error()
		w.changed()
		return
	}
	if w.problem = ""; len(models) > 0 { // without a worker nobody counts
		w.models, w.streams = models, streams
	}
	waiting, running := 0, 0
	for _, m := range w.models {
		for _, c := range m.Classes {
			waiting, running = waiting+c.Prefill.Waiting+c.Decode.Waiting, running+c.Prefill.InFlight+c.Decode.InFlight
		}
	}
	w.history.load(w.asked, waiting, running)
	type post struct{ machine, role, model string }
	held := map[post]bool{}
	for _, p := range workers {
		held[post{p.Machine, string(p.Role), p.Model}] = true
	}
	for id, old := range w.workers {
		if old.gone = true; w.asked.Sub(old.seen) > goneAfter || held[post{old.Machine, string(old.Role), old.Model}] { // another is in its place
			delete(w.workers, id)
			continue
		}
		w.workers[id] = old
	}
	for _, p := range workers {
		w.workers[p.Machine+"/"+p.Worker] = worker{p, w.asked, false}
	}
	w.compare(streams)
	w.forget(w.asked)
	w.changed()
}
