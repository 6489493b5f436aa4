package queue

import (
	"context"
	"errors"
	"iter"

	"github.com/nats-io/nats.go"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Events begins to listen for what happens to jobs of the client's user: to all of a batch, or one of them. Empty names stand for any.
// When it returns the server knows of it, so nothing that happens afterwards is missed, but what is lost because the reader is slow or NATS away.
// The events end with ctx.
func (c *Client) Events(ctx context.Context, batch, jobID string) (iter.Seq[*jobs.Event], error) {
	for _, name := range []*string{&batch, &jobID} {
		if *name == "" {
			*name = "*"
		}
	}
	return c.events(ctx, protocol.EventsSubject(c.user, batch, jobID))
}

// AllEvents is Events of all users, and of workers.
func (c *Conn) AllEvents(ctx context.Context) (iter.Seq[*jobs.Event], error) {
	return c.events(ctx, "events.>")
}

// JobEvents is Events of all users; in a grader's account, of the client's user.
func (c *Client) JobEvents(ctx context.Context) (iter.Seq[*jobs.Event], error) {
	if c.grader {
		return c.Events(ctx, "", "")
	}
	return c.events(ctx, "events.*.*.*")
}

func (c *Conn) events(ctx context.Context, subject string) (iter.Seq[*jobs.Event], error) {
	sub, err := c.nc.SubscribeSync(subject)
	if err == nil {
		asking, cancel := context.WithTimeout(ctx, tryLimit)
		defer cancel()
		if err = c.nc.FlushWithContext(asking); err != nil {
			_ = sub.Unsubscribe() // fails only on a closed connection
		}
	}
	if err != nil {
		return nil, c.failed(ctx, err, "listen for events")
	}
	context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // fails only on a closed connection
	return func(yield func(*jobs.Event) bool) {
		for {
			msg, err := sub.NextMsgWithContext(ctx)
			if errors.Is(err, nats.ErrSlowConsumer) {
				continue // some were lost; go on with the next
			}
			if err != nil {
				return
			}
			e, err := jobs.Decode[jobs.Event](msg.Data)
			if err != nil {
				c.log.Warn("event cannot be read", "subject", msg.Subject, "error", err)
				continue
			}
			if !yield(e) {
				return
			}
		}
	}, nil
}
