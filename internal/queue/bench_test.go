package queue

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/jobs"
	"tandem/internal/natsembed"
)

// storedPerJob are the messages that a job of two stages leaves in streams: job, hop, result.
const storedPerJob = 3

// syncModes are how often the server syncs its store to the disk.
var syncModes = []struct {
	name string
	lazy bool
}{{"sync=always", false}, {"sync=default", true}}

func newBench(b *testing.B, lazy bool) *rig {
	return newRigOn(b, natsembed.Options{Dir: b.TempDir(), LazySync: lazy})
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
		r.publish(jobs.ResultSubject(j.User, j.Batch, j.ID), j.ID, j)
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
	for _, mode := range syncModes {
		b.Run(mode.name, func(b *testing.B) {
			r := newBench(b, mode.lazy)
			b.ResetTimer()
			took := r.raw(b.N)
			b.ReportMetric(float64(b.N)/took.Seconds(), "msgs/s")
		})
	}
}

// BenchmarkRawConsume fetches and acknowledges one message after the other, as 8 workers would.
func BenchmarkRawConsume(b *testing.B) {
	for _, mode := range syncModes {
		b.Run(mode.name, func(b *testing.B) {
			r := newBench(b, mode.lazy)
			publishAll(several(b.N, jobs.Batch), 64, r.relay)
			stream, cfg := consumer(r.timing, jobs.RoleDecode, testModel, jobs.Batch)
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
	for _, mode := range syncModes {
		b.Run(mode.name, func(b *testing.B) {
			r := newBench(b, mode.lazy)
			raw := r.raw(1000)
			if err := r.empty(StreamResults); err != nil {
				b.Fatal(err)
			}
			r.start(jobs.RoleDecode, 8, answer)
			r.start(jobs.RolePrefill, 8, passOn)
			results := r.stored(b)
			if err := r.warm(results); err != nil {
				b.Fatal(err)
			}
			list := several(b.N, jobs.Batch)
			b.ResetTimer()
			var submitter sync.WaitGroup
			submitter.Go(func() { publishAll(list, 8, r.submit) })
			for range list {
				<-results
			}
			submitter.Wait()
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
	for _, mode := range syncModes {
		b.Run(mode.name, func(b *testing.B) {
			r := newBench(b, mode.lazy)
			r.start(jobs.RoleDecode, 1, answer)
			r.start(jobs.RolePrefill, 1, passOn)
			results := r.stored(b)
			job := func() {
				r.submit(testJob(jobs.Interactive))
				<-results
			}
			bare := func() {
				r.publish(jobs.DLQSubject(jobs.StageDecode, testModel, jobs.NewID()), "", []byte("the size of this matters little"))
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

// stored delivers each result once it is stored, as an awaiting caller gets it.
func (r *rig) stored(b *testing.B) chan jetstream.Msg {
	c, err := r.js.OrderedConsumer(b.Context(), StreamResults, jetstream.OrderedConsumerConfig{})
	if err != nil {
		b.Fatal(err)
	}
	ch := make(chan jetstream.Msg, 1000)
	consuming, err := c.Consume(func(m jetstream.Msg) { ch <- m })
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		consuming.Stop()
		<-consuming.Closed()
	})
	return ch
}

// warm sends a few jobs through, so that nothing is done for the first time while time is taken.
func (r *rig) warm(results chan jetstream.Msg) error {
	list := several(20, jobs.Batch)
	r.submit(list...)
	for range list {
		<-results
	}
	return r.empty(StreamResults)
}

func (r *rig) empty(stream string) error {
	s, err := r.js.Stream(context.Background(), stream)
	if err != nil {
		return err
	}
	return s.Purge(context.Background())
}
