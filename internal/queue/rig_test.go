package queue

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/access"
	"tandem/internal/engine"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/protocol"
	"tandem/jobs"
)

const testModel = "test/model.v1:7b"

// enough is how long a test waits for what must happen: far longer than it takes, on a busy machine too.
const enough = time.Minute

// lively has beats that a test need not wait for. It takes a worker for gone as late as the real protocol does: on a busy
// machine one that lives may be silent for seconds.
func lively() Timing {
	t := DefaultTiming()
	t.InProgressEvery, t.Beat, t.CancelWait = 400*time.Millisecond, 200*time.Millisecond, enough
	return t
}

// ackWait and presenceTTL are for tests that wait until a worker is taken for gone.
func ackWait(d time.Duration) func(*Timing)     { return func(t *Timing) { t.AckWait = d } }
func presenceTTL(d time.Duration) func(*Timing) { return func(t *Timing) { t.PresenceTTL = d } }

// rig is a server and what a test does with it from outside.
type rig struct {
	*Client
	t        testing.TB
	server   *natsembed.Server
	timing   Timing
	urls     string        // of a cluster's servers; those of server if empty
	access   access.Folder // whose operator connects; "" if the server asks for no key
	ca       string        // of the certificate that the server shows, if it shows one and asks for no key
	replicas int
	link     *link // workers connect over it if it is not nil

	stopControl func()
}

func newRig(t testing.TB, change ...func(*Timing)) *rig {
	return newRigOn(t, natsembed.Options{}, change...)
}

func newRigOn(t testing.TB, opts natsembed.Options, change ...func(*Timing)) *rig {
	t.Helper()
	r := &rig{t: t, server: natstest.Start(t, opts), timing: lively()}
	for _, f := range change {
		f(&r.timing)
	}
	r.begin()
	return r
}

// begin connects, and makes what workers and clients use.
func (r *rig) begin() {
	r.t.Helper()
	r.Client = NewClient(r.connect(), "user")
	r.serveControl(r.connect())
	if err := r.EnsureStreams(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
		if err := r.EnsureConsumers(r.t.Context(), role, testModel); err != nil {
			r.t.Fatal(err)
		}
	}
}

// serveControl runs the control service, which workers do otherwise.
func (r *rig) serveControl(c *Conn) {
	r.t.Helper()
	var err error
	if r.stopControl, _, err = c.ServeControl(r.t.Context(), nil); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(r.stopControl)
}

func (r *rig) connect() *Conn { return r.connectTo(cmp.Or(r.urls, r.server.URL())) }

