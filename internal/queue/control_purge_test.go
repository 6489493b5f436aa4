package queue

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"tandem/internal/protocol"
	"tandem/jobs"
)

func TestPurgeBatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	r.idlePrefill()
	list, other := input(10), input(4)
	for _, l := range [][]*jobs.Job{list, other} {
		r.finish(l[:2]...)
		var never atomic.Bool
		decode := r.start(protocol.RoleDecode, 1, brokenFor(&never))
		r.relay(l[2])
		r.result(l[2])
		if err := decode.stop(); err != nil {
			t.Fatal(err)
		}
		r.submit(l[3])
	}
	begun, stopped := make(chan struct{}), make(chan struct{})
	r.start(protocol.RoleDecode, 1, func(ctx context.Context, _ *protocol.Task) (protocol.Outcome, error) {
		close(begun)
		<-ctx.Done()
		close(stopped)
		return protocol.Outcome{}, context.Cause(ctx)
	}, func(cfg *WorkerConfig) { cfg.Describe = func() Presence { return Presence{State: StateLoading} } })
	urgent := *list[4]
	urgent.Class = jobs.Interactive
	r.relay(&urgent)
	<-begun
	r.submit(list[5:]...)

	got, err := c.PurgeBatch(t.Context(), list[0].Batch)
	if want := (Purged{Results: 3, DeadLetters: 1, Queued: 7}); err != nil || got != want {
		t.Errorf("PurgeBatch = %+v, %v; want %+v", got, err, want)
	}
	select {
	case <-stopped:
	default:
		t.Error("the worker was not stopped")
	}
	if again, err := c.PurgeBatch(t.Context(), list[0].Batch); err != nil || again != (Purged{}) {
		t.Errorf("purging again = %+v, %v", again, err)
	}
	if left, err := c.BatchJobs(t.Context(), list[0].Batch); err != nil || len(left) != 0 {
		t.Errorf("left of the batch: %q, %v", left, err)
	}
	if left, err := c.BatchJobs(t.Context(), other[0].Batch); err != nil || len(left) != 4 {
		t.Errorf("left of the other batch: %q, %v; want all four", left, err)
	}
	if n := r.waiting(StreamDLQ); n != 1 {
		t.Errorf("%d dead letters left, want the other batch's", n)
	}
	// What was purged does not come back under the same id.
	wantError(t, c.Submit(t.Context(), list[5], SubmitOptions{}), jobs.CodeInvalid, "purged", list[5].ID)
}

func TestInspect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.EnsureConsumers(t.Context(), protocol.RoleDecode, "other:1b"); err != nil {
		t.Fatal(err)
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	r.start(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		close(begun)
		<-goOn
		return answer(ctx, task)
	}, func(cfg *WorkerConfig) {
		cfg.Describe = func() Presence { return Presence{State: StateReady, Slots: 1} }
	}, noneAhead)
	defer close(goOn)
	r.relay(several(1, jobs.Interactive)...)
	<-begun
	r.asking(protocol.RoleDecode, 0) // so that nothing is delivered while the slot is taken
	r.asking(protocol.RolePrefill, 0)
	r.relay(several(3, jobs.Batch)...)
	r.startPrefill(1, passOn) // held back: decode has enough to do
	r.present("both workers", func(l []Presence) bool { return len(l) == 2 })
	r.submit(several(4, jobs.Batch)...)
	r.limitIntake(-1)
	if err := r.js.DeleteStream(t.Context(), StreamDLQ); err != nil {
		t.Fatal(err)
	}

	o, err := r.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o.Server.MaxPayload != 8<<20 || o.Server.Version == "" || o.Server.URL != r.server.URL() || o.Server.Sync != SyncInterval || o.Server.RTTSeconds <= 0 {
		t.Errorf("server = %+v", o.Server)
	}
	if len(o.Workers) != 2 || o.Workers[0].Role != protocol.RoleDecode {
		t.Errorf("workers = %+v", o.Workers)
	}
	for _, s := range o.Streams {
		if (s.Name == StreamDLQ) != s.Missing {
			t.Errorf("stream %s: missing = %t", s.Name, s.Missing)
		}
		if drifts := strings.Contains(s.Drift, "max_msgs is -1"); drifts != (s.Name == StreamIntake) {
			t.Errorf("stream %s: drift = %q", s.Name, s.Drift)
		}
		if s.Name == StreamRelay && (s.Messages != 4 || s.Bytes == 0 || s.MaxMessages != -1) {
			t.Errorf("relay = %+v", s)
		}
	}
	if len(o.Models) != 2 || o.Models[0].Model != "other:1b" || o.Models[1].Model != testModel {
		t.Fatalf("models = %+v", o.Models)
	}
	want := []ClassStatus{
		{jobs.Interactive, Depth{}, Depth{InFlight: 1}},
		{jobs.Batch, Depth{Waiting: 4}, Depth{Waiting: 3}},
	}
	if got := o.Models[1].Classes; len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("work = %+v, want %+v", got, want)
	}
}

