package queue

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

func TestDrainFinishesWhatRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	s := r.start(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		begun <- struct{}{}
		<-goOn
		return answer(ctx, task)
	}, noneAhead)
	running, waiting := testJob(jobs.Batch), testJob(jobs.Batch)
	r.relay(running, waiting)
	<-begun
	s.drain()
	r.present("a draining worker", func(list []Presence) bool { return len(list) == 1 && list[0].State == StateDraining && !list[0].Live() })
	close(goOn)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	r.result(running)
	if r.waiting(StreamRelay) != 1 || r.unacknowledged(protocol.RoleDecode) != 0 {
		t.Error("the other job was touched")
	}
	if list, err := r.Workers(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("presence after the end: %+v, %v", list, err)
	}
}

func TestStoppedBeforeItBegan(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.prepare(protocol.RoleDecode, 1, answer)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run = %v, want no error of a worker that is told to stop while it starts", err)
	}
}

// What does not end in time is handed back uncounted, whether the drain's limit or a second signal
// ended it.
func TestDrainHandsBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*station){
		"limit": func(s *station) { s.drain() },
		"abort": func(s *station) { s.drain(); s.Abort() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			begun := make(chan struct{})
			var done book
			first := r.start(protocol.RoleDecode, 1, done.note(func(ctx context.Context, _ *protocol.Task) (protocol.Outcome, error) {
				close(begun)
				<-ctx.Done()
				return protocol.Outcome{}, ctx.Err()
			}), func(c *WorkerConfig) {
				c.DrainLimit = 100 * time.Millisecond
				if name == "abort" {
					c.DrainLimit = time.Hour
				}
			})
			j := testJob(jobs.Batch)
			r.relay(j)
			<-begun
			end(first)
			if err := first.stop(); err != nil {
				t.Error(err)
			}
			r.start(protocol.RoleDecode, 1, done.note(answer))
			r.results(j)
			if _, attempts := done.list(); !slices.Equal(attempts, []int{1, 1}) {
				t.Errorf("attempts = %v, want none counted", attempts)
			}
		})
	}
}

// A worker that loses NATS for good when it has published what came of a job, and drains, ends in time, and nobody does the
// job again or counts an attempt.
func TestDrainWithLostAcknowledgement(t *testing.T) {
	t.Parallel()
	for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, ackWait(5*time.Second))
			run, stage := answer, jobs.StageDecode
			if role == protocol.RolePrefill {
				run, stage = passOn, jobs.StagePrefill
			}
			var done book
			link := newLink(t, r.server.URL())
			r.link = link
			first := r.prepare(role, 1, done.note(run), func(c *WorkerConfig) { c.DrainLimit = 100 * time.Millisecond })
			r.link = nil
			published := make(chan struct{})
			first.published = func(string) {
				link.cut()
				close(published)
			}
			j := testJob(jobs.Batch)
			if role == protocol.RolePrefill {
				r.prefilling(first)
				r.submit(j)
			} else {
				first.begin()
				r.relay(j)
			}
			<-published
			if err := first.stop(); err != nil {
				t.Error(err)
			}
			r.start(role, 1, done.note(run))
			res := r.results(j)[0]
			if res.Status != jobs.Succeeded || res.Attempts.Decode != 1 {
				t.Errorf("result = %+v, want that of a first attempt", res)
			}
			done.once(t, stage, []*jobs.Job{j})
		})
	}
}

// A worker that is stopped while it waits for a job takes none with it.
func TestDrainWhileJobsArrive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var done book
	var list []*jobs.Job
	for range 20 {
		s := r.start(protocol.RoleDecode, 2, done.note(answer))
		r.asking(protocol.RoleDecode, 2)
		j := testJob(jobs.Batch)
		list = append(list, j)
		go s.drain()
		r.relay(j)
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	}
	r.start(protocol.RoleDecode, 2, done.note(answer))
	r.results(list...)
	done.once(t, jobs.StageDecode, list)
}

