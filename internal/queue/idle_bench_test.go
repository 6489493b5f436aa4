package queue

import (
	"context"
	"sync"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// BenchmarkIdleBetweenJobs measures how long an engine with one slot and a backlog has nothing to do between two jobs. A job keeps
// it busy for so long that pulls which cannot be served are withdrawn meanwhile, as with real engines.
func BenchmarkIdleBetweenJobs(b *testing.B) {
	const computes, moves = 300 * time.Millisecond, 50 * time.Millisecond
	for _, tt := range []struct {
		name  string
		role  jobs.Stage
		ahead int
	}{{"prefill", protocol.RolePrefill, 0}, {"prefill ahead", protocol.RolePrefill, 1}, {"decode", protocol.RoleDecode, 0}, {"decode ahead", protocol.RoleDecode, 1}} {
		b.Run(tt.name, func(b *testing.B) {
			r := newBench(b, modes[0])
			var mu sync.Mutex
			var idle []time.Duration
			var ended time.Time
			list := several(b.N+1, jobs.Batch)
			done := make(chan struct{}, len(list))
			var moved sync.Map
			prepare := func(_ context.Context, t *protocol.Task) func() {
				<-time.After(moves)
				moved.Store(t, true)
				return func() {}
			}
			run := func(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
				if _, there := moved.Load(t); tt.role == protocol.RoleDecode && !there {
					prepare(ctx, t)
				}
				mu.Lock()
				if !ended.IsZero() {
					idle = append(idle, time.Since(ended))
				}
				mu.Unlock()
				<-time.After(computes)
				mu.Lock()
				ended = time.Now()
				mu.Unlock()
				done <- struct{}{}
				if tt.role == protocol.RolePrefill {
					return passOn(ctx, t)
				}
				return answer(ctx, t)
			}
			ahead := func(c *WorkerConfig) {
				if c.Ahead = tt.ahead; tt.role == protocol.RoleDecode {
					c.Prepare = prepare
				}
			}
			if tt.role == protocol.RolePrefill {
				r.startPrefill(1, run, ahead)
				r.start(protocol.RoleDecode, 4, answer)
				r.submit(list...)
			} else {
				r.relay(list...)
				r.start(protocol.RoleDecode, 1, run, ahead)
			}
			for range list {
				<-done
			}
			b.ReportMetric(percentile(idle, 50), "idle-p50-ms")
			b.ReportMetric(percentile(idle, 90), "idle-p90-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
