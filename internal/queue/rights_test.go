package queue

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem/internal/access"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/protocol"
	"tandem/jobs"
	"tandem/test/logs"
)

// boundRig is a rig without streams, on a server as it is shipped, whose workers have their rights and no others. It returns what the
// server and the connections log.
func boundRig(t testing.TB, graders ...string) (*rig, *logs.Buffer) {
	t.Helper()
	return boundRigOn(t, natsembed.Options{}, graders...)
}

func boundRigOn(t testing.TB, o natsembed.Options, graders ...string) (*rig, *logs.Buffer) {
	t.Helper()
	said := &logs.Buffer{}
	r := &rig{t: t, timing: lively(), access: access.Folder(filepath.Join(t.TempDir(), "access"))}
	if err := r.access.Create([]string{"127.0.0.1"}, []string{testModel}); err != nil {
		t.Fatal(err)
	}
	for _, g := range graders {
		if err := r.access.AddGrader(g, r.credential(g)); err != nil {
			t.Fatal(err)
		}
	}
	o.Include, o.Log = r.access.Config(), slog.New(slog.NewTextHandler(said, nil))
	r.server = natstest.Start(t, o)
	r.urls = r.server.URL()
	r.Client = NewClient(r.connect(), "user")
	return r, said
}

func (r *rig) credential(grader string) string { return string(r.access) + grader + ".nk" }

// connectAs connects with the key of workers.
func (r *rig) connectAs(role jobs.Stage, log *slog.Logger) *Conn {
	r.t.Helper()
	return connects(r.t, Config{
		URL: r.urls, Name: "tandem-" + string(role) + " worker", Model: testModel, Inbox: access.WorkerInbox(role, testModel),
		NKey: r.access.Worker(role, testModel), TLSCA: r.access.CA(), Timing: r.timing, Log: log,
	})
}

// bound starts a worker over a connection that has only a worker's rights.
func (r *rig) bound(s *station, said *logs.Buffer) *station {
	r.t.Helper()
	log := slog.New(slog.NewTextHandler(said, nil))
	s.conn = r.connectAs(s.cfg.Role, log)
	s.Worker.c, s.Worker.log = s.conn, log
	if err := s.conn.EnsureStreams(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if sync := s.conn.Sync(r.t.Context()); sync == SyncUnknown {
		r.t.Error("the server does not tell its sync setting")
	}
	s.begin()
	return s
}

func (r *rig) init(dryRun bool, models ...string) []Change {
	r.t.Helper()
	changes, err := r.Init(r.t.Context(), models, cmp.Or(r.replicas, 1), dryRun)
	if err != nil {
		r.t.Fatal(err)
	}
	return changes
}

// Workers do all of their work with the rights that they are given: hand-overs, results, pieces of text, hand-backs, dead letters, cancels, jobs that
// are taken over, and the bound on letters.
func TestWorkersWithTheirRights(t *testing.T) {
	t.Parallel()
	r, said := boundRig(t)
	r.init(false, testModel)
	var tries sync.Map
	fails := func(run func(context.Context, *protocol.Task) (protocol.Outcome, error)) func(context.Context, *protocol.Task) (protocol.Outcome, error) {
		return func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
			_, again := tries.LoadOrStore(task.Job.ID+string(task.Stage), true)
			task.Emit(jobs.Chunk{Text: "a piece of text"})
			task.Backlog(ctx)
			switch {
			case task.Job.Prompt == "bad":
				return protocol.Outcome{}, jobs.Errorf(jobs.CodeInvalid, "bad")
			case task.Job.Prompt == "retry" && !again:
				return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineBusy, "try again")
			case task.Job.Prompt == "no prefill" && task.Stage == jobs.StagePrefill:
				return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineFailed, "failed")
			case task.Job.Prompt == "stay":
				<-ctx.Done()
				return protocol.Outcome{}, context.Cause(ctx)
			}
			return run(ctx, task)
		}
	}
	prefill := r.bound(r.prepare(protocol.RolePrefill, 1, fails(passOn)), said)
	prefill.conn.letters = letterBound{letters: 1, bytes: 1 << 20}
	r.present("the prefill worker", func(list []Presence) bool { return len(list) == 1 })
	decode := r.bound(r.prepare(protocol.RoleDecode, 1, fails(answer)), said)
	prompt := func(text string) *jobs.Job {
		return testJob(jobs.Batch, func(j *jobs.Job) { j.Prompt, j.Stream = text, true })
	}
	list := []*jobs.Job{prompt("good"), prompt("retry"), prompt("no prefill"), testJob(jobs.Interactive)}
	r.submit(list...)
	for _, j := range list {
		if got := r.result(j); got.Status != jobs.Succeeded {
			t.Errorf("a job has status %s: %+v", got.Status, got.Error)
		}
	}
	for range 3 {
		j := prompt("bad")
		r.submit(j)
		if got := r.result(j); got.Status != jobs.Failed {
			t.Errorf("a bad job has status %s", got.Status)
		}
	}
	r.eventually("one letter", func() bool { return r.waiting(StreamDLQ) == 1 })
	stays := prompt("stay")
	r.submit(stays)
	r.eventually("a job that runs", func() bool { _, runs := tries.Load(stays.ID + "prefill"); return runs })
	if was, err := NewClient(r.Conn, stays.User).Cancel(t.Context(), stays.ID); err != nil || was.Was != jobs.PriorRunning {
		t.Errorf("cancel: %+v, %v", was, err)
	}
	prefill.Broadcast()
	if err := prefill.stop(); err != nil {
		t.Error(err)
	}
	alone := prompt("good")
	r.submit(alone)
	if got := r.result(alone); got.Status != jobs.Succeeded {
		t.Errorf("a job that decode did alone has status %s", got.Status)
	}
	again := r.bound(r.prepare(protocol.RolePrefill, 1, fails(passOn)), said) // which looks through what was acknowledged
	r.present("both", func(list []Presence) bool { return len(list) == 2 })
	for _, s := range []*station{again, decode} {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	}
	if n := said.Count("iolation"); n > 0 {
		t.Errorf("%d permissions were refused:\n%s", n, said.String())
	}
}