func TestInspectEmptyServer(t *testing.T) {
	t.Parallel()
	o, err := bareRig(t).Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range o.Streams {
		if !s.Missing {
			t.Errorf("stream %+v on an empty server", s)
		}
	}
	if len(o.Streams) != 7 || len(o.Models) != 0 || len(o.Workers) != 0 {
		t.Errorf("overview = %+v", o)
	}
}

// A server whose system account lets this one ask tells when it syncs.
func TestSyncSetting(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]Sync{"always": SyncAlways, "'1m'": SyncInterval} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			file := writeFile(t, []byte(`
				listen: "127.0.0.1:-1"
				max_payload: 8MB
				jetstream { store_dir: "`+filepath.ToSlash(t.TempDir())+`", sync_interval: `+setting+` }
				system_account: SYS
				accounts {
					SYS { exports: [ { service: "$SYS.REQ.SERVER.*.JSZ", accounts: [APP] } ] }
					APP {
						jetstream: enabled
						users: [ { user: u, password: p } ]
						imports: [ { service: { account: SYS, subject: "$SYS.REQ.SERVER.*.JSZ" } } ]
					}
				}`))
			opts, err := server.ProcessConfigFile(file)
			if err != nil {
				t.Fatal(err)
			}
			opts.NoSigs, opts.NoLog = true, true
			url := strings.Replace(runServer(t, opts), "nats://", "nats://u:p@", 1)
			if got := connects(t, Config{URL: url}).Sync(t.Context()); got != want {
				t.Errorf("sync = %s, want %s", got, want)
			}
		})
	}
}

// A worker that could not be told of a purge publishes nothing for the job when it is back.
func TestPurgeWhileWorkerIsAway(t *testing.T) {
	t.Parallel()
	refuse := func(context.Context, *protocol.Task) (protocol.Outcome, error) {
		return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineRefused, "no")
	}
	for _, tt := range []struct {
		name string
		role jobs.Stage
		run  func(context.Context, *protocol.Task) (protocol.Outcome, error)
	}{{"hop", protocol.RolePrefill, passOn}, {"result", protocol.RoleDecode, answer}, {"dead letter", protocol.RoleDecode, refuse}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var decodes book
			link := newLink(t, r.server.URL())
			r.link = link
			begun, goOn := make(chan struct{}), make(chan struct{})
			s := r.prepare(tt.role, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
				close(begun)
				<-goOn
				return tt.run(ctx, task)
			})
			r.link = nil
			j := testJob(jobs.Batch)
			if tt.role == protocol.RolePrefill {
				r.beginPrefill(s)
				r.start(protocol.RoleDecode, 1, decodes.note(answer))
				r.submit(j)
			} else {
				s.begin()
				r.relay(j)
			}
			<-begun
			link.cut()
			r.eventually("connection lost", func() bool { return !s.conn.Connected() })
			if _, err := r.client().PurgeBatch(t.Context(), j.Batch); err != nil {
				t.Fatal(err)
			}
			before := r.state(StreamRelay).LastSeq
			close(goOn)
			link.restore()
			r.eventually("end of the delivery", func() bool { return s.slots.Busy() == 0 })
			if results, letters := r.waiting(StreamResults), r.waiting(StreamDLQ); results+letters > 0 || r.state(StreamRelay).LastSeq > before || decodes.times() > 0 {
				t.Errorf("after the purge: %d results, %d dead letters, %d jobs decoded", results, letters, decodes.times())
			}
			if n := r.waiting(StreamIntake) + r.waiting(StreamRelay); n != 0 {
				t.Errorf("%d jobs are queued", n)
			}
		})
	}
}
