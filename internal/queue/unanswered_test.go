package queue

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tandem/jobs"
	"tandem/test/rig/tap"
)

// A request that reaches nobody, as while a cluster elects a leader, is made again, however long its caller is willing to wait.
func TestRequestsThatAreNeverAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var lose, lost atomic.Bool
	wire, err := tap.ListenNATS(tap.NATSOptions{Target: strings.TrimPrefix(r.server.URL(), "nats://"), On: func(op *tap.Op) tap.Verdict {
		asks := op.FromClient && (strings.HasPrefix(op.Subject, "$JS.API.CONSUMER.INFO.") || strings.HasPrefix(op.Subject, "$JS.API.STREAM.INFO."))
		if asks && lose.CompareAndSwap(true, false) {
			lost.Store(true)
			return tap.Lose
		}
		return tap.Pass
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = wire.Close() })
	patient, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	client := NewClient(r.connectTo("nats://"+wire.Addr()), "user")
	for _, tt := range []struct {
		name string
		call func() error
	}{
		{"submit", func() error { return client.Submit(patient, testJob(jobs.Batch), SubmitOptions{}) }},
		{"workers", func() error {
			return retryUnavailable(patient, absentLimit, func() error {
				_, err := client.Workers(patient)
				return err
			})
		}},
		{"time", func() error {
			return retryUnavailable(patient, absentLimit, func() error {
				_, err := client.serverTime(patient)
				return err
			})
		}},
	} {
		lost.Store(false)
		lose.Store(true)
		if err := tt.call(); err != nil || !lost.Load() {
			t.Errorf("%s: error %v; a request was lost: %v", tt.name, err, lost.Load())
		}
	}
}