func (r *rig) connectTo(url string) *Conn {
	r.t.Helper()
	cfg := Config{URL: url, Name: "test", TLSCA: r.ca, Timing: r.timing, Replicas: r.replicas, Log: r.logger("connection")}
	if r.access != "" {
		cfg.NKey, cfg.TLSCA = r.access.Operator(), r.access.CA()
	}
	c, err := Connect(r.t.Context(), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return c
}

// logger shows the log of a test that failed.
func (r *rig) logger(who string) *slog.Logger {
	return slog.New(slog.NewTextHandler(r.t.Output(), nil)).With("who", who)
}

// noneAhead has a worker fetch a job only when a slot is free for it.
func noneAhead(c *WorkerConfig) { c.Ahead = 0 }

// station is a worker with a connection of its own, so that closing that is its death.
type station struct {
	*Worker
	rig   *rig
	conn  *Conn
	slots *engine.Slots
	drain context.CancelFunc
	ended chan error
}

// start starts a worker; change may set anything.
func (r *rig) start(role jobs.Stage, slots int, run func(context.Context, *protocol.Task) (protocol.Outcome, error), change ...func(*WorkerConfig)) *station {
	r.t.Helper()
	s := r.prepare(role, slots, run, change...)
	s.begin()
	return s
}

// startPrefill starts a prefill worker and waits until it can be seen. A decode worker that is started afterwards leaves the
// intake to it; one that looks around before may have taken jobs over already.
func (r *rig) startPrefill(slots int, run func(context.Context, *protocol.Task) (protocol.Outcome, error), change ...func(*WorkerConfig)) *station {
	r.t.Helper()
	s := r.prepare(protocol.RolePrefill, slots, run, change...)
	r.beginPrefill(s)
	return s
}

func (r *rig) beginPrefill(s *station) {
	r.t.Helper()
	s.begin()
	r.present("the prefill worker", func(list []Presence) bool {
		return slices.ContainsFunc(list, func(p Presence) bool { return p.Worker == s.cfg.ID })
	})
}

// prefilling starts a prefill worker and a decode worker that leaves the intake to it.
func (r *rig) prefilling(s *station) {
	r.t.Helper()
	r.beginPrefill(s)
	r.start(protocol.RoleDecode, 1, answer)
}

// idlePrefill starts a prefill worker that takes no job, so that the intake stays as it is.
func (r *rig) idlePrefill() {
	r.t.Helper()
	r.startPrefill(1, passOn, func(c *WorkerConfig) {
		c.Describe = func() Presence { return Presence{State: StateLoading, Slots: 1} }
		c.Ready = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	})
}

func (r *rig) prepare(role jobs.Stage, slots int, run func(context.Context, *protocol.Task) (protocol.Outcome, error), change ...func(*WorkerConfig)) *station {
	r.t.Helper()
	url := cmp.Or(r.urls, r.server.URL())
	if r.link != nil {
		url = r.link.url
	}
	s := &station{rig: r, conn: r.connectTo(url), slots: engine.NewSlots(slots), ended: make(chan error, 1)}
	cfg := WorkerConfig{
		Role: role, Model: testModel, ID: jobs.NewID(), Machine: "machine", Run: run, Slots: s.slots,
		Describe: func() Presence { return Presence{State: StateReady, Slots: slots, Busy: s.slots.Busy()} },
	}
	if role == protocol.RoleDecode { // as the program has it
		cfg.Ahead = 1
	}
	cfg.Log = r.logger(string(role) + " worker " + cfg.ID[30:])
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if s.Worker, err = NewWorker(s.conn, cfg); err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (s *station) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	s.drain = cancel
	go func() { s.ended <- s.Run(ctx) }()
	s.rig.t.Cleanup(func() {
		s.Abort()
		_ = s.stop()
	})
}

// stop drains the worker and waits for its end.
func (s *station) stop() error {
	s.drain()
	select {
	case err := <-s.ended:
		s.ended <- err
		return err
	case <-time.After(enough):
		s.rig.t.Error("the worker does not end")
		return nil
	}
}

// kill is a worker's death as NATS sees it.
func (s *station) kill() { s.conn.nc.Close() }

// job is a valid one.
func testJob(class jobs.Class, change ...func(*jobs.Job)) *jobs.Job {
	j := &jobs.Job{
		V: jobs.Version, ID: jobs.NewID(), User: "user", Batch: "batch", Class: class, Model: testModel,
		Prompt: "say something", SubmittedAt: time.Now().UTC(),
	}
	for _, f := range change {
		f(j)
	}
	return j
}

// submit publishes jobs as a client in any language would.
func (r *rig) submit(list ...*jobs.Job) {
	r.t.Helper()
	for _, j := range list {
		r.publish(protocol.JobSubject(jobs.StagePrefill, j.Model, j.Class, j.User, j.ID), messageID(j, jobs.StagePrefill), j)
	}
}

// relay puts jobs where prefill would have put them.
func (r *rig) relay(list ...*jobs.Job) {
	r.t.Helper()
	for _, j := range list {
		h := &jobs.Handover{
			V: jobs.Version, Stage: jobs.StageDecode, Job: *j, AcceptedAt: time.Now(), Kind: jobs.KindNone,
			Prefill: &jobs.Prefill{Server: "elsewhere"}, Attempts: 1,
		}
		r.publish(protocol.SubjectOf(j, jobs.StageDecode), messageID(j, jobs.StageDecode), h)
	}
}

func (r *rig) publish(subject, id string, record any) {
	r.t.Helper()
	var data []byte
	var err error
	switch v := record.(type) {
	case *jobs.Job:
		data, err = jobs.Encode(v)
	case *jobs.Handover:
		data, err = jobs.Encode(v)
	case []byte:
		data = v
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.js.Publish(r.t.Context(), subject, data, jetstream.WithMsgID(id)); err != nil {
		r.t.Fatal(err)
	}
}

// eventually waits until ok says so.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.After(enough)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("did not happen: %s", what)
		}
	}
}

// remains checks that something stays true for a while that is long compared to what could change it.
func (r *rig) remains(what string, d time.Duration, ok func() bool) {
	r.t.Helper()
	end := time.After(d)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if !ok() {
			r.t.Fatalf("did not last: %s", what)
		}
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}

// result waits for a job's result.
func (r *rig) result(j *jobs.Job) *jobs.Result {
	r.t.Helper()
	var found *jobs.Result
	r.eventually("result of job "+j.ID, func() bool {
		msg, err := r.lastMsg(r.t.Context(), StreamResults, protocol.ResultSubject(j.User, j.Batch, j.ID))
		if err != nil || msg == nil {
			return false
		}
		if found, err = jobs.Decode[jobs.Result](msg.Data); err != nil {
			r.t.Fatal(err)
		}
		return true
	})
	return found
}

// results waits until each job has a result, and checks that none has two and that nothing is left.
func (r *rig) results(list ...*jobs.Job) []*jobs.Result {
	r.t.Helper()
	var found []*jobs.Result
	for _, j := range list {
		found = append(found, r.result(j))
	}
	r.eventually("empty queues", func() bool { return r.waiting(StreamIntake) == 0 && r.waiting(StreamRelay) == 0 })
	if state := r.state(StreamResults); int(state.LastSeq) != len(list) {
		r.t.Errorf("%d results were stored for %d jobs", state.LastSeq, len(list))
	}
	return found
}