// A cancel is answered when the engine call has returned, and no other record appears.
func TestCancelInMidRun(t *testing.T) {
	t.Parallel()
	for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			begun, returned := make(chan struct{}), make(chan error, 1)
			run := func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
				close(begun)
				<-ctx.Done()
				returned <- context.Cause(ctx)
				if role == protocol.RolePrefill { // too late to be stopped
					return passOn(ctx, task)
				}
				return protocol.Outcome{}, ctx.Err()
			}
			j := testJob(jobs.Batch)
			if role == protocol.RolePrefill {
				r.prefilling(r.prepare(role, 1, run))
				r.submit(j)
			} else {
				r.start(role, 1, run)
				r.relay(j)
			}
			<-begun
			hops := r.inbox("jobs.*.*.*.*." + j.ID)
			end := jobs.NewResult(j, jobs.Cancelled)
			end.Error = &jobs.ErrorInfo{Code: jobs.CodeCancelled, Message: "cancelled"}
			if first, err := r.PublishResult(t.Context(), end, ""); err != nil || !first {
				t.Fatalf("publish result: first = %t, %v", first, err)
			}
			if _, err := r.nc.Request(protocol.CancelSubject(j.User, j.ID), nil, enough); err != nil {
				t.Fatalf("cancel: %v", err)
			}
			select {
			case cause := <-returned:
				if cause != jobs.ErrCancelled {
					t.Errorf("cause = %v", cause)
				}
			default:
				t.Error("answered before the engine call returned")
			}
			if res := r.results(j)[0]; res.Status != jobs.Cancelled {
				t.Errorf("result = %+v", res)
			}
			if n := len(hops); n != 0 {
				t.Errorf("%d hops of a cancelled job", n)
			}
			if n := r.waiting(StreamDLQ); n != 0 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}

// A broadcast without a result, as nobody of ours would send, does not lose the job.
func TestCancelWithoutResult(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	begun := make(chan struct{})
	r.start(protocol.RoleDecode, 1, func(ctx context.Context, _ *protocol.Task) (protocol.Outcome, error) {
		close(begun)
		<-ctx.Done()
		return protocol.Outcome{}, ctx.Err()
	})
	j := testJob(jobs.Batch)
	r.relay(j)
	<-begun
	if err := r.nc.Publish(protocol.CancelSubject(j.User, j.ID), nil); err != nil {
		t.Fatal(err)
	}
	if res := r.results(j)[0]; res.Status != jobs.Cancelled || res.Error.Code != jobs.CodeCancelled {
		t.Errorf("result = %+v", res)
	}
}

// A job that has its result already is not run, wherever it waits.
func TestJobWithResultIsNotRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	early, late := testJob(jobs.Batch), testJob(jobs.Batch)
	r.submit(early)
	r.relay(late)
	for _, j := range []*jobs.Job{early, late} {
		o, _ := answer(t.Context(), &protocol.Task{Job: j})
		if first, err := r.PublishResult(t.Context(), o.Result, ""); err != nil || !first {
			t.Fatalf("first result: first = %t, %v", first, err)
		}
		other := jobs.NewResult(j, jobs.Cancelled)
		other.Error = &jobs.ErrorInfo{Code: jobs.CodeCancelled, Message: "too late"}
		if first, err := r.PublishResult(t.Context(), other, ""); err != nil || first {
			t.Errorf("second result: first = %t, %v", first, err)
		}
	}
	var done book
	r.start(protocol.RoleDecode, 1, done.note(answer))
	r.start(protocol.RolePrefill, 1, done.note(passOn))
	for _, res := range r.results(early, late) {
		if res.Status != jobs.Succeeded {
			t.Errorf("result = %+v", res)
		}
	}
	if n := done.times(); n != 0 {
		t.Errorf("%d runs of jobs that had ended", n)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cause := make(chan error, 1)
	var done book
	r.start(protocol.RoleDecode, 1, done.note(func(ctx context.Context, _ *protocol.Task) (protocol.Outcome, error) {
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return protocol.Outcome{}, ctx.Err()
	}))
	r.asking(protocol.RoleDecode, 2)
	passed := testJob(jobs.Batch, func(j *jobs.Job) { j.Deadline = time.Now().Add(-time.Minute) })
	r.relay(passed)
	r.result(passed)
	soon := testJob(jobs.Batch, func(j *jobs.Job) { j.Deadline = time.Now().Add(5 * time.Second) }) // for a busy machine to fetch it
	r.relay(soon)
	for _, res := range r.results(passed, soon) {
		if res.Status != jobs.Expired || res.Error.Code != jobs.CodeDeadline {
			t.Errorf("result = %+v, error %+v", res, res.Error)
		}
	}
	if ran, _ := done.list(); !slices.Equal(ran, []string{"decode " + soon.ID}) {
		t.Fatalf("ran %q, want the one whose deadline had not passed", ran)
	}
	if err := <-cause; err != jobs.ErrDeadline {
		t.Errorf("cause = %v", err)
	}
}

