package grader

import (
	"context"
	"slices"
	"sync"
	"time"

	"tandem/internal/grader/report"
	"tandem/internal/grader/rubric"
	"tandem/jobs"
)

// classEvery is how often the class's page is written while answers come, at most.
const classEvery = 5 * time.Second

// run is one run of a grading. Two goroutines share it: one sends requests (send.go), the other takes the answers and writes the reports (take.go).
type run struct {
	*Grading
	models Answerer
	began  time.Time

	// Of the goroutine that takes answers, and of begin before there are two.
	waiting map[string]*request // by the custom id of the attempt that is out
	ids     []string            // of jobs that nobody awaits yet
	reused  int                 // answers of earlier runs
	written time.Time           // when the class's page was
	changed bool                // since then

	mu    sync.Mutex // guards what follows, and when an attempt was asked and answered
	tell  func(Event)
	event Event
	queue []sending
	wake  chan struct{} // holds one if something was added to the queue
}

// Run asks, scores and writes reports, each as soon as it can be, and the class's at the end and now and then before. It returns the class's record; when ctx ends first, its cause, after what came was
// written: a later run with Resume goes on from there. models may be nil if nothing is asked, tell may be nil. A Grading is run once.
func (g *Grading) Run(ctx context.Context, models Answerer, tell func(Event)) (*report.Class, error) {
	if tell == nil {
		tell = func(Event) {}
	}
	r := &run{Grading: g, models: models, began: g.o.Now(), waiting: map[string]*request{}, tell: tell, wake: make(chan struct{}, 1)}
	if err := g.ledger.begin(begun{V: ledgerVersion, Batch: g.batch, User: g.o.User, Created: r.began.UTC()}); err != nil {
		return nil, err
	}
	if err := g.dir.WriteRubric(g.a.Rubric); err != nil {
		return nil, err
	}
	if err := g.writeFiles(); err != nil {
		return nil, err
	}
	if err := r.begin(); err != nil {
		return nil, err
	}
	if err := r.askAll(ctx); err != nil {
		_, _ = r.writeClass(false) // what ended the run is what the user must know
		return nil, err
	}
	return r.writeClass(true)
}

// begin writes the reports that wait for no answer, and lists what is to be sent.
func (r *run) begin() error {
	r.event.Submissions = len(r.submissions)
	for i, judge := range judges {
		r.event.Judges[i].Model = r.a.model(judge)
	}
	for _, q := range r.sendingOrder() {
		if err := r.list(q); err != nil {
			return err
		}
	}
	held := 0
	for _, s := range r.submissions {
		switch {
		case s.settled():
			if err := r.finish(s); err != nil {
				return err
			}
		case s.held():
			held++
			if err := r.keep(s); err != nil {
				return err
			}
		}
	}
	if held > 0 {
		r.warn("other submissions that wait to be asked about: %d; go on with --resume, without --student", held)
	}
	r.say(nil, nil, func(*Event) {}) // how much there is to do
	_, err := r.writeClass(false)
	return err
}

// list counts a request and queues it if it is to be sent.
func (r *run) list(q *request) error {
	share := r.event.share(q.judge)
	for _, a := range q.round {
		if a.answer != nil {
			share.Jobs++
			share.Answered++
		}
	}
	switch {
	case q.settled():
		r.reused++
	case q.held:
	case q.pending():
		share.Jobs++
		return r.listPending(q)
	default:
		r.ask(q)
	}
	return nil
}

// listPending queues a request that an earlier run has sent, or was about to. If that run stored the answer and died before it could say so, it is taken now.
func (r *run) listPending(q *request) error {
	a := q.last()
	r.waiting[a.customID()] = q
	if !a.lost {
		answer, err := r.answers.read(a)
		if err != nil {
			return err
		}
		if answer != nil {
			return r.take(answer)
		}
	}
	r.ids = append(r.ids, a.Job)
	r.enqueue(sending{q: q, a: a, earlier: true, problem: q.problem()})
	return nil
}

// ask queues an attempt: the first of a round, or the one after an answer that did not pass.
func (r *run) ask(q *request) {
	a := r.attempt(q)
	r.waiting[a.customID()] = q
	r.ids = append(r.ids, a.Job)
	r.enqueue(sending{q: q, a: a, problem: q.problem()})
}

// askAll sends what is queued, and takes the answers, until there are all.
func (r *run) askAll(parent context.Context) error {
	if len(r.waiting) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(parent)
	var sending sync.WaitGroup
	sending.Go(func() {
		if err := r.sendAll(ctx); err != nil {
			cancel(err)
		}
	})
	err := r.takeAll(ctx)
	cancel(err)
	sending.Wait()
	if err != nil {
		return context.Cause(ctx) // what failed first, and ended the other
	}
	return nil
}

// share is the judge's.
func (e *Event) share(judge rubric.Judge) *Share { return &e.Judges[slices.Index(judges[:], judge)] }

// say changes the event and tells it. What is true of the one event alone is in result and finished.
func (r *run) say(result *jobs.Result, finished *report.Student, change func(*Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.event)
	e := r.event
	e.Result, e.Finished = result, finished
	r.tell(e)
}