func (r *rig) state(stream string) jetstream.StreamState {
	r.t.Helper()
	s, err := r.js.Stream(r.t.Context(), stream)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.CachedInfo().State
}

func (r *rig) waiting(stream string) int { return int(r.state(stream).Msgs) }

// unacknowledged counts the jobs of a role that workers have fetched.
func (r *rig) unacknowledged(role jobs.Stage) (n int) {
	r.t.Helper()
	for _, class := range jobs.Classes {
		stream, cfg := consumer(r.timing, role, testModel, class)
		c, err := r.js.Consumer(r.t.Context(), stream, cfg.Durable)
		if err != nil {
			r.t.Fatal(err)
		}
		n += c.CachedInfo().NumAckPending
	}
	return n
}

// letter waits for a job's dead letter.
func (r *rig) letter(stage jobs.Stage, jobID string) *jetstream.RawStreamMsg {
	r.t.Helper()
	var found *jetstream.RawStreamMsg
	r.eventually("dead letter of job "+jobID, func() bool {
		var err error
		found, err = r.lastMsg(r.t.Context(), StreamDLQ, strings.Replace(protocol.AnyLetterFilter("", jobID), "*", string(stage), 1))
		return err == nil && found != nil
	})
	return found
}

// present waits until workers of a role are present in a state that satisfies ok.
func (r *rig) present(what string, ok func([]Presence) bool) {
	r.t.Helper()
	r.eventually(what, func() bool {
		list, err := r.Workers(r.t.Context())
		return err == nil && ok(list)
	})
}

// inbox listens to a reply subject.
func (r *rig) inbox(subject string) chan *nats.Msg {
	r.t.Helper()
	ch := make(chan *nats.Msg, 1000)
	if _, err := r.nc.ChanSubscribe(subject, ch); err != nil {
		r.t.Fatal(err)
	}
	if err := r.nc.Flush(); err != nil {
		r.t.Fatal(err)
	}
	return ch
}

// passOn is a prefill that does nothing.
func passOn(_ context.Context, t *protocol.Task) (protocol.Outcome, error) {
	return protocol.Outcome{Next: &jobs.Handover{
		V: jobs.Version, Stage: jobs.StageDecode, Job: *t.Job, Kind: jobs.KindNone, Attempts: t.Attempt,
		Prefill: &jobs.Prefill{Server: "machine/prefill", QueueSeconds: t.Waited.Seconds()},
	}}, nil
}

// answer is a decode that does nothing.
func answer(_ context.Context, t *protocol.Task) (protocol.Outcome, error) {
	r := jobs.NewResult(t.Job, jobs.Succeeded)
	r.Text, r.Method, r.Attempts.Decode = "text of "+t.Job.ID, jobs.MethodDisaggregated, t.Attempt
	if t.Stage == jobs.StageFallback {
		r.Method, r.Decision = jobs.MethodFallback, t.Handover.Reason
	}
	return protocol.Outcome{Result: r}, nil
}

// book keeps account of what ran.
type book struct {
	mu          sync.Mutex
	ran         []string // "<stage> <job id>" in the order of beginning
	attempts    []int
	now, atOnce int
}

// note wraps a Run function.
func (b *book) note(run func(context.Context, *protocol.Task) (protocol.Outcome, error)) func(context.Context, *protocol.Task) (protocol.Outcome, error) {
	return func(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
		b.mu.Lock()
		b.ran, b.attempts = append(b.ran, fmt.Sprintf("%s %s", t.Stage, t.Job.ID)), append(b.attempts, t.Attempt)
		b.now++
		b.atOnce = max(b.atOnce, b.now)
		b.mu.Unlock()
		defer func() {
			b.mu.Lock()
			b.now--
			b.mu.Unlock()
		}()
		return run(ctx, t)
	}
}

func (b *book) times() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ran)
}

func (b *book) list() ([]string, []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ran), slices.Clone(b.attempts)
}

// once checks that each job ran exactly once at the stage.
func (b *book) once(t testing.TB, stage jobs.Stage, list []*jobs.Job) {
	t.Helper()
	ran, _ := b.list()
	for _, j := range list {
		n := 0
		for _, r := range ran {
			if r == fmt.Sprintf("%s %s", stage, j.ID) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("job %s ran %d times at %s, want once", j.ID, n, stage)
		}
	}
}

// several makes n jobs.
func several(n int, class jobs.Class) (list []*jobs.Job) {
	for range n {
		list = append(list, testJob(class))
	}
	return list
}

func natsMsg(t testing.TB, subject string, j *jobs.Job) *nats.Msg {
	t.Helper()
	data, err := jobs.Encode(j)
	if err != nil {
		t.Fatal(err)
	}
	return &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
}

// submitBatch opens a batch and submits it.
func submitBatch(c *Client, ctx context.Context, manifest string, list []*jobs.Job, progress func(done, total int), have ...string) error {
	resumed, err := OpenBatch(manifest, list)
	if err != nil {
		return err
	}
	return c.SubmitBatch(ctx, list, resumed, progress, have...)
}
