package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/jobs"
)

// reader reads the messages of a stream under a filter once each and in order, those that are there
// and then those that come, whatever happens to the connection or the server. nats.go's ordered
// consumer does the same, but goes on for seconds when its caller's context has ended during an outage.
// A reader belongs to one goroutine.
type reader struct {
	c              *Conn
	stream, filter string
	headersOnly    bool // messages come without their data

	seq        uint64 // in the stream, of the last message read
	delivered  uint64 // by the consumer: a gap means that a message was lost on the way
	reconnects uint64 // of the connection when the consumer was made
	consumer   jetstream.Consumer
	messages   jetstream.MessagesContext // nil while there is no consumer
}

const (
	readerLook      = time.Second     // how often a quiet reader looks whether it has missed anything
	readerHeartbeat = 2 * time.Second // how often the server says that it still knows the consumer
	readerPause     = 50 * time.Millisecond
	readerIdle      = 30 * time.Second // after which the server forgets a consumer that nobody reads
	readerMessages  = 100              // on their way at once,
	readerBytes     = 16 << 20         // and the bytes of these
	readerLimit     = time.Second      // for making or deleting a consumer
)

// next returns the next message, or nil if none came within wait. It fails when ctx ends, with its
// cause, and when nothing can be read at all.
func (r *reader) next(ctx context.Context, wait time.Duration) (jetstream.Msg, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		msg, err := r.step(ctx, waiting)
		switch {
		case msg != nil:
			return msg, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case waiting.Err() != nil:
			return nil, nil
		case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrJetStreamNotEnabled), jobs.CodeOf(err) == jobs.CodeNATS:
			return nil, jobs.Errorf(jobs.CodeNATS, "read stream %s: %w", r.stream, err)
		case err != nil: // the consumer, or the connection, is gone; begin anew where we are
			r.close()
			pause(waiting, readerPause)
		}
	}
}

// step makes the consumer if there is none, and waits a little for a message, as long as waiting lasts. That nothing is missed is asked
// in spite of its end.
func (r *reader) step(ctx, waiting context.Context) (jetstream.Msg, error) {
	if r.messages == nil {
		if err := r.open(waiting); err != nil {
			return nil, r.c.explain(err)
		}
	}
	if r.c.nc.Stats().Reconnects != r.reconnects {
		return nil, errors.New("the connection was lost, and with it what was on its way")
	}
	looking, cancel := context.WithTimeout(waiting, readerLook)
	defer cancel()
	msg, err := r.messages.Next(jetstream.NextContext(looking))
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, r.complete(ctx)
	}
	if err != nil {
		return nil, err
	}
	meta, err := msg.Metadata()
	if err != nil {
		return nil, err
	}
	if meta.Sequence.Consumer != r.delivered+1 {
		return nil, errors.New("a message was lost on the way")
	}
	r.delivered, r.seq = meta.Sequence.Consumer, meta.Sequence.Stream
	return msg, nil
}

// complete begins anew if the consumer is not where this reader is. It may have delivered what did not come: no gap shows that the last
// message was lost, as when too much came at once for this client, until there is another. Or its server, one of a cluster, was
// started again and knows neither what it delivered nor that somebody waits; the connection is to another server and shows nothing.
func (r *reader) complete(ctx context.Context) error {
	if ctx.Err() != nil || !r.c.nc.IsConnected() {
		return nil // there is no time to ask, or nobody
	}
	asking, cancel := context.WithTimeout(ctx, readerLook)
	defer cancel()
	info, err := r.consumer.Info(asking)
	switch {
	case err != nil:
		r.close() // also where nobody waits any more, who would begin anew
		return err
	case info.Delivered.Consumer != r.delivered:
		r.close()
		return errors.New("the last messages were lost on the way")
	case info.NumWaiting == 0 && info.NumPending > 0:
		r.close()
		return errors.New("the server does not know that somebody waits for messages")
	}
	return nil
}

// open makes a consumer that begins after the last message read. It lives in the server's memory and acknowledges nothing. A request
// that was sent gets its answer or runs into its limit, even when ctx ends meanwhile: nobody would delete a consumer whose making was given up.
func (r *reader) open(ctx context.Context) (err error) {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !r.c.nc.IsConnected() {
		return errors.New("there is no connection, and what is sent now would come later")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readerLimit)
	defer cancel()
	r.delivered, r.reconnects = 0, r.c.nc.Stats().Reconnects
	r.consumer, err = r.c.js.CreateConsumer(ctx, r.stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.seq + 1,
		FilterSubject: r.filter, HeadersOnly: r.headersOnly, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: readerIdle,
	})
	if err != nil {
		return err
	}
	r.messages, err = r.consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(readerMessages, readerBytes),
		jetstream.PullHeartbeat(readerHeartbeat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
	return err
}

// close ends the reading for now; next would go on after the last message read.
func (r *reader) close() {
	if r.messages == nil {
		return
	}
	r.messages.Stop()
	r.messages = nil
	if r.c.nc.IsConnected() && r.c.nc.Stats().Reconnects == r.reconnects {
		ctx, cancel := context.WithTimeout(context.Background(), readerLimit)
		defer cancel()
		_ = r.c.js.DeleteConsumer(ctx, r.stream, r.consumer.CachedInfo().Name) // else the server forgets it soon
	}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
