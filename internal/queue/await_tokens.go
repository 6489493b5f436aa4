package queue

import (
	"context"
	"errors"
	"iter"

	"github.com/nats-io/nats.go"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// TokenStream brings the text of a job while it is generated. Pieces may be lost, and begin again at
// sequence 0 with a higher attempt when the job is run again: they are shown as they come, and the
// result is what counts.
type TokenStream struct {
	c   *Client
	job string
	sub *nats.Subscription
}

// Tokens begins to listen for the text of a job that is going to be submitted with Stream set. When it
// returns the server knows of it, so no piece of a job submitted afterwards is missed. Close must be called.
func (c *Client) Tokens(ctx context.Context, batch, jobID string) (*TokenStream, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	sub, err := c.nc.SubscribeSync(protocol.TokensSubject(c.user, batch, jobID))
	if err == nil {
		if err = c.nc.FlushWithContext(ctx); err == nil {
			return &TokenStream{c, jobID, sub}, nil
		}
		_ = sub.Unsubscribe()
	}
	return nil, c.failed(ctx, err, "subscribe to tokens")
}

// Chunks yields the pieces as they come, until ctx ends, or the stream is closed and all that had
// come by then was yielded.
func (s *TokenStream) Chunks(ctx context.Context) iter.Seq[*jobs.Chunk] {
	return func(yield func(*jobs.Chunk) bool) {
		for {
			msg, err := s.sub.NextMsgWithContext(ctx)
			if errors.Is(err, nats.ErrSlowConsumer) {
				continue // pieces were lost; go on with the next
			}
			if err != nil {
				return
			}
			chunk, err := jobs.Decode[jobs.Chunk](msg.Data)
			if err != nil {
				s.c.log.Warn("piece of text cannot be read", "subject", msg.Subject, "error", err)
				continue
			}
			if chunk.JobID != s.job {
				continue // sent by somebody who may not know better
			}
			if !yield(chunk) {
				return
			}
		}
	}
}

// Close ends the stream; a Chunks that is running yields what has come, and ends. Called when the result is
// there, it loses nothing: a worker publishes the text before the result.
func (s *TokenStream) Close() { _ = s.sub.Drain() }
