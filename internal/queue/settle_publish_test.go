package queue

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"tandem/internal/natsembed"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// A hop that was published already, and maybe consumed, is not published again; nor is it an error.
func TestHopIsPublishedOnce(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, natsembed.Options{Dir: t.TempDir()})
	j := testJob(jobs.Batch)
	hop := func() {
		t.Helper()
		o, _ := passOn(t.Context(), &protocol.Task{Job: j, Attempt: 1})
		if err := r.publishHop(t.Context(), o.Next, ""); err != nil {
			t.Error(err)
		}
		if n := r.state(StreamRelay).LastSeq; n != 1 {
			t.Errorf("%d hops are stored", n)
		}
	}
	hop()
	hop()
	if err := r.server.Restart(t.Context()); err != nil { // which may forget the message's id
		t.Fatal(err)
	}
	hop()
	r.start(protocol.RoleDecode, 1, answer)
	r.results(j)
	hop()
}

// The same record twice is one: an attempt whose answer was lost succeeded all the same.
func TestResultIsPublishedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := testJob(jobs.Batch)
	inbox := r.inbox("_INBOX.x.1")
	o, _ := answer(t.Context(), &protocol.Task{Job: j})
	for i := range 2 {
		if first, err := r.PublishResult(t.Context(), o.Result, "_INBOX.x.1"); err != nil || !first {
			t.Errorf("publish %d: first = %t, %v", i, first, err)
		}
		<-inbox
	}
	o, _ = answer(t.Context(), &protocol.Task{Job: j}) // finished a moment later
	if first, err := r.PublishResult(t.Context(), o.Result, "_INBOX.x.1"); err != nil || first {
		t.Errorf("another result: first = %t, %v", first, err)
	}
	if n := r.state(StreamResults).LastSeq; n != 1 || len(inbox) != 0 {
		t.Errorf("%d results are stored, %d more copies sent", n, len(inbox))
	}
}

func TestBuryTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := testJob(jobs.Batch)
	for range 2 {
		if err := r.PublishDeadLetter(t.Context(), jobs.StageDecode, j.Model, j.ID, DeadLetter{Code: jobs.CodeInvalid, Message: "x", Job: *j}); err != nil {
			t.Error(err)
		}
	}
	if n := r.state(StreamDLQ).LastSeq; n != 1 {
		t.Errorf("%d dead letters are stored", n)
	}
}

// Whoever reads the log learns that NATS keeps us waiting, once.
func TestRetrySaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		c := &Conn{log: slog.New(slog.NewTextHandler(&log, nil))}
		tries := 0
		err := c.retry(t.Context(), "look up job", func(context.Context) error {
			if tries++; tries < 5 {
				return errors.New("no stream")
			}
			return nil
		})
		if err != nil || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "look up job") || !strings.Contains(log.String(), "no stream") {
			t.Errorf("persist = %v, and the log says %q", err, log.String())
		}
	})
}
