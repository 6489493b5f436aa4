package queue

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// A nats-server (2.15) that is told to end while an acknowledgement arrives may note it and not remove the message. No consumer gets such a
// message any more, yet it stays in its stream, where it takes a place of the intake and makes a job that has ended look as if it ran. A
// cluster looks for them by itself; for a server that is alone, the workers do.

// sweep removes them, now and whenever the connection is back, until ctx ends.
func (w *Worker) sweep(ctx context.Context) {
	back := w.c.nc.StatusChanged(nats.CONNECTED)
	defer w.c.nc.RemoveStatusListener(back)
	for {
		for _, role := range w.roles() {
			for _, class := range protocol.Tokens(role) {
				_ = w.c.retry(ctx, "look for messages that were acknowledged", func(ctx context.Context) error {
					return w.c.sweep(ctx, role, w.cfg.Model, class)
				}) // else ctx has ended, or the connection
			}
		}
		select {
		case _, ok := <-back:
			if !ok {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// sweep removes from a consumer's stream what it has acknowledged.
func (c *Conn) sweep(ctx context.Context, role jobs.Stage, model string, class jobs.Class) error {
	stream, want := consumer(c.timing, role, model, class)
	have, err := c.js.Consumer(ctx, stream, want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil // which acknowledged nothing
	}
	if err != nil {
		return c.failed(ctx, err, "look at consumer %s", want.Durable)
	}
	floor := have.CachedInfo().AckFloor.Stream // all messages up to here are acknowledged
	for _, filter := range append(want.FilterSubjects, want.FilterSubject) {
		if filter == "" {
			continue
		}
		for seq := uint64(1); seq <= floor; seq++ {
			msg, err := c.ofLeader(ctx, stream, msgGet{Seq: seq, NextFor: filter})
			if err != nil {
				return err
			}
			if msg == nil || msg.Sequence > floor {
				break
			}
			seq = msg.Sequence
			over, err := c.left(ctx, stream, msg)
			switch {
			case err != nil:
				return err
			case !over:
				c.log.Error("a message was acknowledged, and its job has neither a result nor moved on; if that stays so, remove the consumer, and the workers begin it anew: nats consumer rm "+stream+" "+want.Durable,
					"subject", msg.Subject, "seq", msg.Sequence)
			default:
				if err := c.purge(ctx, stream, msg.Subject, jetstream.WithPurgeSequence(msg.Sequence+1)); err != nil {
					return err
				}
				c.log.Info("removed a message that NATS had taken as acknowledged and kept", "subject", msg.Subject, "seq", msg.Sequence)
			}
		}
	}
	return nil
}

// left reports whether the job of a message in a stream has left that stream: it has its result, or waits at the next.
func (c *Conn) left(ctx context.Context, stream string, msg *jetstream.RawStreamMsg) (bool, error) {
	l, err := pendingAt(stream, msg)
	if err != nil {
		return true, nil // it was dead-lettered as it is, before it was acknowledged
	}
	if stream == StreamIntake {
		hop, err := c.lastMsg(ctx, StreamRelay, protocol.AnyJobFilter("*", l.job.User, l.job.ID))
		if hop != nil || err != nil {
			return hop != nil, err
		}
	}
	result, err := c.lastMsg(ctx, StreamResults, protocol.ResultSubject(l.job.User, l.job.Batch, l.job.ID))
	return result != nil, err
}