// A grader, who may use no JetStream, is served in all by workers with their rights; copies of results are not sent, which is said once.
func TestGraderIsServed(t *testing.T) {
	t.Parallel()
	r, said := boundRig(t, "user", "other")
	r.init(false, testModel)
	log := slog.New(slog.NewTextHandler(said, nil))
	running := make(chan struct{}, 1)
	r.bound(r.prepare(protocol.RolePrefill, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		switch task.Job.Prompt {
		case "bad":
			return protocol.Outcome{}, jobs.Errorf(jobs.CodeInvalid, "bad")
		case "stay":
			running <- struct{}{}
			<-ctx.Done()
			return protocol.Outcome{}, context.Cause(ctx)
		}
		return passOn(ctx, task)
	}), said)
	r.bound(r.prepare(protocol.RoleDecode, 1, answer), said)
	r.present("both", func(list []Presence) bool { return len(list) == 2 })
	grader := func(name string) *Client {
		return NewClient(connects(t, Config{
			URL: r.urls, Name: "grader", Inbox: name, NKey: r.credential(name), TLSCA: r.access.CA(), Timing: r.timing, Log: log,
		}), name)
	}
	c, other := grader("user"), grader("other")
	submit := func(prompt string) *jobs.Job {
		t.Helper()
		j := testJob(jobs.Batch, func(j *jobs.Job) { j.Prompt = prompt })
		if err := c.Submit(t.Context(), j, SubmitOptions{ReplyTo: c.nc.NewInbox()}); err != nil {
			t.Fatal(err)
		}
		return j
	}
	for range 3 {
		j := submit("good")
		if got, err := c.Await(t.Context(), j.ID); err != nil || got.Status != jobs.Succeeded {
			t.Errorf("a job ends with %+v, %v", got, err)
		}
		if got, err := other.Result(t.Context(), j.ID); jobs.CodeOf(err) != jobs.CodeInvalid {
			t.Errorf("another grader is given %+v, %v", got, err)
		}
	}
	bad := submit("bad")
	if got, err := c.Await(t.Context(), bad.ID); err != nil || got.Status != jobs.Failed {
		t.Errorf("a bad job ends with %+v, %v", got, err)
	}
	r.eventually("the letter", func() bool { return r.waiting(StreamDLQ) == 1 })
	for l, err := range other.DeadLetters(t.Context(), LetterFilter{}) {
		t.Errorf("another grader is given a letter %+v, %v", l, err)
	}
	if l, err := c.DeadLetter(t.Context(), bad.ID); err != nil || l.Code != jobs.CodeInvalid {
		t.Errorf("the letter is %+v, %v", l, err)
	}
	if err := other.DropDeadLetter(t.Context(), bad.ID); err == nil {
		t.Error("another grader drops a letter")
	}
	if err := c.DropDeadLetter(t.Context(), bad.ID); err != nil {
		t.Errorf("drop a letter: %v", err)
	}
	stays := submit("stay")
	<-running
	if was, err := other.Cancel(t.Context(), stays.ID); err == nil {
		t.Errorf("another grader cancels: %+v", was)
	}
	if was, err := c.Cancel(t.Context(), stays.ID); err != nil || was.Was != jobs.PriorRunning {
		t.Errorf("cancel: %+v, %v", was, err)
	}
	if o, err := c.Inspect(t.Context()); err != nil || len(o.Workers) != 2 || len(o.Models) != 1 {
		t.Errorf("the queue is %+v, %v", o, err)
	}
	if ids, err := c.BatchJobs(t.Context(), "batch"); err != nil || len(ids) != 5 {
		t.Errorf("the batch has %v, %v", ids, err)
	}
	if p, err := c.PurgeBatch(t.Context(), "batch"); err != nil || p.Results != 5 {
		t.Errorf("purged %+v, %v", p, err)
	}
	// Each worker sends one copy, and is refused.
	if errs, infos := said.Count("NATS refuses a permission"), said.Count("copies of results are not sent"); errs > 0 || infos < 1 || infos > 2 {
		t.Errorf("%d refused permissions and %d refused copies are logged:\n%s", errs, infos, said.String())
	}
	if n := said.Count("Publish Violation"); n > 3 {
		t.Errorf("the server refuses %d copies", n)
	}
}

