package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

const (
	defaultStallLimit = 60 * time.Second
	defaultDrainLimit = 30 * time.Second
	handBackLimit     = 5 * time.Second // for what was cancelled to be handed back

	keptLimit = 5 * time.Second  // for cancels that were kept, before jobs are taken
	peekLimit = 10 * time.Second // for what is done of a job before it has a slot

	// linger is how long pulls are left at the server while no job may be fetched. What arrives is handed
	// back. A job that comes while its pull is being withdrawn is caught in the middle of its delivery,
	// which the server counts against it; jobs often come together with the one that took the slot, and
	// hardly ever this long after it. Short jobs need no withdrawal at all.
	linger = 200 * time.Millisecond
)

// Slots bounds how many jobs run on the engine at once, whoever brings them.
type Slots interface {
	Size() int
	// Idle is how many slots are free, and a channel that is closed when one more is.
	Idle() (free int, released <-chan struct{})
	// Acquire waits for a slot and takes it. One that is free is given even if ctx has ended.
	Acquire(ctx context.Context) (release func(), err error)
}

// WorkerConfig describes a [Worker].
type WorkerConfig struct {
	Role    jobs.Stage // prefill or decode; decode also serves fallback
	Model   string     // canonical
	ID      string     // unique among all workers
	Machine string     // the name a person knows the machine by

	// Run does one task: protocol.Classify of its error decides what becomes of the job. Its context ends
	// with the job's deadline, a cancel, a stall or the worker's stop, and the cause says which.
	Run   func(ctx context.Context, t *protocol.Task) (protocol.Outcome, error)
	Slots Slots
	// Ahead is how many jobs of each class may be fetched for each slot while others run there; see fetch_ahead.go. With none, a job is
	// fetched only when a slot is free for it.
	Ahead int
	// Prepare, if set, does what can be done of a task before it has a slot. It returns when that is done or ctx has ended, and does not
	// fail: what could not be done is Run's. Discard is called when the task is done with here; then nothing may be left of it.
	Prepare func(ctx context.Context, t *protocol.Task) (discard func())
	// Look, if set, is shown the job that will probably be next, while no slot is free, so that what can be done of it without one is done; the
	// job may be another worker's in the end.
	Peek func(ctx context.Context, j *jobs.Job)
	// Ready waits while the engine cannot work, and takes ctx as Slots does; nil means that it always can.
	Ready func(ctx context.Context) error
	// Next says what to do about jobs of plan auto that wait, when a slot is free; nil has prefill workers take them as all others, and decode
	// workers none.
	Next func(protocol.Backlog) protocol.Choice
	// Describe is asked for the presence at each beat; who and where the worker is need not be filled in.
	Describe func() Presence
	Observe  protocol.Observer // may be nil

	StallLimit time.Duration // silence of the engine after which its task is cancelled; default 60 s
	DrainLimit time.Duration // for what runs when the worker is stopped; default 30 s
	Log        *slog.Logger
}

// Worker fetches jobs for one model and runs them, one in each slot.
type Worker struct {
	c       *Conn
	cfg     WorkerConfig
	log     *slog.Logger
	started time.Time

	presence, handbacks jetstream.KeyValue
	clock               serverClock
	members             *membership
	intake              intake
	breaker             *breaker
	waiting             *slotQueue // who waits for a slot
	preempting          sync.Mutex

	deliveries sync.WaitGroup
	running    sync.Map // subjects of the jobs at work here
	changed    chan struct{}
	load       load
	outage     string // why no job can be fetched, as it was said last; only dispatch's goroutine knows
	draining   atomic.Bool
	aborted    chan struct{}
	abort      func()

	lookLimit time.Duration      // as the constant; tests shorten it
	published func(jobID string) // tests break things here, between a publish and its acknowledgement
}