// interposed lets a test come between a worker and the bucket of presences.
type interposed struct {
	jetstream.JetStream
	get func(get func() (jetstream.KeyValueEntry, error)) (jetstream.KeyValueEntry, error)
}

func (i interposed) KeyValue(ctx context.Context, bucket string) (jetstream.KeyValue, error) {
	kv, err := i.JetStream.KeyValue(ctx, bucket)
	if bucket == BucketWorkers && err == nil {
		kv = interposedBucket{kv, i}
	}
	return kv, err
}

type interposedBucket struct {
	jetstream.KeyValue
	between interposed
}

func (b interposedBucket) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	return b.between.get(func() (jetstream.KeyValueEntry, error) { return b.KeyValue.Get(ctx, key) })
}

// shifted is an entry of a server whose clock is not this machine's.
type shifted struct {
	jetstream.KeyValueEntry
	ahead time.Duration
}

func (s shifted) Created() time.Time { return s.KeyValueEntry.Created().Add(s.ahead) }

// Deadlines go by the server's clock: a worker's that is wrong, or is set while it runs, neither ends a job early nor keeps it.
func TestDeadlineGoesByTheServersClock(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ahead, deadline time.Duration // of the server's clock, of the job by the worker's
		status          jobs.Status
	}{
		"the worker's clock is an hour slow": {time.Hour, 30 * time.Minute, jobs.Expired},
		"the worker's clock is an hour fast": {-time.Hour, -30 * time.Minute, jobs.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var done book
			s := r.prepare(protocol.RoleDecode, 1, done.note(func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
				if end, ok := ctx.Deadline(); !ok || time.Until(end) < 20*time.Minute {
					t.Errorf("the engine has until %v", end)
				}
				return answer(ctx, task)
			}))
			s.conn.js = interposed{s.conn.js, func(get func() (jetstream.KeyValueEntry, error)) (jetstream.KeyValueEntry, error) {
				entry, err := get()
				return shifted{entry, tt.ahead}, err
			}}
			s.begin()
			j := testJob(jobs.Batch, func(j *jobs.Job) { j.Deadline = time.Now().Add(tt.deadline) })
			r.relay(j)
			if res := r.results(j)[0]; res.Status != tt.status || (done.times() == 0) != (tt.status == jobs.Expired) {
				t.Errorf("result = %+v after %d runs, want %s", res, done.times(), tt.status)
			}
		})
	}
}

// A worker that is stopped while it starts, when its presence is out and not yet read back, takes it along.
func TestStoppedBetweenPutAndGet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.prepare(protocol.RoleDecode, 1, answer)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	s.conn.js = interposed{s.conn.js, func(get func() (jetstream.KeyValueEntry, error)) (jetstream.KeyValueEntry, error) {
		list, err := r.Workers(t.Context())
		if err != nil {
			t.Error(err)
		}
		seen = len(list)
		cancel()
		return get()
	}}
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run = %v, want no error of a worker that is told to stop while it starts", err)
	}
	if seen != 1 {
		t.Errorf("%d presences before the worker read its own, want 1", seen)
	}
	if list, err := r.Workers(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("presence after the end: %+v, %v", list, err)
	}
}