// Who has a worker's key has JetStream's answers sent to the control service, and that takes none of them for a request.
func TestAnswersAreNoRequests(t *testing.T) {
	t.Parallel()
	r, said := boundRig(t, "user")
	r.init(false, testModel)
	running := make(chan struct{}, 2)
	r.bound(r.prepare(protocol.RoleDecode, 1, func(ctx context.Context, _ *protocol.Task) (protocol.Outcome, error) {
		running <- struct{}{}
		<-ctx.Done()
		return protocol.Outcome{}, context.Cause(ctx)
	}), said)
	r.present("the worker", func(list []Presence) bool { return len(list) == 1 })
	job := testJob(jobs.Batch)
	r.submit(job)
	select {
	case <-running:
	case <-time.After(20 * time.Second):
		t.Fatal("the job does not run")
	}
	thief := r.connectAs(protocol.RolePrefill, nil)
	bucket, err := thief.js.KeyValue(t.Context(), BucketWorkers)
	if err != nil {
		t.Fatal(err)
	}
	key := presenceKey(protocol.RolePrefill, testModel, "thief")
	if _, err := bucket.Put(t.Context(), key, []byte(`{"jobs":["`+job.ID+`"]}`)); err != nil {
		t.Fatal(err)
	}
	if err := thief.nc.PublishRequest("$JS.API.DIRECT.GET.KV_workers."+presencePrefix+key, controlSubject(verbCancel, "user"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := thief.lastMsg(t.Context(), StreamDLQ, "x"); err != nil { // by then they are answered
		t.Fatal(err)
	}
	if was, err := NewClient(r.Conn, "user").Cancel(t.Context(), jobs.NewID()); err == nil { // the worker answers one after the other
		t.Errorf("a job that is not there was %+v", was)
	}
	if was, err := NewClient(r.Conn, "user").Cancel(t.Context(), job.ID); err != nil || was.Was != jobs.PriorRunning {
		t.Errorf("the job was %+v, %v", was, err)
	}
}

// A worker that may create nothing says at once what is missing, and what to do.
func TestWorkerWithoutStreams(t *testing.T) {
	t.Parallel()
	r, _ := boundRig(t)
	c, start := r.connectAs(protocol.RoleDecode, nil), time.Now()
	wants := func(err error, what string) {
		t.Helper()
		for _, want := range []string{what, "is missing", "submitter admin init --model " + testModel} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v; want %q in it", err, want)
			}
		}
	}
	wants(c.EnsureStreams(t.Context()), "stream INTAKE")
	r.init(false)
	if err := c.EnsureStreams(t.Context()); err != nil {
		t.Errorf("with all streams there: %v", err)
	}
	wants(c.EnsureConsumers(t.Context(), protocol.RoleDecode, testModel), "consumer decode_")
	if took := time.Since(start); took > absentLimit/2 {
		t.Errorf("it took %v", took)
	}
	r.init(false, testModel)
	if err := c.EnsureConsumers(t.Context(), protocol.RoleDecode, testModel); err != nil {
		t.Errorf("with all consumers there: %v", err)
	}
}

