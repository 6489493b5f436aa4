package queue

import (
	"context"
	"crypto/tls"
	"path/filepath"
	"slices"
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

// storedPerJob are the messages that a job of two stages leaves in streams: job, hop, result.
const storedPerJob = 3

// mode is how often the server syncs its store to the disk, whether all is encrypted, and whether everybody has a key with rights of its own, too.
type mode struct {
	name              string
	lazy, tls, rights bool
}

var modes = []mode{{name: "sync=always"}, {name: "sync=always,TLS", tls: true}, {name: "sync=always,TLS,rights", tls: true, rights: true}, {name: "sync=default", lazy: true}}

// bench is a rig with a caller.
type bench struct {
	*rig
	caller *Client
	mode
}

func newBench(b *testing.B, m mode) *bench {
	o := natsembed.Options{Dir: b.TempDir(), LazySync: m.lazy}
	if !m.rights {
		r := &rig{t: b, timing: lively()}
		if m.tls {
			r.ca = encrypted(b, &o)
		}
		r.server = natstest.Start(b, o)
		r.begin()
		return &bench{r, NewClient(r.connect(), "user"), m}
	}
	r, _ := boundRigOn(b, o, "user")
	r.init(false, testModel)
	c := connects(b, Config{URL: r.urls, Name: "test", NKey: r.credential("user"), TLSCA: r.access.CA(), Inbox: "user", Timing: r.timing})
	return &bench{r, NewClient(c, "user"), m}
}

// encrypted has a server speak TLS, and returns the file of the authority that its clients know it by.
func encrypted(b *testing.B, o *natsembed.Options) (ca string) {
	folder := access.Folder(filepath.Join(b.TempDir(), "access"))
	if err := folder.Create([]string{"127.0.0.1"}, []string{testModel}); err != nil {
		b.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(string(folder), "server.pem"), filepath.Join(string(folder), "server-key.pem"))
	if err != nil {
		b.Fatal(err)
	}
	o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	return folder.CA()
}

// work starts a worker.
func (b *bench) work(role jobs.Stage, slots int, run func(context.Context, *protocol.Task) (protocol.Outcome, error)) {
	s := b.prepare(role, slots, run)
	if b.rights {
		b.bound(s, &logs.Buffer{})
	} else {
		s.begin()
	}
}

// submit has the caller submit jobs.
func (b *bench) submit(list ...*jobs.Job) {
	for _, j := range list {
		if err := b.caller.Submit(b.t.Context(), j, SubmitOptions{}); err != nil {
			b.t.Error(err)
		}
	}
}

// publishAll publishes a record for each job from so many goroutines at once, each waiting for every answer.
func publishAll(list []*jobs.Job, publishers int, publish func(...*jobs.Job)) {
	var all sync.WaitGroup
	for part := range slices.Chunk(list, (len(list)+publishers-1)/publishers) {
		all.Go(func() { publish(part...) })
	}
	all.Wait()
}

// store is a bare publish to a stream that is never full.
func (r *rig) store(list ...*jobs.Job) {
	for _, j := range list {
		r.publish(protocol.ResultSubject(j.User, j.Batch, j.ID), j.ID, j)
	}
}

// raw measures n bare publishes, 8 at a time.
func (r *rig) raw(n int) time.Duration {
	list := several(n, jobs.Batch)
	start := time.Now()
	publishAll(list, 8, r.store)
	return time.Since(start)
}

func BenchmarkRawPublish(b *testing.B) {
	for _, mode := range modes {
		b.Run(mode.name, func(b *testing.B) {
			r := newBench(b, mode)
			b.ResetTimer()
			took := r.raw(b.N)
			b.ReportMetric(float64(b.N)/took.Seconds(), "msgs/s")
		})
	}
}

// BenchmarkRawConsume fetches and acknowledges one message after the other, as 8 workers would.
func BenchmarkRawConsume(b *testing.B) {
	for _, mode := range modes {
		b.Run(mode.name, func(b *testing.B) {
			r := newBench(b, mode)
			publishAll(several(b.N, jobs.Batch), 64, r.relay)
			stream, cfg := consumer(r.timing, protocol.RoleDecode, testModel, jobs.Batch)
			left := make(chan struct{}, b.N)
			for range b.N {
				left <- struct{}{}
			}
			close(left)
			b.ResetTimer()
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					c, err := r.js.Consumer(b.Context(), stream, cfg.Durable)
					if err != nil {
						b.Error(err)
						return
					}
					for range left {
						msg, err := c.Next()
						if err == nil {
							err = msg.DoubleAck(b.Context())
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}

// BenchmarkTwoStage runs jobs through prefill and decode workers that do nothing, 8 slots each. Goal
// with sync=always: jobs/s at least 0.4 × raw publishes/s ÷ stored messages a job, which is goal-ratio 1.
func BenchmarkTwoStage(b *testing.B) {
	for _, mode := range modes {
		b.Run(mode.name, func(b *testing.B) {
			r := newBench(b, mode)
			raw := r.raw(1000)
			if err := r.empty(StreamResults); err != nil {
				b.Fatal(err)
			}
			r.work(protocol.RoleDecode, 8, answer)
			r.work(protocol.RolePrefill, 8, passOn)
			r.awaitAll(several(20, jobs.Batch)) // nothing is done for the first time while time is taken
			list := several(b.N, jobs.Batch)
			b.ResetTimer()
			r.awaitAll(list)
			perSecond := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(perSecond, "jobs/s")
			b.ReportMetric(perSecond/(0.4*1000/raw.Seconds()/storedPerJob), "goal-ratio")
		})
	}
}

// BenchmarkAddedLatency has one job in flight: from the submit to the result in the caller's hands,
// with engines that take no time. Goal with sync=always: p50 at most 3 ms. A bare publish between two jobs
// shows what the disk alone takes, three times a job.
func BenchmarkAddedLatency(b *testing.B) {
	for _, mode := range modes {
		b.Run(mode.name, func(b *testing.B) {
			r := newBench(b, mode)
			r.work(protocol.RoleDecode, 1, answer)
			r.work(protocol.RolePrefill, 1, passOn)
			job := func() {
				j := testJob(jobs.Interactive)
				r.submit(j)
				if _, err := r.caller.Await(b.Context(), j.ID); err != nil {
					b.Fatal(err)
				}
			}
			bare := func() {
				r.publish(protocol.DLQSubject(jobs.StageDecode, testModel, "user", jobs.NewID()), "", []byte("the size of this matters little"))
			}
			var jobsTook, bareTook []time.Duration
			timed := func(f func(), list *[]time.Duration) {
				start := time.Now()
				f()
				*list = append(*list, time.Since(start))
			}
			for range 20 {
				job()
			}
			for b.Loop() {
				timed(bare, &bareTook)
				timed(job, &jobsTook)
			}
			b.ReportMetric(percentile(jobsTook, 50), "p50-ms")
			b.ReportMetric(percentile(jobsTook, 99), "p99-ms")
			b.ReportMetric(percentile(bareTook, 50), "publish-p50-ms")
		})
	}
}

// percentile is in milliseconds.
func percentile(list []time.Duration, p int) float64 {
	slices.Sort(list)
	return float64(list[len(list)*p/100].Microseconds()) / 1000
}

// awaitAll submits jobs and awaits them, as a caller does.
func (b *bench) awaitAll(list []*jobs.Job) {
	var submitter sync.WaitGroup
	submitter.Go(func() { publishAll(list, 8, b.submit) })
	for _, err := range b.caller.AwaitBatch(b.t.Context(), list[0].Batch, ids(list)) {
		if err != nil {
			b.t.Fatal(err)
		}
	}
	submitter.Wait()
}

func (r *rig) empty(stream string) error {
	s, err := r.js.Stream(context.Background(), stream)
	if err != nil {
		return err
	}
	return s.Purge(context.Background())
}