// NewWorker returns a worker that does nothing yet.
func NewWorker(c *Conn, cfg WorkerConfig) (*Worker, error) {
	switch {
	case cfg.Role != protocol.RolePrefill && cfg.Role != protocol.RoleDecode:
		return nil, jobs.Errorf(jobs.CodeInvalid, "role is %q; want prefill or decode", cfg.Role)
	case cfg.ID == "":
		return nil, jobs.Errorf(jobs.CodeInvalid, "worker id is empty; give one that no other worker has")
	case cfg.Run == nil || cfg.Slots == nil || cfg.Describe == nil:
		return nil, errors.New("new worker: Run, Slots and Describe must be given")
	}
	if m, err := jobs.CanonicalModel(cfg.Model); err != nil {
		return nil, err
	} else if m != cfg.Model {
		return nil, jobs.Errorf(jobs.CodeInvalid, "model is %q; its canonical form is %q", cfg.Model, m)
	}
	if cfg.Ready == nil {
		cfg.Ready = func(context.Context) error { return nil }
	}
	if cfg.Prepare == nil {
		cfg.Prepare = func(context.Context, *protocol.Task) func() { return func() {} }
	}
	if cfg.StallLimit == 0 {
		cfg.StallLimit = defaultStallLimit
	}
	if cfg.DrainLimit == 0 {
		cfg.DrainLimit = defaultDrainLimit
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w := &Worker{
		c: c, cfg: cfg, log: cfg.Log, changed: make(chan struct{}, 1), aborted: make(chan struct{}),
		breaker: newBreaker(), waiting: newSlotQueue(), load: load{moved: make(chan struct{}, 1)}, lookLimit: lookLimit,
		members: newMembership(cfg.Model, c.timing, time.Now()),
	}
	if cfg.Observe != nil {
		c.observe = cfg.Observe
	}
	w.members.role, w.members.self = cfg.Role, presenceKey(cfg.Role, cfg.Model, cfg.ID)
	w.abort = sync.OnceFunc(func() { close(w.aborted) })
	return w, nil
}

// Peers lists the other live workers of the model, of both roles, as they were last heard. There are none
// before Run.
func (w *Worker) Peers() []Presence { return w.members.peers(w.cfg.ID) }

// Decoding is how many jobs of the model wait or run at decode, as a prefill worker counted them before it fetched the last
// job. A decode worker does not count them.
func (w *Worker) Decoding() int {
	if g := w.intake.gates[jobs.Batch]; g != nil {
		return g.last()
	}
	return 0
}

// Changed publishes the worker's presence now rather than at the next beat.
func (w *Worker) Changed() {
	select {
	case w.changed <- struct{}{}:
	default: // it is about to be
	}
}

// Abort ends a drain at once: what runs is cancelled and handed back.
func (w *Worker) Abort() { w.abort() }

// Run works until parent ends. Then it takes no more jobs, lets those that run finish within DrainLimit,
// hands the others back uncounted, deregisters and returns nil. It returns an error when it
// cannot go on, such as a closed connection. It can be called once.
func (w *Worker) Run(parent context.Context) error {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	if err := retryUnavailable(ctx, absentLimit, func() error { return w.prepare(ctx) }); err != nil {
		if w.presence != nil { // which may be published already
			w.deregister()
		}
		if parent.Err() != nil { // stopped before it began
			return nil
		}
		return err
	}
	w.workerEvent(jobs.Event{Type: jobs.EventWorkerBegan})
	// Helpers outlive ctx: a worker that drains still beats.
	helping, stopHelpers := context.WithCancel(context.WithoutCancel(ctx))
	var helpers sync.WaitGroup
	known := make(chan struct{})
	helpers.Go(func() {
		if err := w.members.watch(helping, w.c, func() { close(known) }); err != nil {
			stop(err)
		}
	})
	helpers.Go(func() {
		if err := w.connectionLost(helping); err != nil {
			stop(err)
		}
	})
	helpers.Go(func() { w.beat(helping) })
	helpers.Go(func() { w.sweep(helping) })
	stopControl, kept, err := w.c.ServeControl(helping, map[string]string{"role": string(w.cfg.Role), "model": w.cfg.Model, "machine": w.cfg.Machine, "worker": w.cfg.ID})
	if err != nil {
		stop(err)
	} else {
		defer stopControl()
	}

	// Publishing and acknowledging go on when the tasks are cancelled.
	publishing, giveUp := context.WithCancel(helping)
	tasks, cancelTasks := context.WithCancelCause(publishing)
	select { // a job that was cancelled while nobody lived is not to be begun
	case <-kept:
	case <-time.After(keptLimit):
	case <-ctx.Done():
	}
	select {
	case <-known:
		if err := w.dispatch(ctx, publishing, tasks); err != nil {
			stop(err)
		}
	case <-ctx.Done():
	}

	w.draining.Store(true)
	w.Changed()
	w.drain(cancelTasks, giveUp)
	stopHelpers()
	helpers.Wait()
	w.workerEvent(jobs.Event{Type: jobs.EventWorkerLeft})
	w.deregister()
	giveUp()
	if parent.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// prepare opens what the worker needs and makes it known.
func (w *Worker) prepare(ctx context.Context) (err error) {
	for _, role := range w.roles() {
		if err := w.c.EnsureConsumers(ctx, role, w.cfg.Model); err != nil {
			return err
		}
	}
	for bucket, kv := range map[string]*jetstream.KeyValue{BucketWorkers: &w.presence, BucketHandbacks: &w.handbacks} {
		if *kv, err = w.c.js.KeyValue(ctx, bucket); err != nil {
			return jobs.Errorf(jobs.CodeNATS, "open bucket %s: %w", bucket, w.c.explain(err))
		}
	}
	w.started = time.Now()
	w.members.begin(w.started)
	w.intake.w = w
	if w.cfg.Role == protocol.RolePrefill {
		slots := func() (int, <-chan struct{}) { view, changed := w.members.snapshot(); return view.decodeSlots, changed }
		w.intake.gates = map[jobs.Class]*gate{
			jobs.Interactive: {slots: slots, depth: func(ctx context.Context) (int, error) { return w.c.decodeDepth(ctx, w.cfg.Model, jobs.Interactive) }},
			jobs.Batch:       {slots: slots, depth: func(ctx context.Context) (int, error) { return w.c.decodeDepth(ctx, w.cfg.Model, jobs.Classes[:]...) }},
		}
	}
	return w.publishPresence(ctx)
}

// roles are those whose consumers the worker may take jobs of.
func (w *Worker) roles() []jobs.Stage {
	if w.cfg.Role == protocol.RoleDecode { // which may have to take the intake over before there ever was a prefill worker
		return []jobs.Stage{protocol.RoleDecode, protocol.RolePrefill}
	}
	return []jobs.Stage{w.cfg.Role}
}

// connectionLost waits for the end of the connection for good, or of ctx, which is no error.
func (w *Worker) connectionLost(ctx context.Context) error {
	closed := w.c.nc.StatusChanged(nats.CLOSED)
	defer w.c.nc.RemoveStatusListener(closed)
	if w.c.nc.IsClosed() {
		return nats.ErrConnectionClosed
	}
	select {
	case <-closed:
		return nats.ErrConnectionClosed
	case <-ctx.Done():
		return nil
	}
}

// drain waits for the deliveries at work, and cancels them when it has waited for long enough.
func (w *Worker) drain(cancelTasks context.CancelCauseFunc, giveUp context.CancelFunc) {
	finished := make(chan struct{})
	go func() {
		w.deliveries.Wait()
		close(finished)
	}()
	if !w.c.nc.IsClosed() { // else nothing can be brought to an end
		select {
		case <-finished:
		case <-w.aborted:
		case <-time.After(w.cfg.DrainLimit):
		}
	}
	cancelTasks(jobs.ErrDraining)
	select {
	case <-finished:
	case <-time.After(handBackLimit):
		giveUp()
		<-finished
	}
}

// server names this worker in records: "machine/worker".
func (w *Worker) server() string { return fmt.Sprintf("%s/%s", w.cfg.Machine, w.cfg.ID) }
