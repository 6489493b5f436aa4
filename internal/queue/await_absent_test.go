package queue

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"tandem/internal/protocol"
	"tandem/jobs"
	"tandem/test/rig/tap"
)

// Whoever awaits a job that failed is told so, although no leader answers for a moment when it is asked whether the job was replayed.
func TestAwaitWhileNobodySaysWhetherItWasReplayed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var lose atomic.Bool
	var lost atomic.Int32
	wire, err := tap.ListenNATS(tap.NATSOptions{Target: strings.TrimPrefix(r.server.URL(), "nats://"), On: func(op *tap.Op) tap.Verdict {
		if op.FromClient && strings.HasPrefix(op.Subject, "$JS.API.STREAM.INFO.") && lose.CompareAndSwap(true, false) {
			lost.Add(1)
			return tap.Lose
		}
		return tap.Pass
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = wire.Close() })
	r.start(protocol.RoleDecode, 1, func(context.Context, *protocol.Task) (protocol.Outcome, error) {
		return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineRefused, "refused")
	})
	j := testJob(jobs.Batch)
	r.relay(j)
	if res := r.result(j); res.Status != jobs.Failed {
		t.Fatalf("status = %s, want failed", res.Status)
	}
	client := NewClient(r.connectTo("nats://"+wire.Addr()), j.User)
	lose.Store(true)
	for res, err := range client.AwaitBatch(t.Context(), j.Batch, []string{j.ID}) {
		if err != nil || res.Status != jobs.Failed {
			t.Errorf("AwaitBatch yields %+v, %v; want the failed result", res, err)
		}
	}
	if lost.Load() != 1 {
		t.Errorf("%d requests were lost, want one", lost.Load())
	}
}
