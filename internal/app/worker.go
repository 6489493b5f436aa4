package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"tandem/internal/access"
	"tandem/internal/engine"
	"tandem/internal/handover"
	"tandem/internal/natscontext"
	"tandem/internal/pipeline"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/telemetry"
	"tandem/internal/tracing"
	"tandem/internal/workerhttp"
	"tandem/jobs"
)

// healthEvery is how often a worker asks its engine whether it still can work.
const healthEvery = 5 * time.Second

// WorkerConfig is what a [Worker] is made of.
type WorkerConfig struct {
	Role   jobs.Stage // prefill or decode
	Flags  WorkerFlags
	Engine engine.Engine // nil: made from the flags
	Timing queue.Timing  // zero: the defaults
	Log    *slog.Logger
}

// Worker is one worker process: one engine, one model, one role, the queue on one side and the
// HTTP API on the other.
type Worker struct {
	role     jobs.Stage
	flags    WorkerFlags
	id       string
	started  time.Time
	log      *slog.Logger
	engine   engine.Engine
	monitor  *engine.Monitor
	slots    *engine.Slots
	rates    *engine.Rates
	prefixes *engine.Prefixes
	stage    *pipeline.Stage
	states   *handover.Server // of a prefill worker that hands KV states over; else nil
	pairs    *pipeline.Pairs  // of a decode worker; else nil
	checks   *checks
	offered  sync.Map // keys of certificates by the addresses at which prefill workers offered KV states
	silent   sync.Map // servers of prefill workers whose engines' checks were waited for in vain
	swept    bool     // an earlier run's states were removed when this one started
	metrics  *telemetry.Worker
	queue    *queue.Worker
	conn     *queue.Conn
	addr     string
	http     *http.Server

	cleanup []func() // last in, first out

	mu      sync.Mutex
	drainBy time.Time // when the drain must have ended; zero while there is none
}