// A consumer that is deleted while a worker runs is missed once in the log, and the worker goes on when it is there again.
func TestWorkerWaitsForItsConsumers(t *testing.T) {
	t.Parallel()
	r, said := boundRig(t)
	r.init(false, testModel)
	r.bound(r.prepare(protocol.RoleDecode, 1, answer), said)
	first := testJob(jobs.Batch)
	r.relay(first)
	r.result(first)
	for round := range 2 {
		gone := sourceOf(protocol.RoleDecode, testModel, jobs.Batch)
		if err := r.js.DeleteConsumer(t.Context(), gone.stream, gone.consumer); err != nil {
			t.Fatal(err)
		}
		missed := "consumer " + gone.consumer + " of stream RELAY is missing"
		r.eventually("the consumer is missed", func() bool { return said.Count(missed) > round })
		r.remains("it is missed once", 3*time.Second, func() bool { return said.Count(missed) == round+1 })
		if changes := r.init(false); len(changes) != 1 || changes[0].Name != gone.consumer || !changes[0].Missing {
			t.Errorf("init changed %+v", changes)
		}
		again := testJob(jobs.Batch)
		r.relay(again)
		r.result(again)
	}
}

// A key that is another's is found out at once, and the error says whose it should be.
func TestKeyOfAnother(t *testing.T) {
	t.Parallel()
	r, _ := boundRig(t, "alice")
	for name, cfg := range map[string]Config{
		"a worker":          {Name: "tandem-decode w", Model: testModel, Inbox: access.WorkerInbox(protocol.RoleDecode, testModel), NKey: r.access.Worker(protocol.RolePrefill, testModel)},
		"a grader":          {Name: "g", Inbox: "bob", NKey: r.credential("alice")},
		"a grader as one":   {Name: "tandem-decode w", Model: testModel, Inbox: access.WorkerInbox(protocol.RoleDecode, testModel), NKey: r.credential("alice")},
		"a worker's as one": {Name: "g", Inbox: "alice", NKey: r.access.Worker(protocol.RolePrefill, testModel)},
	} {
		cfg.URL, cfg.TLSCA = r.urls, r.access.CA()
		began := time.Now()
		c, err := Connect(t.Context(), cfg)
		if err == nil {
			c.Close()
		}
		wantError(t, err, jobs.CodeNATS, "refuses this user the inboxes _INBOX."+cfg.Inbox+".>", "another role, model or user")
		if time.Since(began) > lookUpLimit {
			t.Errorf("%s is told after %v", name, time.Since(began))
		}
	}
}

// A batch goes on while no worker is there to say what has become of its jobs.
func TestResumeWithoutWorkers(t *testing.T) {
	t.Parallel()
	r, _ := boundRig(t, "user")
	r.init(false, testModel)
	c := NewClient(connects(t, Config{URL: r.urls, Name: "test", NKey: r.credential("user"), TLSCA: r.access.CA(), Inbox: "user"}), "user")
	list, manifest := input(3), filepath.Join(t.TempDir(), "m")
	for range 2 {
		if err := submitBatch(c, t.Context(), manifest, list, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.waiting(StreamIntake); n != len(list) {
		t.Errorf("%d jobs wait, want %d", n, len(list))
	}
}
