package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/jobs"
	"tandem/internal/natsembed/natstest"
)

// The last message may be lost without another that would show the gap.
func TestReaderMissesTheLastMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	list := input(3)
	r.finish(list...)
	read := &reader{c: r.Conn, stream: StreamResults, filter: jobs.SubjectResults}
	defer read.close()
	for i := range list {
		if i == 1 { // whatever the server delivers from now on, this reader has not seen
			read.close()
			if err := read.open(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := read.messages.Next(); err != nil {
					t.Fatal(err)
				}
			}
		}
		msg, err := read.next(t.Context(), enough)
		if err != nil || msg == nil {
			t.Fatalf("message %d: %v, %v", i, msg, err)
		}
		if want := jobs.ResultSubject(list[i].User, list[i].Batch, list[i].ID); msg.Subject() != want {
			t.Errorf("message %d is %s, want %s", i, msg.Subject(), want)
		}
	}
}

// A caller that gives up while a consumer is being made leaves none behind.
func TestReaderGivesUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.finish(input(1)...)
	read := func(wait time.Duration) (come bool) {
		results := &reader{c: r.Conn, stream: StreamResults, filter: jobs.SubjectResults}
		defer results.close()
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		msg, err := results.next(ctx, enough)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return msg != nil
	}
	for wait := 100 * time.Microsecond; !read(wait); wait += wait / 10 {
	}
	r.forgotten(StreamResults)
}

// The server of a reader's consumer is started again and has forgotten what it delivered, and that somebody waits. The reader is
// connected to another one, which does not tell.
func TestReaderOnRestartedServer(t *testing.T) {
	t.Parallel()
	for before, name := range map[int]string{0: "before the first message", 1: "after a message"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newClusterRig(t)
			list := input(2)
			read := &reader{c: r.Conn, stream: StreamResults, filter: jobs.SubjectResults}
			defer read.close()
			next := func(j *jobs.Job) {
				t.Helper()
				var msg jetstream.Msg
				r.eventually("the next message", func() (come bool) {
					var err error
					if msg, err = read.next(t.Context(), awaitLook); err != nil {
						t.Fatal(err)
					}
					return msg != nil
				})
				if msg.Subject() != jobs.ResultSubject(j.User, j.Batch, j.ID) {
					t.Fatalf("the next message is %s", msg.Subject())
				}
			}
			here, home := "", -1
			r.eventually("a consumer on another server than the connection's", func() bool {
				read.close()
				if read.open(t.Context()) != nil {
					return false
				}
				here = r.nc.ConnectedServerName()
				for i := range r.servers {
					if c := read.consumer.CachedInfo().Cluster; c != nil && c.Leader == natstest.ClusterName(i) && c.Leader != here {
						home = i
					}
				}
				return home >= 0
			})
			for _, j := range list[:before] {
				r.finish(j)
				next(j)
			}
			r.restart(home)
			r.eventually("the server's part in the cluster", func() bool {
				_, err := read.consumer.Info(t.Context())
				return err == nil
			})
			if r.nc.ConnectedServerName() != here {
				t.Fatal("the connection moved")
			}
			for _, j := range list[before:] {
				r.finish(j)
				next(j)
			}
		})
	}
}