// StartWorker starts a worker up to the point where it takes jobs as soon as its engine is ready.
// What it had started when something failed is stopped again. [Worker.Run] must follow.
func StartWorker(ctx context.Context, c WorkerConfig) (_ *Worker, err error) {
	if err := c.Flags.complete(); err != nil {
		return nil, err
	}
	w := &Worker{
		role: c.Role, flags: c.Flags, started: time.Now(),
		id:  fmt.Sprintf("%s-%s", jobs.EncodeToken(c.Flags.Machine), strings.ToLower(rand.Text()[:6])),
		log: c.Log.With("role", c.Role, "model", c.Flags.Model),
	}
	w.flags.statePrefix = statePrefix(w.role, w.flags.Model)
	if w.flags.engineKey, err = readSecret("engine-key-file", w.flags.EngineKeyFile, 1); err != nil {
		return nil, err
	}
	if w.flags.httpToken, err = ReadToken(w.flags.HTTPTokenFile); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()

	if w.engine = c.Engine; w.engine == nil {
		if w.engine, err = newEngine(w.flags, w.log); err != nil {
			return nil, err
		}
		w.onClose("engine", w.engine.Close)
	}
	w.slots = engine.NewSlots(w.flags.Slots)
	w.rates, w.prefixes = &engine.Rates{}, engine.NewPrefixes(w.flags.Slots)
	w.metrics = telemetry.NewWorker(w.role, w.flags.Model, Version(), telemetry.Gauges{
		Slots: w.slots.Size, Busy: w.slots.Busy, BusySeconds: w.slots.BusySeconds, Queue: w.depths,
		EngineUp: func() bool { return w.monitor.Health().State == engine.Ready }, NATSUp: func() bool { return w.conn.Connected() },
		States: w.held, StoppedPairs: func() int { return len(w.pairs.Stopped()) },
	})
	w.monitor = engine.NewMonitor(w.engine, healthEvery, w.log)

	url, opts, err := natscontext.Load(w.flags.NATSContext, map[string]string{"nats": w.flags.NATS, "creds": w.flags.Creds, "nkey": w.flags.NKey, "tls-ca": w.flags.TLSCA})
	if err != nil {
		return nil, err
	}
	w.conn, err = queue.Connect(ctx, queue.Config{
		URL: cmp.Or(url, w.flags.NATS), Creds: w.flags.Creds, NKey: w.flags.NKey, TLSCA: w.flags.TLSCA, Options: opts, Context: w.flags.NATSContext,
		Replicas: w.flags.Replicas, Name: "tandem-" + string(w.role) + " " + w.id, Model: w.flags.Model, Inbox: access.WorkerInbox(w.role, w.flags.Model), Log: w.log, Timing: c.Timing,
	})
	if err != nil {
		return nil, err
	}
	w.onClose("nats", func() error { w.conn.Close(); return nil })
	if err := w.conn.EnsureStreams(ctx); err != nil {
		return nil, err
	}
	if sync := w.conn.Sync(ctx); sync != queue.SyncAlways {
		w.log.Warn("NATS may lose acknowledged jobs if its machine crashes: see that it has sync_interval: always", "sync", sync)
	}
	if err := w.waitForEngine(ctx); err != nil {
		return nil, err
	}
	if w.checks, err = openChecks(w.role, w.flags); err != nil {
		w.log.Warn("the check of the engine that an earlier run made is lost", "error", err)
	}
	w.swept = w.sweep() // before this run's first state, where possible
	stage := pipeline.Config{
		Engine: w.engine, Server: w.flags.Machine + "/" + w.id, Rates: w.rates, Slots: w.slots, Log: w.log,
		About: func() engine.Description { return w.monitor.Health().Description },
		Role:  w.role, Workers: w.peers, NoStates: w.takesNone, Decoding: func() int { return w.queue.Decoding() },
		Prefixes: w.prefixes, Changed: func() { w.queue.Broadcast() },
	}
	if err := w.startHandover(ctx, &stage); err != nil {
		return nil, err
	}
	w.stage = pipeline.New(stage)
	if err := w.listen(ctx); err != nil {
		return nil, err
	}
	profiler, err := startAside(ctx, asideOptions{Setting: "pprof", Addr: w.flags.Pprof, Log: w.log}, profiles())
	if err != nil {
		return nil, err
	}
	w.onClose("pprof", profiler.stop)
	w.queue, err = queue.NewWorker(w.conn, queue.WorkerConfig{
		Role: w.role, Model: w.flags.Model, ID: w.id, Machine: w.flags.Machine,
		Run: w.run, Slots: w.slots, Ahead: w.ahead(), Prepare: w.stage.Prepare, Peek: w.stage.Look, Ready: w.ready, Next: w.stage.Next, Describe: w.presence, Observe: w.metrics,
		DrainLimit: w.flags.DrainLimit, Log: w.log,
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Addr is where the HTTP API listens.
func (w *Worker) Addr() string { return w.addr }

// ID is the worker's id, unique among all workers.
func (w *Worker) ID() string { return w.id }

// Run works until the context ends, then drains: running jobs may finish, or are handed back.
func (w *Worker) Run(ctx context.Context) error {
	defer w.close()
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer stop()
	watchers.Go(func() { w.monitor.Run(watch) })
	watchers.Go(func() { w.announceChanges(watch) })
	if !w.swept {
		watchers.Go(func() { w.keepSweeping(watch) })
	}
	ctxMeasure, stopMeasuring := context.WithCancel(ctx)
	defer stopMeasuring()
	measure := w.measuring(ctxMeasure) // before the queue takes a slot
	watchers.Go(func() {
		measure()
		watchers.Go(func() { w.keepChecking(watch) })
		w.rates.Keep(watch, ratesFile(w.role, w.flags), w.subject, keepRatesEvery, w.log)
	})
	watchers.Go(func() {
		select {
		case <-ctx.Done():
			w.drain()
		case <-watch.Done():
		}
	})
	notifySystemd("READY=1")
	w.log.Info("worker started", "worker", w.id, "http", w.addr, "slots", w.flags.Slots, "engine", w.flags.Engine)
	err := w.queue.Run(ctx)
	w.log.Info("worker stopped", "worker", w.id)
	return err
}

// Abort ends what runs at once: jobs are handed back, HTTP calls are cut off.
func (w *Worker) Abort() {
	w.queue.Abort()
	_ = w.http.Close()
}

func (w *Worker) drain() {
	w.mu.Lock()
	w.drainBy = time.Now().Add(w.flags.DrainLimit)
	w.mu.Unlock()
	notifySystemd("STOPPING=1")
	w.log.Info("draining", "busy", w.slots.Busy(), "limit", w.flags.DrainLimit)
	w.queue.Changed()
}

func (w *Worker) isDraining() bool { return !w.drainEnd().IsZero() }

func (w *Worker) drainEnd() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.drainBy
}

// waitForEngine returns once the engine can work. One that cannot be reached gets some time to
// come up; a model that it does not have is final.
func (w *Worker) waitForEngine(ctx context.Context) error {
	deadline := time.Now().Add(w.flags.StartTimeout)
	for {
		err := w.monitor.Check(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case w.monitor.Health().State == engine.Loading: // reached, and the monitor knows when it takes too long
			deadline = time.Now().Add(w.flags.StartTimeout)
		case jobs.CodeOf(err) == jobs.CodeModelMissing, protocol.Classify(err) == protocol.Permanent, time.Now().After(deadline):
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// announceChanges tells the other side at once when the engine goes down or comes back.
func (w *Worker) announceChanges(ctx context.Context) {
	for {
		changed := w.monitor.Changed()
		w.queue.Changed()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// ahead is how many jobs of each class are fetched for each slot while others run. A prefill worker leaves those that it does not
// compute to others.
func (w *Worker) ahead() int {
	switch {
	case w.flags.Ahead != nil:
		return *w.flags.Ahead
	case w.role == protocol.RoleDecode:
		return 1
	}
	return 0
}

// run is one task. When it fails, the engine may have.
func (w *Worker) run(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
	start := time.Now()
	o, err := w.stage.Run(ctx, t)
	switch {
	case err == nil:
		w.monitor.Succeeded()
		w.log.Info("task done", "job", t.Job.ID, "stage", t.Stage, "attempt", t.Attempt, "seconds", time.Since(start).Seconds(), tracing.Log(ctx))
	case ctx.Err() == nil && protocol.Classify(err) != protocol.Permanent:
		brought := t.Handover != nil && t.Handover.Kind == jobs.KindState // a KV state, which may be what harmed the engine
		if why := w.monitor.Failed(ctx, t.Job.ID, err); why != nil && !brought {
			err = jobs.Errorf(jobs.CodeEngineBusy, "the job is left to another worker, or to this one when its engine is well again: %w", why)
		}
	}
	return o, err
}

// presence is what the others see of this worker.
func (w *Worker) presence() queue.Presence {
	h := w.monitor.Health()
	state := string(h.State)
	if w.isDraining() {
		state = "draining"
	}
	p := queue.Presence{
		Worker: w.id, Machine: w.flags.Machine, Role: w.role, Model: w.flags.Model,
		Engine: h.Description.Engine, EngineVersion: h.Description.Version, ModelDigest: h.Description.ModelDigest,
		State: state, Problem: h.Problem, Slots: w.slots.Size(), Busy: w.slots.Busy(),
		ContextTokens: h.Description.ContextTokens, Capabilities: h.Description.Capabilities, Handover: h.Description.Handover, HTTP: w.addr,
		Version: Version(), Started: w.started.UTC(), NoState: w.noState(h.Description),
		Strict: w.flags.HandoverStrict, Rates: w.rates.With(h.Description.KVTransfer), Running: w.stage.Running(), Rows: w.stage.Rows(),
	}
	p.Prefixes, p.Copies = w.prefixes.Held()
	if p.NoState == "" && h.Description.KVTransfer != nil {
		if p.Check, p.NoState = w.checks.current(h.Description); p.NoState == "" {
			p.Fingerprint = &h.Description.KVTransfer.Fingerprint
		}
	}
	if w.states != nil {
		p.StatesURL, p.StatesKey = w.states.URL(), w.states.Key()
	}
	if w.pairs != nil {
		p.StoppedPairs = w.pairs.Stopped()
	}
	return p
}

// depths is how much there is to do for the worker's model.
func (w *Worker) depths(ctx context.Context) (list []telemetry.Depth, err error) {
	work, err := w.conn.Work(ctx, w.flags.Model)
	for _, c := range work.Classes {
		list = append(list,
			telemetry.Depth{Stage: jobs.StagePrefill, Class: c.Class, Waiting: c.Prefill.Waiting, InFlight: c.Prefill.InFlight},
			telemetry.Depth{Stage: jobs.StageDecode, Class: c.Class, Waiting: c.Decode.Waiting, InFlight: c.Decode.InFlight})
	}
	return list, err
}

// takesJobs is nil if the worker takes jobs.
func (w *Worker) takesJobs() error {
	switch h := w.monitor.Health(); {
	case w.isDraining():
		return jobs.ErrDraining
	case h.State != engine.Ready:
		return fmt.Errorf("the engine is %s: %s", h.State, h.Problem)
	case !w.conn.Connected():
		return fmt.Errorf("no connection to NATS at %s", cmp.Or(protocol.RedactURL(w.flags.NATS), "context "+w.flags.NATSContext))
	}
	return nil
}

func (w *Worker) listen(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", w.flags.HTTP)
	if err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "listen for HTTP on %s; give another address with --http: %w", w.flags.HTTP, err)
	}
	w.addr = l.Addr().String()
	w.http = &http.Server{
		Handler: workerhttp.New(workerhttp.Config{
			Role: w.role, Model: w.flags.Model, Machine: w.flags.Machine, Engine: w.engine, Slots: w.slots,
			Health: w.monitor.Health, Ready: w.takesJobs, Hosts: w.flags.httpHosts(), Token: w.flags.httpToken,
			Metrics: w.metrics.Handler(), Count: w.metrics.HTTP, Log: w.log,
		}),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := w.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.log.Error("http server stopped", "err", err)
		}
	}()
	w.onClose("http", func() error {
		defer func() { <-served }()
		by := cmp.Or(w.drainEnd(), time.Now().Add(w.flags.DrainLimit)) // the queue has drained within the same time
		limit, cancel := context.WithDeadline(context.Background(), by)
		defer cancel()
		if err := w.http.Shutdown(limit); err != nil {
			return w.http.Close()
		}
		return nil
	})
	return nil
}

// onClose pushes a clean-up; the last pushed runs first.
func (w *Worker) onClose(name string, f func() error) {
	w.cleanup = append(w.cleanup, func() {
		if err := f(); err != nil {
			w.log.Warn("stop "+name, "err", err)
		}
	})
}

func (w *Worker) close() {
	for len(w.cleanup) > 0 {
		last := len(w.cleanup) - 1
		w.cleanup[last]()
		w.cleanup = w.cleanup[:last]
	}
}
