package queue

import (
	"cmp"
	"context"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// letterBound is what the dead letters of one user may take of their stream, so that those of the others stay: NATS itself drops
// the oldest of all when the stream is full. Letters of no known user, such as of records that cannot be read, count as one user's.
type letterBound struct {
	letters int
	bytes   int64
}

// defaultLetters has room for four users in the stream, and for more that do not use all of theirs.
func defaultLetters() letterBound { return letterBound{letters: 1000, bytes: lettersBytes / 4} }

// boundLetters removes the oldest dead letters of a user that are more than one may have. The newest stays.
func (c *Conn) boundLetters(ctx context.Context, user string) error {
	s, err := c.stream(ctx, StreamDLQ)
	if err != nil {
		return err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return c.failed(ctx, err, "look at stream %s", StreamDLQ)
	}
	if info.State.Msgs <= uint64(c.letters.letters) && info.State.Bytes <= uint64(c.letters.bytes) {
		return nil
	}
	users, err := c.letterSizes.list(ctx, c, StreamDLQ)
	if err != nil {
		return err
	}
	count, bytes := 0, int64(0)
	for _, l := range slices.Backward(users[cmp.Or(jobs.EncodeToken(user), protocol.NoUser)]) {
		count, bytes = count+1, bytes+l.bytes
		if count == 1 || count <= c.letters.letters && bytes <= c.letters.bytes {
			continue
		}
		if err := c.purge(ctx, StreamDLQ, l.subject, jetstream.WithPurgeSequence(l.seq+1)); err != nil {
			return err
		}
		c.log.Warn("dropped a dead letter: its user has as many that are newer as one user may have", "subject", l.subject)
	}
	return nil
}
