package queue

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"tandem/internal/natsembed"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// bringBack does something, and then gives a stream the messages back that it had before. The consumers keep what they know. It is what a
// server leaves behind that was told to end at the wrong moment.
func (r *rig) bringBack(dir, stream string, do func()) {
	r.t.Helper()
	store, before := filepath.Join(dir, "jetstream", "$G", "streams", stream, "msgs"), filepath.Join(r.t.TempDir(), "before")
	stopped := func(f func() error) {
		r.t.Helper()
		r.server.Stop()
		r.eventually("a lost connection", func() bool { return !r.nc.IsConnected() }) // or what is asked next may go into the old one
		if err := f(); err != nil {
			r.t.Fatal(err)
		}
		if err := r.server.Restart(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
		r.eventually("the connection", r.nc.IsConnected)
	}
	stopped(func() error { return os.CopyFS(before, os.DirFS(store)) })
	do()
	stopped(func() error {
		if err := os.RemoveAll(store); err != nil {
			return err
		}
		return os.CopyFS(store, os.DirFS(before))
	})
}

func TestAcknowledgedMessagesAreRemoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream  string
		outlive bool // the worker, the server's restart
	}{
		"relay, a worker starts":           {StreamRelay, false},
		"relay, a worker comes back":       {StreamRelay, true},
		"intake, while they run at decode": {StreamIntake, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := newRigOn(t, natsembed.Options{Dir: dir})
			var done book
			list := input(3)
			queue, start := r.relay, func() *station { return r.start(protocol.RoleDecode, 2, done.note(answer)) }
			if c.stream == StreamIntake {
				queue, start = r.submit, func() *station {
					s := r.startPrefill(2, done.note(passOn))
					r.start(protocol.RoleDecode, len(list), func(ctx context.Context, _ *protocol.Task) (protocol.Outcome, error) {
						<-ctx.Done()
						return protocol.Outcome{}, ctx.Err()
					})
					return s
				}
			}
			queue(list...)
			r.bringBack(dir, c.stream, func() {
				s := start()
				r.eventually("jobs done", func() bool { return done.times() == len(list) && r.waiting(c.stream) == 0 })
				if !c.outlive {
					_ = s.stop()
				}
			})
			if !c.outlive {
				if n := r.waiting(c.stream); n != len(list) {
					t.Fatalf("%d messages are back, want %d", n, len(list))
				}
				start()
			}
			r.eventually("an empty stream", func() bool { return r.waiting(c.stream) == 0 })
			if n := done.times(); n != len(list) {
				t.Errorf("%d tasks ran, want %d", n, len(list))
			}
		})
	}
}

// Whatever a consumer says: what is removed is only the message of a job that goes on elsewhere or has ended.
func TestAcknowledgedMessageOfUnfinishedJobStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRigOn(t, natsembed.Options{Dir: dir})
	j := testJob(jobs.Batch)
	r.relay(j)
	r.bringBack(dir, StreamRelay, func() {
		c, err := r.js.Consumer(t.Context(), StreamRelay, protocol.ConsumerName(protocol.RoleDecode, testModel, j.Class))
		if err != nil {
			t.Fatal(err)
		}
		msg, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := msg.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	sweep := func(want int) {
		t.Helper()
		if err := r.sweep(t.Context(), protocol.RoleDecode, testModel, j.Class); err != nil {
			t.Fatal(err)
		}
		if n := r.waiting(StreamRelay); n != want {
			t.Errorf("%d messages are there, want %d", n, want)
		}
	}
	sweep(1)
	r.finish(j)
	sweep(0)
}
